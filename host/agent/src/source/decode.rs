//! Bytes of a manifest → the API object, with nothing in it ignored.
//!
//! The API types skip what they do not know and stop at the first value of a wrong type. Here every unknown field and every such value is
//! named by its path, together. Of values of a wrong type the first [`MOST_ERRORS`] are looked for, since each takes another reading of
//! the whole.

use std::fmt;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::{MOST_ERRORS, SourceError};
use crate::document::field::{At, Findings, kind_of};
use crate::document::{as_written, parse, suggest};

/// Fields whose entries have free names: they are written `labels[app.kubernetes.io/name]`.
const MAPS: [&str; 8] =
    ["annotations", "labels", "limits", "matchLabels", "nodeSelector", "overhead", "requests", "volumeAttributes"];

/// One `v1` Pod as YAML or JSON. `file` is only named in errors.
pub fn decode(bytes: &[u8], file: &str) -> Result<v1::Pod, SourceError> {
    let map = parse(bytes).map_err(|cause| SourceError::Document { file: file.to_owned(), cause })?;
    let mut findings = Findings::default();
    let pod = pod_of(map, &[], &["Pod"], bytes, &mut findings);
    match pod {
        Some(pod) if findings.0.is_empty() => Ok(pod),
        _ => Err(SourceError::fields(file, findings.0)),
    }
}

/// One `v1` Pod, or all of a `v1` PodList, as YAML or JSON. Entries of a list may leave their kind out, as the API server does.
pub fn decode_all(bytes: &[u8], file: &str) -> Result<Vec<v1::Pod>, SourceError> {
    const LIST: &str = "PodList";
    let mut map = parse(bytes).map_err(|cause| SourceError::Document { file: file.to_owned(), cause })?;
    let mut findings = Findings::default();
    let mut pods = Vec::new();
    if map.get("kind").and_then(Value::as_str) != Some(LIST) {
        pods.extend(pod_of(map, &[], &["Pod", LIST], bytes, &mut findings));
    } else {
        check_kind(&map, &At::root(), &[LIST], &mut findings);
        let items = map.shift_remove("items").unwrap_or_default();
        let known = ["apiVersion", "kind", "metadata"];
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let told = findings.0.len() < MOST_ERRORS;
            let hint = told.then(|| suggest::did_you_mean(name, known.into_iter().chain(["items"])));
            findings.unknown(&At::root().child(name), hint.unwrap_or_default());
        }
        match items {
            Value::Null => {}
            Value::Array(items) => {
                for (i, item) in items.into_iter().enumerate() {
                    let place = [Step::Field("items".to_owned()), Step::Index(i)];
                    let mut item = match item {
                        Value::Object(item) => item,
                        other => {
                            findings.invalid(&at(&place), other, "must be a mapping (Pod)");
                            continue;
                        }
                    };
                    for (field, value) in [("apiVersion", "v1"), ("kind", "Pod")] {
                        item.entry(field).or_insert_with(|| Value::from(value));
                    }
                    pods.extend(pod_of(item, &place, &["Pod"], bytes, &mut findings));
                    if findings.0.len() >= MOST_ERRORS {
                        break;
                    }
                }
            }
            other => findings.invalid(&At::of("items"), other, "must be a list"),
        }
    }
    if findings.0.is_empty() { Ok(pods) } else { Err(SourceError::fields(file, findings.0)) }
}

/// The pod at a place in the document; None where too much is wrong with it.
fn pod_of(map: Map<String, Value>, place: &[Step], kinds: &[&str], bytes: &[u8], findings: &mut Findings) -> Option<v1::Pod> {
    let before = findings.0.len();
    check_kind(&map, &at(place), kinds, findings);
    if findings.0.len() > before {
        return None;
    }
    let mut tree = Value::Object(map);
    numbers_to_quantities(&mut tree);
    typed(tree, place, bytes, findings)
}

