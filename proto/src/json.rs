//! Messages as JSON, for people and for files that tests compare.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use prost::{DecodeError, Message};
use prost_reflect::{DescriptorPool, DynamicMessage, EnumDescriptor, Kind, MapKey, Value};
use serde_json::{Map, json};

use crate::DESCRIPTORS;

/// Why a message has no JSON.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JsonError {
    /// The contracts of this crate are at odds with themselves.
    #[error("the descriptors of the contracts cannot be read: {reason}")]
    Contracts {
        /// What the reader says.
        reason: String,
    },
    /// No contract names it.
    #[error("no contract names the message {0}")]
    Unknown(String),
    /// The message is not the one that the name says.
    #[error("the message is not a {name}")]
    Other {
        /// The name.
        name: String,
        /// What does not fit.
        #[source]
        cause: DecodeError,
    },
}

/// A message as JSON, `name` being its full name, such as `runtime.v1.PodSandboxConfig`.
///
/// Fields have the names that gRPC's own JSON has (`podSandboxId`), in the order of their numbers; what has its default value is left
/// out. Enum values are names. Whole numbers are numbers, those of 64 bits too; bytes that are UTF-8 are text, and others a list of
/// numbers. Nothing is hidden: neither credentials nor environment values.
///
/// # Errors
/// [`JsonError`]: the name is not this message's.
pub fn json(name: &str, message: &impl Message) -> Result<serde_json::Value, JsonError> {
    static CONTRACTS: LazyLock<Result<DescriptorPool, String>> = LazyLock::new(|| {
        // Google's own files, which the contracts import, are there already.
        let mut pool = DescriptorPool::global();
        pool.decode_file_descriptor_set(DESCRIPTORS).map(|()| pool).map_err(|error| error.to_string())
    });
    let pool = CONTRACTS.as_ref().map_err(|reason| JsonError::Contracts { reason: reason.clone() })?;
    let descriptor = pool.get_message_by_name(name).ok_or_else(|| JsonError::Unknown(name.to_owned()))?;
    let message = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .map_err(|cause| JsonError::Other { name: name.to_owned(), cause })?;
    Ok(object(&message))
}

fn object(message: &DynamicMessage) -> serde_json::Value {
    let fields = message.fields().map(|(field, found)| (field.json_name().to_owned(), value(found, &field.kind())));
    serde_json::Value::Object(fields.collect())
}

fn value(found: &Value, kind: &Kind) -> serde_json::Value {
    match found {
        Value::Bool(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::I64(value) => json!(value),
        Value::U32(value) => json!(value),
        Value::U64(value) => json!(value),
        Value::F32(value) => json!(value),
        Value::F64(value) => json!(value),
        Value::String(text) => json!(text),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).map_or_else(|_| json!(bytes.as_ref()), |text| json!(text)),
        Value::EnumNumber(number) => kind.as_enum().map_or_else(|| json!(number), |names| named(names, *number)),
        Value::Message(message) => object(message),
        Value::List(values) => values.iter().map(|each| value(each, kind)).collect(),
        Value::Map(entries) => {
            let Some(kind) = kind.as_message().map(|entry| entry.map_entry_value_field().kind()) else { return json!(null) };
            let sorted: BTreeMap<String, serde_json::Value> =
                entries.iter().map(|(key, each)| (text(key), value(each, &kind))).collect();
            serde_json::Value::Object(Map::from_iter(sorted))
        }
    }
}

/// A peer that is newer than we are may send values without a name here.
fn named(names: &EnumDescriptor, number: i32) -> serde_json::Value {
    names.get_value(number).map_or_else(|| json!(number), |value| json!(value.name()))
}

fn text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containerd::Envelope;
    use crate::cri::{
        ContainerConfig, ContainerMetadata, KeyValue, LinuxContainerConfig, LinuxContainerResources, Mount, MountPropagation,
    };

    fn container() -> ContainerConfig {
        ContainerConfig {
            metadata: Some(ContainerMetadata { name: "web".into(), attempt: 0 }),
            command: vec!["run".into(), String::new()],
            envs: vec![KeyValue { key: "A".into(), value: b"1".to_vec() }, KeyValue { key: "B".into(), value: vec![0xff, 0] }],
            mounts: vec![Mount {
                container_path: "/data".into(),
                propagation: MountPropagation::PropagationHostToContainer.into(),
                ..Mount::default()
            }],
            labels: BTreeMap::from([("z".into(), "1".into()), ("a".into(), String::new())]),
            linux: Some(LinuxContainerConfig {
                resources: Some(LinuxContainerResources { memory_limit_in_bytes: 1 << 60, ..Default::default() }),
                ..Default::default()
            }),
            ..ContainerConfig::default()
        }
    }

    #[test]
    fn a_message_shows_what_it_holds_and_nothing_else() {
        let shown = json("runtime.v1.ContainerConfig", &container()).unwrap();
        let expected = json!({
            "metadata": {"name": "web"},
            "command": ["run", ""],
            "envs": [{"key": "A", "value": "1"}, {"key": "B", "value": [255, 0]}],
            "mounts": [{"containerPath": "/data", "propagation": "PROPAGATION_HOST_TO_CONTAINER"}],
            "labels": {"a": "", "z": "1"},
            "linux": {"resources": {"memoryLimitInBytes": 1_u64 << 60}},
        });
        assert_eq!(serde_json::to_string(&shown).unwrap(), serde_json::to_string(&expected).unwrap(), "the order counts too");
    }

    #[test]
    fn a_value_that_has_no_name_yet_is_a_number() {
        let config = ContainerConfig { mounts: vec![Mount { propagation: 99, ..Mount::default() }], ..Default::default() };
        assert_eq!(json("runtime.v1.ContainerConfig", &config).unwrap(), json!({"mounts": [{"propagation": 99}]}));
    }

    #[test]
    fn messages_of_every_contract_are_known_and_no_others() {
        assert_eq!(json("containerd.services.events.v1.Envelope", &Envelope::default()).unwrap(), json!({}));
        assert_eq!(
            json("runtime.v1.Nothing", &container()).unwrap_err().to_string(),
            "no contract names the message runtime.v1.Nothing"
        );
        let error = json("runtime.v1.PodSandboxConfig", &container()).unwrap_err();
        assert_eq!(error.to_string(), "the message is not a runtime.v1.PodSandboxConfig");
    }
}
