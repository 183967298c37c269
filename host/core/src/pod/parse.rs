//! From the API's object to the parts that decisions read. Every error names a field by its path, and the value found there.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::resources::read;
use super::{
    Container, ContainerKind, Deletion, Handler, ImageVolume, Pod, Probe, Probes, PullPolicy, QosClass, Resources, RestartAction,
    RestartPolicy, RestartRule, Source, container_hash, qos_class, with_tag,
};
use crate::id::ContainerName;
use crate::quantity::QuantityError;
use crate::time::Wall;

/// Why an object is no pod that this node could run. A validated object gives none of these, except for a port's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// Something that must be there is not.
    #[error("{field}: required")]
    Missing {
        /// Path of the field.
        field: String,
    },
    /// A value outside what is allowed.
    #[error("{field}: {value:?} is not {wanted}")]
    Invalid {
        /// Path of the field.
        field: String,
        /// What was there.
        value: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// An amount that cannot be read.
    #[error("{field}: {value:?}")]
    Quantity {
        /// Path of the field.
        field: String,
        /// What was there.
        value: String,
        /// Why not.
        source: QuantityError,
    },
}

impl Pod {
    /// The parts of a defaulted and validated object. `seen` is when the agent first saw it: the creation of a static pod.
    pub fn parse(object: Arc<v1::Pod>, source: Source, seen: Wall) -> Result<Pod, PodError> {
        let missing = |field: &str| PodError::Missing { field: field.to_owned() };
        let (meta, spec) = (&object.metadata, object.spec.as_ref().ok_or_else(|| missing("spec"))?);
        let name = meta.name.clone().ok_or_else(|| missing("metadata.name"))?;
        let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty()).ok_or_else(|| missing("metadata.uid"))?;
        let reported = object.status.as_ref().and_then(|status| status.qos_class.as_deref());
        let policy = restart_policy("spec.restartPolicy", spec.restart_policy.as_deref())?;
        Ok(Pod {
            uid: uid.into(),
            namespace: meta.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            name,
            source,
            created: meta.creation_timestamp.as_ref().map_or(seen, wall),
            restart_policy: policy.unwrap_or(RestartPolicy::Always),
            grace: seconds("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds)?.unwrap_or(DEFAULT_GRACE),
            active_deadline: seconds("spec.activeDeadlineSeconds", spec.active_deadline_seconds)?,
            priority: spec.priority.unwrap_or(0),
            priority_class: spec.priority_class_name.clone().filter(|name| !name.is_empty()),
            host_network: spec.host_network.unwrap_or(false),
            qos: reported.and_then(reported_class).unwrap_or_else(|| qos_class(spec)),
            containers: containers(spec)?,
            resources: match &spec.resources {
                Some(own) => Some(resources("spec.resources", Some(own))?),
                None => None,
            },
            labels: Arc::new(meta.labels.clone().unwrap_or_default()),
            annotations: Arc::new(meta.annotations.clone().unwrap_or_default()),
            controller: meta
                .owner_references
                .iter()
                .flatten()
                .find(|owner| owner.controller == Some(true))
                .map(|owner| (owner.kind.clone(), owner.name.clone())),
            deletion: match &meta.deletion_timestamp {
                Some(at) => Some(Deletion {
                    at: wall(at),
                    grace: seconds("metadata.deletionGracePeriodSeconds", meta.deletion_grace_period_seconds)?,
                }),
                None => None,
            },
            generation: meta.generation,
            object,
        })
    }
}

const DEFAULT_GRACE: Duration = Duration::from_secs(30);

fn containers(spec: &v1::PodSpec) -> Result<Vec<Container>, PodError> {
    let images = images(spec)?;
    let mut out = Vec::new();
    for (index, c) in spec.init_containers.iter().flatten().enumerate() {
        let sidecar = c.restart_policy.as_deref() == Some("Always");
        let kind = if sidecar { ContainerKind::Sidecar } else { ContainerKind::Init };
        out.push(container(&format!("spec.initContainers[{index}]"), kind, index, c, &images)?);
    }
    for (index, c) in spec.containers.iter().enumerate() {
        out.push(container(&format!("spec.containers[{index}]"), ContainerKind::App, index, c, &images)?);
    }
    for (index, c) in spec.ephemeral_containers.iter().flatten().enumerate() {
        // Without ports, probes, hooks and resources: the API allows an ephemeral container none.
        let plain = v1::Container {
            name: c.name.clone(),
            image: c.image.clone(),
            image_pull_policy: c.image_pull_policy.clone(),
            restart_policy: c.restart_policy.clone(),
            termination_message_path: c.termination_message_path.clone(),
            termination_message_policy: c.termination_message_policy.clone(),
            volume_mounts: c.volume_mounts.clone(),
            ..Default::default()
        };
        out.push(container(&format!("spec.ephemeralContainers[{index}]"), ContainerKind::Ephemeral, index, &plain, &images)?);
    }
    Ok(out)
}