fn check_kind(map: &Map<String, Value>, at: &At, kinds: &[&str], findings: &mut Findings) {
    for (field, expected) in [("apiVersion", &["v1"][..]), ("kind", kinds)] {
        let at = at.child(field);
        match map.get(field) {
            None | Some(Value::Null) if field == "kind" => {
                findings.required(&at, &format!("a static manifest holds one {:?}", expected[0]));
            }
            None | Some(Value::Null) => findings.required(&at, &format!("must be {:?}", expected[0])),
            Some(Value::String(found)) if expected.contains(&found.as_str()) => {}
            Some(found) => findings.unsupported(&at, found.clone(), expected),
        }
    }
}

/// Quantities may be written as numbers (`cpu: 0.5`); the API type holds their text.
fn numbers_to_quantities(tree: &mut Value) {
    match tree {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("limits" | "requests" | "overhead", Value::Object(amounts)) => amounts.values_mut().for_each(number_to_text),
                    ("sizeLimit" | "divisor", value) => number_to_text(value),
                    // Maps of free names and text: a number there is a mistake.
                    (name, _) if MAPS.contains(&name) => {}
                    (_, value) => numbers_to_quantities(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(numbers_to_quantities),
        _ => {}
    }
}

fn number_to_text(value: &mut Value) {
    if let Value::Number(number) = value {
        *value = Value::String(number.to_string());
    }
}

/// The typed object, once every value of a wrong type has been named and set aside. It stands at `within` in the document.
fn typed(mut tree: Value, within: &[Step], bytes: &[u8], findings: &mut Findings) -> Option<v1::Pod> {
    // What a value is replaced by, once it has been named, until the type at its place takes one.
    let stand_ins =
        || [Value::Null, Value::from(""), Value::Object(Map::new()), Value::Array(Vec::new()), Value::from(0)].into_iter();
    let mut set_aside = (At::root(), stand_ins());
    let mut written = None;
    loop {
        let mut unknown = Vec::new();
        let mut note = |path: serde_ignored::Path<'_>| unknown.push(segments(&path));
        let result: Result<v1::Pod, _> = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(&tree, &mut note));
        match result {
            Ok(pod) => {
                for path in &unknown {
                    // Beyond what is told they are only counted: a hint takes its time.
                    if findings.0.len() < MOST_ERRORS {
                        name_unknown(within, path, findings);
                    } else {
                        findings.unknown(&at(&[within, path].concat()), "");
                    }
                }
                return Some(pod);
            }
            Err(error) => {
                let path: Vec<Step> = error.path().iter().filter_map(step).collect();
                let whole = [within, &path[..]].concat();
                let at = at(&whole);
                let message = error.inner().to_string();
                let Some(value) = descend(&mut tree, &path) else {
                    findings.invalid(&at, Value::Null, expected(&message, &Value::Null));
                    return None;
                };
                let detail = expected(&message, value);
                if set_aside.0 != at || findings.0.is_empty() {
                    let shown = redacted(&path, value);
                    let words = shown.is_boolean().then(|| written.get_or_insert_with(|| as_written(bytes).unwrap_or_default()));
                    match words.and_then(|all| descend(all, &whole)).and_then(|word| word.as_str()) {
                        Some(word) => findings.invalid_as_written(&at, &shown, word, detail),
                        None => findings.invalid(&at, shown, detail),
                    }
                    if findings.0.len() >= MOST_ERRORS {
                        return None;
                    }
                    set_aside = (at, stand_ins());
                }
                *value = set_aside.1.next()?;
            }
        }
    }
}

/// One step of a path.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Index(usize),
}

