//! The contract is documented, down to the fields: a policy's author sees nothing else.
#![allow(missing_docs)]

use std::path::PathBuf;

use wit_parser::{Docs, Resolve, TypeDefKind};

#[test]
fn every_interface_type_field_and_function_is_documented() {
    // As cargo says now: this may have been built for another tree.
    let krate = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where its crate is"));
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(krate.join("../../wit")).unwrap();
    let mut bare = Vec::new();
    let mut look = |docs: &Docs, what: String| {
        if docs.contents.as_deref().unwrap_or("").trim().is_empty() {
            bare.push(what);
        }
    };
    for (interface_name, id) in &resolve.packages[package].interfaces {
        let interface = &resolve.interfaces[*id];
        look(&interface.docs, interface_name.clone());
        for (name, id) in &interface.types {
            let path = format!("{interface_name}.{name}");
            let of = &resolve.types[*id];
            match &of.kind {
                // Taken from another interface by `use`, and documented there.
                TypeDefKind::Type(wit_parser::Type::Id(_)) => continue,
                TypeDefKind::Record(record) => {
                    record.fields.iter().for_each(|field| look(&field.docs, format!("{path}.{}", field.name)));
                }
                _ => {}
            }
            look(&of.docs, path);
        }
        for (name, function) in &interface.functions {
            look(&function.docs, format!("{interface_name}.{name}"));
        }
    }
    for (name, world) in &resolve.packages[package].worlds {
        look(&resolve.worlds[*world].docs, format!("world {name}"));
    }
    assert!(bare.is_empty(), "without documentation: {}", bare.join(", "));
}