/// Images that may be mounted.
fn images(spec: &v1::PodSpec) -> Result<Vec<ImageVolume>, PodError> {
    let volumes = spec.volumes.iter().flatten().enumerate();
    let images = volumes.filter_map(|(index, volume)| Some((index, &volume.name, volume.image.as_ref()?)));
    images
        .map(|(index, volume, source)| {
            let at = |name: &str| format!("spec.volumes[{index}].image.{name}");
            let image = source.reference.as_deref().filter(|image| !image.is_empty());
            let image = image.ok_or_else(|| PodError::Missing { field: at("reference") })?;
            let pull_policy = pull_policy(&at("pullPolicy"), source.pull_policy.as_deref(), image)?;
            let image_as_written = image.to_owned();
            Ok(ImageVolume { volume: volume.clone(), image: with_tag(image), image_as_written, pull_policy })
        })
        .collect()
}

fn container(
    field: &str,
    kind: ContainerKind,
    index: usize,
    c: &v1::Container,
    images: &[ImageVolume],
) -> Result<Container, PodError> {
    let at = |name: &str| format!("{field}.{name}");
    let image = c.image.as_deref().filter(|image| !image.is_empty());
    let image = image.ok_or_else(|| PodError::Missing { field: at("image") })?;
    let ports = c.ports.as_deref().unwrap_or_default();
    let probe = |name: &str, of: &Option<v1::Probe>| of.as_ref().map(|of| probe(&at(name), of, ports)).transpose();
    let lifecycle = c.lifecycle.as_ref();
    let hook = |name: &str, of: Option<&v1::LifecycleHandler>| {
        of.map(|of| hook(&at(&format!("lifecycle.{name}")), of, ports)).transpose()
    };
    Ok(Container {
        name: ContainerName::from(c.name.as_str()),
        kind,
        index,
        image: with_tag(image),
        image_as_written: image.to_owned(),
        pull_policy: pull_policy(&at("imagePullPolicy"), c.image_pull_policy.as_deref(), image)?,
        image_volumes: {
            let mounted = |image: &&ImageVolume| c.volume_mounts.iter().flatten().any(|mount| mount.name == image.volume);
            images.iter().filter(mounted).cloned().collect()
        },
        restart_policy: restart_policy(&at("restartPolicy"), c.restart_policy.as_deref())?,
        restart_rules: restart_rules(&at("restartPolicyRules"), c.restart_policy_rules.as_deref().unwrap_or_default())?,
        probes: Probes {
            liveness: probe("livenessProbe", &c.liveness_probe)?,
            readiness: probe("readinessProbe", &c.readiness_probe)?,
            startup: probe("startupProbe", &c.startup_probe)?,
        },
        post_start: hook("postStart", lifecycle.and_then(|l| l.post_start.as_ref()))?,
        pre_stop: hook("preStop", lifecycle.and_then(|l| l.pre_stop.as_ref()))?,
        resources: resources(&at("resources"), c.resources.as_ref())?,
        termination_message_path: c.termination_message_path.clone().unwrap_or_else(|| "/dev/termination-log".to_owned()),
        // Of the image as the spec writes it, without a tag of ours: that is what upstream hashes.
        hash: container_hash(&c.name, image),
    })
}

fn restart_policy(field: &str, value: Option<&str>) -> Result<Option<RestartPolicy>, PodError> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    Ok(Some(match value {
        "Always" => RestartPolicy::Always,
        "OnFailure" => RestartPolicy::OnFailure,
        "Never" => RestartPolicy::Never,
        _ => return Err(invalid(field, value, "one of Always, OnFailure, Never")),
    }))
}

/// Upstream's default where the object has none: a floating image is looked for again before each start.
fn pull_policy(field: &str, value: Option<&str>, image: &str) -> Result<PullPolicy, PodError> {
    Ok(match value.unwrap_or_default() {
        "Always" => PullPolicy::Always,
        "IfNotPresent" => PullPolicy::IfNotPresent,
        "Never" => PullPolicy::Never,
        "" if with_tag(image).ends_with(":latest") => PullPolicy::Always,
        "" => PullPolicy::IfNotPresent,
        other => return Err(invalid(field, other, "one of Always, IfNotPresent, Never")),
    })
}

fn restart_rules(field: &str, rules: &[v1::ContainerRestartRule]) -> Result<Vec<RestartRule>, PodError> {
    let parse = |(index, rule): (usize, &v1::ContainerRestartRule)| {
        let at = |name: &str| format!("{field}[{index}].{name}");
        let codes = rule.exit_codes.as_ref().ok_or_else(|| PodError::Missing { field: at("exitCodes") })?;
        Ok(RestartRule {
            exit_code_in: match codes.operator.as_str() {
                "In" => true,
                "NotIn" => false,
                other => return Err(invalid(&at("exitCodes.operator"), other, "one of In, NotIn")),
            },
            exit_codes: codes.values.clone().unwrap_or_default(),
            action: match rule.action.as_str() {
                "Restart" => RestartAction::Restart,
                "RestartAllContainers" => RestartAction::RestartAllContainers,
                other => return Err(invalid(&at("action"), other, "one of Restart, RestartAllContainers")),
            },
        })
    };
    rules.iter().enumerate().map(parse).collect()
}