fn step(segment: &Segment) -> Option<Step> {
    match segment {
        Segment::Map { key } => Some(Step::Field(key.clone())),
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

fn segments(path: &serde_ignored::Path<'_>) -> Vec<Step> {
    use serde_ignored::Path;
    let (parent, last) = match path {
        Path::Root => return Vec::new(),
        Path::Seq { parent, index } => (parent, Some(Step::Index(*index))),
        Path::Map { parent, key } => (parent, Some(Step::Field(key.clone()))),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => (parent, None),
    };
    let mut steps = segments(parent);
    steps.extend(last);
    steps
}

fn at(path: &[Step]) -> At {
    let mut in_map = false;
    path.iter().fold(At::root(), |at, step| {
        let key = std::mem::replace(&mut in_map, false);
        match step {
            Step::Field(name) if key => at.key(name),
            Step::Field(name) => {
                in_map = MAPS.contains(&name.as_str());
                at.child(name)
            }
            Step::Index(index) => at.index(*index),
        }
    })
}

fn descend<'a>(tree: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(tree, |value, step| match step {
        Step::Field(name) => value.get_mut(name.as_str()),
        Step::Index(index) => value.get_mut(index),
    })
}

/// The value as an error may show it: never that of an environment variable.
fn redacted(path: &[Step], value: &Value) -> Value {
    match path {
        [.., Step::Field(env), Step::Index(_), Step::Field(field)] if env == "env" && field == "value" => {
            Value::from("(not shown)")
        }
        _ => value.clone(),
    }
}

const TIME: &str = "must be a time such as 2026-01-02T03:04:05Z";

/// What would have been right instead of this value, in words of the format and not of a programming language.
fn expected(message: &str, value: &Value) -> String {
    let of_type = ["invalid type: ", "invalid value: "].iter().any(|start| message.starts_with(start));
    let Some((_, expected)) = message.rsplit_once(", expected ").filter(|_| of_type) else {
        // Of all that a pod may say, only times are read out of a text.
        return if value.is_string() { TIME } else { message }.to_owned();
    };
    match expected {
        "i32" | "a 32-bit integer" => "must be a whole number of 32 bits".to_owned(),
        "a timestamp string" => TIME.to_owned(),
        "a string" if value.is_array() || value.is_object() => format!("must be a string, not {}", kind_of(value)),
        "i64" => "must be a whole number of 64 bits".to_owned(),
        "a boolean" => "must be true or false".to_owned(),
        "a string" => "must be a string: put it in quotes".to_owned(),
        "Quantity" => "must be a quantity such as 250m or 64Mi".to_owned(),
        "IntOrString" => "must be a whole number or a string".to_owned(),
        "a sequence" => "must be a list".to_owned(),
        "a map" => "must be a mapping".to_owned(),
        other if other.starts_with(char::is_uppercase) => format!("must be a mapping ({other})"),
        other => format!("must be {other}"),
    }
}

fn name_unknown(within: &[Step], path: &[Step], findings: &mut Findings) {
    let Some((Step::Field(name), parents)) = path.split_last() else { return };
    let here = fields_at(parents);
    let detail = match place_of(name, parents) {
        Some(place) => format!("it belongs into {place}"),
        None => suggest::did_you_mean(name, here.iter().copied()),
    };
    findings.unknown(&at(&[within, path].concat()), detail);
}

/// Where a field that stands below these belongs: what is near comes first, since several places may know its name.
fn place_of(name: &str, parents: &[Step]) -> Option<&'static str> {
    let mut places = [
        ("spec", fields_of::<v1::PodSpec>()),
        ("spec.containers[]", fields_of::<v1::Container>()),
        ("spec.securityContext", fields_of::<v1::PodSecurityContext>()),
        ("spec.containers[].securityContext", fields_of::<v1::SecurityContext>()),
        ("spec.containers[].resources", fields_of::<v1::ResourceRequirements>()),
        ("metadata", fields_of::<ObjectMeta>()),
    ];
    let in_container = matches!(parents, [_, Step::Field(list), ..] if matches!(list.as_str(), "containers" | "initContainers"));
    places.sort_by_key(|(place, _)| match *place {
        "metadata" => !parents.is_empty(),
        place => parents.is_empty() || in_container && !place.starts_with("spec.containers[]"),
    });
    places.iter().find(|(_, fields)| fields.contains(&name)).map(|(place, _)| *place)
}

