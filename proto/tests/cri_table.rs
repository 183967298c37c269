//! The CRI contract, compared with the table of facts in both directions: what either side has alone is named.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

const TABLE: &str = include_str!("cri-v1.tsv");

#[test]
fn contract_and_table_agree() {
    let file = contract();
    assert_eq!(file.syntax(), "proto3");

    let table: BTreeSet<String> = TABLE.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let contract = rows(&file);

    let missing: Vec<_> = table.difference(&contract).collect();
    let surplus: Vec<_> = contract.difference(&table).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "only in the table: {missing:#?}\nonly in api.proto: {surplus:#?}");
}

#[test]
fn there_are_43_calls() {
    let calls: usize = contract().service.iter().map(|service| service.method.len()).sum();
    assert_eq!(calls, 43);
}

/// The comparison must see every kind of difference, or its silence means nothing.
#[test]
fn a_difference_of_each_kind_is_seen() {
    type Edit = fn(&mut FileDescriptorProto);
    let edits: &[(&str, Edit)] = &[
        ("a call becomes a stream", |f| f.service[0].method[0].server_streaming = Some(true)),
        ("a call takes another message", |f| f.service[0].method[0].input_type = Some(".runtime.v1.Mount".into())),
        ("a message goes", |f| drop(f.message_type.pop())),
        ("a field goes", |f| drop(f.message_type[0].field.pop())),
        ("a field is renamed", |f| f.message_type[0].field[0].name = Some("other".into())),
        ("a number changes", |f| f.message_type[0].field[0].number = Some(99)),
        ("a type changes", |f| f.message_type[0].field[0].set_type(Type::Bytes)),
        ("a label changes", |f| f.message_type[0].field[0].set_label(Label::Repeated)),
        ("a field joins a oneof", |f| f.message_type[0].field[0].oneof_index = Some(0)),
        ("a field learns presence", |f| f.message_type[0].field[0].proto3_optional = Some(true)),
        ("an enum value changes", |f| f.enum_type[0].value[1].number = Some(99)),
        ("an enum value goes", |f| drop(f.enum_type[0].value.pop())),
    ];
    let before = rows(&contract());
    for (name, edit) in edits {
        let mut file = contract();
        edit(&mut file);
        assert_ne!(rows(&file), before, "{name}");
    }
}

fn contract() -> FileDescriptorProto {
    let set = FileDescriptorSet::decode(polylet_proto::DESCRIPTORS).expect("descriptors.bin is a FileDescriptorSet");
    set.file.into_iter().find(|file| file.package() == "runtime.v1").expect("the CRI is in descriptors.bin")
}

/// The contract in the table's own columns.
fn rows(file: &FileDescriptorProto) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for service in &file.service {
        for call in &service.method {
            rows.insert(format!(
                "rpc\t{}\t{}\t{}\t{}\t{}\t{}",
                service.name(),
                call.name(),
                local(call.input_type()),
                local(call.output_type()),
                call.client_streaming(),
                call.server_streaming()
            ));
        }
    }
    for message in &file.message_type {
        message_rows(message, "", &mut rows);
    }
    for each in &file.enum_type {
        enum_rows(each, "", &mut rows);
    }
    rows
}

fn message_rows(message: &DescriptorProto, prefix: &str, rows: &mut BTreeSet<String>) {
    let name = format!("{prefix}{}", message.name());
    if message.field.is_empty() {
        rows.insert(format!("message\t{name}\t(empty)"));
    }
    for field in &message.field {
        let (kind, label) = kind_and_label(field, message);
        let deprecated = field.options.as_ref().is_some_and(|options| options.deprecated());
        let note = match (field.proto3_optional(), field.oneof_index) {
            (true, _) => "optional".to_owned(),
            (false, Some(index)) => format!("oneof {index}"),
            (false, None) if deprecated => "deprecated".to_owned(),
            (false, None) => String::new(),
        };
        rows.insert(format!("field\t{name}\t{}\t{}\t{kind}\t{label}\t{note}", field.name(), field.number()));
    }
    for each in &message.enum_type {
        enum_rows(each, &format!("{name}."), rows);
    }
    let nested = message.nested_type.iter().filter(|nested| !is_map_entry(nested));
    nested.for_each(|nested| message_rows(nested, &format!("{name}."), rows));
}

fn enum_rows(each: &EnumDescriptorProto, prefix: &str, rows: &mut BTreeSet<String>) {
    for value in &each.value {
        rows.insert(format!("enum\t{prefix}{}\t{}\t{}", each.name(), value.name(), value.number()));
    }
}

fn kind_and_label(field: &FieldDescriptorProto, message: &DescriptorProto) -> (String, &'static str) {
    let entry = message
        .nested_type
        .iter()
        .find(|nested| is_map_entry(nested) && field.type_name().ends_with(&format!(".{}.{}", message.name(), nested.name())));
    match entry {
        Some(entry) => (format!("map<{},{}>", kind(&entry.field[0]), kind(&entry.field[1])), "map"),
        None if field.label() == Label::Repeated => (kind(field), "repeated"),
        None => (kind(field), ""),
    }
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

fn kind(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

fn local(type_name: &str) -> &str {
    type_name.trim_start_matches(".runtime.v1.")
}