fn probe(field: &str, probe: &v1::Probe, ports: &[v1::ContainerPort]) -> Result<Probe, PodError> {
    let at = |name: &str| format!("{field}.{name}");
    // Zero is the API's way of writing "not given".
    let number = |name: &str, value: Option<i32>, default: u32| {
        let given = value.filter(|value| *value != 0);
        given.map_or(Ok(default), |value| {
            u32::try_from(value).map_err(|_| invalid(&at(name), &value.to_string(), "a number above zero"))
        })
    };
    let secs = |name: &str, value, default| number(name, value, default).map(|s| Duration::from_secs(s.into()));
    let handler = if let Some(grpc) = &probe.grpc {
        Handler::Grpc {
            port: port(&at("grpc.port"), &IntOrString::Int(grpc.port), ports)?,
            service: grpc.service.clone().unwrap_or_default(),
        }
    } else {
        common_handler(field, probe.exec.as_ref(), probe.http_get.as_ref(), probe.tcp_socket.as_ref(), ports)?
            .ok_or_else(|| PodError::Missing { field: format!("{field}: exec, httpGet, tcpSocket or grpc") })?
    };
    Ok(Probe {
        handler,
        initial_delay: secs("initialDelaySeconds", probe.initial_delay_seconds, 0)?,
        period: secs("periodSeconds", probe.period_seconds, 10)?,
        timeout: secs("timeoutSeconds", probe.timeout_seconds, 1)?,
        success_threshold: number("successThreshold", probe.success_threshold, 1)?,
        failure_threshold: number("failureThreshold", probe.failure_threshold, 3)?,
        grace: seconds(&at("terminationGracePeriodSeconds"), probe.termination_grace_period_seconds)?,
    })
}

fn hook(field: &str, hook: &v1::LifecycleHandler, ports: &[v1::ContainerPort]) -> Result<Handler, PodError> {
    if let Some(sleep) = &hook.sleep {
        let duration = seconds(&format!("{field}.sleep.seconds"), Some(sleep.seconds))?.unwrap_or_default();
        return Ok(Handler::Sleep { duration });
    }
    common_handler(field, hook.exec.as_ref(), hook.http_get.as_ref(), hook.tcp_socket.as_ref(), ports)?
        .ok_or_else(|| PodError::Missing { field: format!("{field}: exec, httpGet or sleep") })
}

/// What probes and hooks have in common.
fn common_handler(
    field: &str,
    exec: Option<&v1::ExecAction>,
    http: Option<&v1::HTTPGetAction>,
    tcp: Option<&v1::TCPSocketAction>,
    ports: &[v1::ContainerPort],
) -> Result<Option<Handler>, PodError> {
    let named = |host: &Option<String>| host.clone().filter(|host| !host.is_empty());
    Ok(Some(if let Some(exec) = exec {
        Handler::Exec { command: exec.command.clone().unwrap_or_default() }
    } else if let Some(http) = http {
        Handler::HttpGet {
            host: named(&http.host),
            port: port(&format!("{field}.httpGet.port"), &http.port, ports)?,
            path: http.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned()),
            tls: http.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            headers: http.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect(),
        }
    } else if let Some(tcp) = tcp {
        Handler::TcpSocket { host: named(&tcp.host), port: port(&format!("{field}.tcpSocket.port"), &tcp.port, ports)? }
    } else {
        return Ok(None);
    }))
}

/// A number, the name of one of the container's ports, or a number written as a string.
fn port(field: &str, value: &IntOrString, ports: &[v1::ContainerPort]) -> Result<u16, PodError> {
    const WANTED: &str = "a port from 1 to 65535, nor the name of one of the container's ports";
    let (text, number) = match value {
        IntOrString::Int(number) => (number.to_string(), Some(i64::from(*number))),
        IntOrString::String(name) => {
            let named = ports.iter().find(|port| port.name.as_deref() == Some(name));
            (name.clone(), named.map(|port| port.container_port.into()).or_else(|| name.parse().ok()))
        }
    };
    let port = number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port > 0);
    port.ok_or_else(|| invalid(field, &text, WANTED))
}

fn resources(field: &str, of: Option<&v1::ResourceRequirements>) -> Result<Resources, PodError> {
    read(of).map_err(|(name, value, source)| PodError::Quantity { field: format!("{field}.{name}"), value, source })
}

fn seconds(field: &str, value: Option<i64>) -> Result<Option<Duration>, PodError> {
    let seconds =
        |value: i64| u64::try_from(value).map_err(|_| invalid(field, &value.to_string(), "a number of seconds of at least zero"));
    value.map(|value| seconds(value).map(Duration::from_secs)).transpose()
}

fn reported_class(name: &str) -> Option<QosClass> {
    [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort].into_iter().find(|class| class.as_str() == name)
}

fn wall(time: &Time) -> Wall {
    Wall(u64::try_from(time.0.as_millisecond()).unwrap_or(0))
}

fn invalid(field: &str, value: &str, wanted: &'static str) -> PodError {
    PodError::Invalid { field: field.to_owned(), value: value.to_owned(), wanted }
}

#[cfg(test)]
mod tests;