/// Fields that are known at a place, as far as suggestions go.
fn fields_at(path: &[Step]) -> &'static [&'static str] {
    let mut names = path.iter().rev().filter_map(|step| match step {
        Step::Field(name) => Some(name.as_str()),
        Step::Index(_) => None,
    });
    let (last, before) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    match last {
        "" => fields_of::<v1::Pod>(),
        "metadata" => fields_of::<ObjectMeta>(),
        "spec" => fields_of::<v1::PodSpec>(),
        "containers" | "initContainers" => fields_of::<v1::Container>(),
        "ports" => fields_of::<v1::ContainerPort>(),
        "env" => fields_of::<v1::EnvVar>(),
        "valueFrom" => fields_of::<v1::EnvVarSource>(),
        "envFrom" => fields_of::<v1::EnvFromSource>(),
        "fieldRef" => fields_of::<v1::ObjectFieldSelector>(),
        "resourceFieldRef" => fields_of::<v1::ResourceFieldSelector>(),
        "volumes" => fields_of::<v1::Volume>(),
        "volumeMounts" => fields_of::<v1::VolumeMount>(),
        "hostPath" => fields_of::<v1::HostPathVolumeSource>(),
        "emptyDir" => fields_of::<v1::EmptyDirVolumeSource>(),
        "livenessProbe" | "readinessProbe" | "startupProbe" => fields_of::<v1::Probe>(),
        "lifecycle" => fields_of::<v1::Lifecycle>(),
        "postStart" | "preStop" => fields_of::<v1::LifecycleHandler>(),
        "exec" => fields_of::<v1::ExecAction>(),
        "httpGet" => fields_of::<v1::HTTPGetAction>(),
        "tcpSocket" => fields_of::<v1::TCPSocketAction>(),
        "grpc" => fields_of::<v1::GRPCAction>(),
        "securityContext" if before == "spec" => fields_of::<v1::PodSecurityContext>(),
        "securityContext" => fields_of::<v1::SecurityContext>(),
        "capabilities" => fields_of::<v1::Capabilities>(),
        "seccompProfile" => fields_of::<v1::SeccompProfile>(),
        "resources" => fields_of::<v1::ResourceRequirements>(),
        "tolerations" => fields_of::<v1::Toleration>(),
        "hostAliases" => fields_of::<v1::HostAlias>(),
        "dnsConfig" => fields_of::<v1::PodDNSConfig>(),
        _ => &[],
    }
}

/// The field names of an API type, which it tells whoever deserializes it.
fn fields_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(FieldNames) {
        Err(Told(fields)) => fields,
        Ok(_) => &[],
    }
}

struct FieldNames;

#[derive(Debug)]
struct Told(&'static [&'static str]);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fields {:?}", self.0)
    }
}

impl std::error::Error for Told {}

impl serde::de::Error for Told {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for FieldNames {
    type Error = Told;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Told> {
        Err(Told(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Told> {
        Err(Told(fields))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(manifest: &str, errors: &[&str]) {
        let found = match decode(manifest.as_bytes(), "f.yaml") {
            Ok(_) => Vec::new(),
            Err(SourceError::Fields { errors, .. }) => errors.iter().map(ToString::to_string).collect(),
            Err(other) => vec![other.to_string()],
        };
        assert_eq!(found, errors, "{manifest}");
    }

    #[test]
    fn numbers_are_quantities_where_quantities_are_wanted() {
        let manifest =
            "{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, resources: {limits: {cpu: 0.5, memory: 1e6}}}]}}";
        let pod = decode(manifest.as_bytes(), "f").unwrap();
        let limits = pod.spec.unwrap().containers[0].resources.clone().unwrap().limits.unwrap();
        assert_eq!((limits["cpu"].0.as_str(), limits["memory"].0.as_str()), ("0.5", "1000000.0"));
    }

    #[test]
    fn a_file_full_of_mistakes_ends_in_time() {
        let labels: String = (0..5000).map(|n| format!("l{n}: yes, ")).collect();
        let manifest = format!("{{apiVersion: v1, kind: Pod, metadata: {{labels: {{{labels}}}}}}}");
        let Err(SourceError::Fields { errors, .. }) = decode(manifest.as_bytes(), "f") else { panic!("no label is a text") };
        assert_eq!(errors.len(), MOST_ERRORS);
    }

    #[test]
    fn only_a_pod_is_a_manifest() {
        check(
            "{apiVersion: apps/v1, kind: Deployment}",
            &[
                "apiVersion: Unsupported value: \"apps/v1\": supported values: \"v1\"",
                "kind: Unsupported value: \"Deployment\": supported values: \"Pod\"",
            ],
        );
        check("{kind: Pod}", &["apiVersion: Required value: must be \"v1\""]);
        check("a: [", &["manifest f.yaml: line 1, column 4: unclosed bracket '['"]);
    }

    #[test]
    fn lists_are_read_where_they_may_be() {
        let all = |manifest: &str| match decode_all(manifest.as_bytes(), "u") {
            Ok(pods) => Ok(pods.into_iter().map(|pod| pod.metadata.name.unwrap_or_default()).collect::<Vec<_>>().join(" ")),
            Err(SourceError::Fields { errors, .. }) => Err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
            Err(other) => Err(other.to_string()),
        };
        let ok = |names: &str| Ok(names.to_owned());
        assert_eq!(all("{apiVersion: v1, kind: Pod, metadata: {name: a}}"), ok("a"));
        assert_eq!(all("{apiVersion: v1, kind: PodList}"), ok(""));
        assert_eq!(all("{apiVersion: v1, kind: PodList, metadata: {}, items: []}"), ok(""));
        let two =
            "{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}, {apiVersion: v1, kind: Pod, metadata: {name: b}}]}";
        assert_eq!(all(two), ok("a b"));
        let wrong = "{apiVersion: v2, kind: PodList, itmes: 1, items: [{kind: Job}, 5, {spec: {hostNetwork: y, contaners: 1}}, \
                     {metadata: {name: 7}}]}";
        let told = "apiVersion: Unsupported value: \"v2\": supported values: \"v1\"\n\
                    itmes: Unknown field: did you mean \"items\"?\n\
                    items[0].kind: Unsupported value: \"Job\": supported values: \"Pod\"\n\
                    items[1]: Invalid value: 5: must be a mapping (Pod)\n\
                    items[2].spec.contaners: Unknown field: did you mean \"containers\"?\n\
                    items[3].metadata.name: Invalid value: 7: must be a string: put it in quotes";
        assert_eq!(all(wrong), Err(told.to_owned()));
        assert_eq!(all("{apiVersion: v1, kind: PodList, items: {}}"), Err("items: Invalid value: {}: must be a list".to_owned()));
        let other = "kind: Unsupported value: \"Deployment\": supported values: \"Pod\", \"PodList\"";
        assert_eq!(all("{apiVersion: v1, kind: Deployment}"), Err(other.to_owned()));
        check("{apiVersion: v1, kind: PodList}", &["kind: Unsupported value: \"PodList\": supported values: \"Pod\""]);
    }

    #[test]
    fn a_field_in_the_wrong_place_is_told_where_it_belongs() {
        check(
            "{apiVersion: v1, kind: Pod, name: p, containers: [], image: i, spec: {runAsUser: 1, labels: {}, limits: {}, securityContext: \
             {privileged: true, env: []}, initContainers: [{name: i, runAsUser: 1, requests: {}, hostNetwork: true, securityContext: {fsGroup: 1}}]}}",
            &[
                "name: Unknown field: it belongs into metadata",
                "containers: Unknown field: it belongs into spec",
                "image: Unknown field: it belongs into spec.containers[]",
                "spec.runAsUser: Unknown field: it belongs into spec.securityContext",
                "spec.labels: Unknown field: it belongs into metadata",
                "spec.limits: Unknown field: it belongs into spec.containers[].resources",
                "spec.securityContext.privileged: Unknown field: it belongs into spec.containers[].securityContext",
                "spec.securityContext.env: Unknown field: it belongs into spec.containers[]",
                "spec.initContainers[0].runAsUser: Unknown field: it belongs into spec.containers[].securityContext",
                "spec.initContainers[0].requests: Unknown field: it belongs into spec.containers[].resources",
                "spec.initContainers[0].hostNetwork: Unknown field: it belongs into spec",
                "spec.initContainers[0].securityContext.fsGroup: Unknown field: it belongs into spec.securityContext",
            ],
        );
    }

    #[test]
    fn what_would_be_right_is_told_of_texts_numbers_and_times() {
        check(
            "{apiVersion: v1, kind: Pod, metadata: {creationTimestamp: yesterday, deletionTimestamp: 5, labels: {a: [x]}}, spec: {\
             overhead: {cpu: {}}, containers: [{name: c, image: {}, livenessProbe: {tcpSocket: {port: 99999999999}}, \
             readinessProbe: {tcpSocket: {port: 1.5}}}]}}",
            &[
                "metadata.creationTimestamp: Invalid value: \"yesterday\": must be a time such as 2026-01-02T03:04:05Z",
                "metadata.deletionTimestamp: Invalid value: 5: must be a time such as 2026-01-02T03:04:05Z",
                "metadata.labels[a]: Invalid value: [\"x\"]: must be a string, not a list",
                "spec.overhead[cpu]: Invalid value: {}: must be a quantity such as 250m or 64Mi",
                "spec.containers[0].image: Invalid value: {}: must be a string, not a mapping",
                "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 99999999999: must be a whole number of 32 bits",
                "spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 1.5: must be a whole number or a string",
            ],
        );
    }

    #[test]
    fn every_wrong_type_and_every_unknown_field_is_named() {
        check(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 7, lables: {}}\nspec:\n  hostNetwork: maybe\n  image: x\n  containers:\n  - name: c\n    \
             imagepullPolicy: Always\n    frobnicate: null\n    ports: [{containerPort: '80'}]\n    env: [{name: A, value: 5}]\n",
            &[
                "metadata.name: Invalid value: 7: must be a string: put it in quotes",
                "spec.hostNetwork: Invalid value: \"maybe\": must be true or false",
                "spec.containers[0].ports[0].containerPort: Invalid value: \"80\": must be a whole number of 32 bits",
                "spec.containers[0].env[0].value: Invalid value: \"(not shown)\": must be a string: put it in quotes",
                "metadata.lables: Unknown field: did you mean \"labels\"?",
                "spec.image: Unknown field: it belongs into spec.containers[]",
                "spec.containers[0].imagepullPolicy: Unknown field: did you mean \"imagePullPolicy\"?",
                "spec.containers[0].frobnicate: Unknown field",
            ],
        );
        check(
            "{apiVersion: v1, kind: Pod, spec: {containers: [null]}}",
            &["spec.containers[0]: Invalid value: null: must be a mapping (Container)"],
        );
        // Where nothing may stand in for it, too: once, in the words of the file, and what follows is still named.
        check(
            "apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: y, b: true, c: 5}}\nspec:\n  containers: [{name: c, args: [on, 'y']}, 7]\n  \
             hostNetwork: maybe\n  nosuch: x\n",
            &[
                "metadata.labels[a]: Invalid value: true (written y): must be a string: put it in quotes",
                "metadata.labels[b]: Invalid value: true: must be a string: put it in quotes",
                "metadata.labels[c]: Invalid value: 5: must be a string: put it in quotes",
                "spec.containers[0].args[0]: Invalid value: true (written on): must be a string: put it in quotes",
                "spec.containers[1]: Invalid value: 7: must be a mapping (Container)",
                "spec.hostNetwork: Invalid value: \"maybe\": must be true or false",
                "spec.nosuch: Unknown field",
            ],
        );
        check("{apiVersion: v1, kind: Pod, spec: [x]}", &["spec: Invalid value: [\"x\"]: must be a mapping (PodSpec)"]);
        check(
            "{apiVersion: v1, kind: Pod, spec: {containers: {name: c}}}",
            &["spec.containers: Invalid value: {\"name\":\"c\"}: must be a list"],
        );
    }
}
