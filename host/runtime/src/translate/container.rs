//! A container, put together.

use k8s_openapi::api::core::v1;
use polylet_core::paths::Paths;
use polylet_proto::cri::{ContainerConfig, ContainerMetadata, ImageSpec, LinuxContainerConfig, Signal};

use super::env::Env;
use super::{ContainerInputs, NodeContext, TranslateError, Translated, metadata, mounts, resources, security, spec_container};
use crate::signal;

/// What `CreateContainer` is given.
pub fn container_config(node: &NodeContext, inputs: &ContainerInputs<'_>) -> Result<Translated<ContainerConfig>, TranslateError> {
    let name = inputs.container.name.as_str();
    let missing = || TranslateError::NoContainer { container: name.to_owned() };
    let spec = spec_container(inputs.pod, inputs.container).ok_or_else(missing)?;
    let env = Env::of(node, inputs, &spec)?;
    let expanded = |words: &Option<Vec<String>>| words.iter().flatten().map(|word| env.expand(word)).collect();
    let message = ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.to_owned(), attempt: inputs.attempt }),
        image: Some(ImageSpec {
            image: inputs.image.id.clone(),
            user_specified_image: spec.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command: expanded(&spec.command),
        args: expanded(&spec.args),
        working_dir: spec.working_dir.clone().unwrap_or_default(),
        mounts: mounts::of(node, inputs, &spec, &env)?,
        labels: metadata::container_labels(inputs.pod, name),
        annotations: metadata::container_annotations(inputs, &spec),
        log_path: Paths::log_name(name, inputs.attempt).to_string_lossy().into_owned(),
        stdin: spec.stdin.unwrap_or(false),
        stdin_once: spec.stdin_once.unwrap_or(false),
        tty: spec.tty.unwrap_or(false),
        linux: Some(LinuxContainerConfig {
            resources: Some(resources::of_container(node, inputs)),
            security_context: Some(security::of_container(node, inputs, &spec)?),
        }),
        stop_signal: stop_signal(&spec)?.into(),
        envs: env.into_messages(),
        ..Default::default()
    };
    Ok(Translated { message, warnings: Vec::new() })
}

/// What ends the container at first; the image's or the runtime's own where the spec says nothing.
fn stop_signal(spec: &v1::Container) -> Result<Signal, TranslateError> {
    let name = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(Signal::RuntimeDefault) };
    signal::from_name(name).ok_or_else(|| TranslateError::BadSignal { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::operation::Operation;
    use crate::translate::testing::{node, pod, pod_with, strings, with_inputs};

    #[test]
    fn whole() {
        let pod = pod_with(json!({
            "image": "registry.example/app:1", "command": ["run", "$(A)", "$$(A)"], "args": ["$(B)"], "workingDir": "/srv",
            "env": [{"name": "B", "value": "b"}, {"name": "A", "value": "$(B)a"}], "stdin": true, "stdinOnce": true, "tty": true,
        }));
        let config = with_inputs(&pod, "app", |inputs| container_config(&node(), &ContainerInputs { attempt: 3, ..*inputs }));
        let Translated { message, warnings } = config.unwrap();
        assert!(warnings.is_empty());
        assert_eq!(message.metadata, Some(ContainerMetadata { name: "app".into(), attempt: 3 }));
        let image = message.image.unwrap();
        assert_eq!((image.image.as_str(), image.user_specified_image.as_str()), ("sha256:feed", "registry.example/app:1"));
        assert_eq!((message.command, message.args), (strings(&["run", "ba", "$(A)"]), strings(&["b"])));
        assert_eq!((message.working_dir.as_str(), message.log_path.as_str()), ("/srv", "app/3.log"));
        assert!(message.stdin && message.stdin_once && message.tty);
        let envs = message.envs.into_iter().map(|env| (env.key, String::from_utf8(env.value).unwrap())).collect::<Vec<_>>();
        assert_eq!(envs, [("A".into(), "ba".into()), ("B".into(), "b".into())]);
        let linux = message.linux.unwrap();
        assert_eq!(linux.resources.map(|resources| resources.oom_score_adj), Some(938));
        assert_eq!(linux.security_context.and_then(|context| context.run_as_user).map(|user| user.value), Some(0));
        assert_eq!((message.labels.len(), message.annotations["io.kubernetes.container.restartCount"].as_str()), (4, "3"));
    }

    #[test]
    fn stop_signals() {
        let of = |signal: &str| {
            let pod = pod_with(json!({"lifecycle": {"stopSignal": signal}}));
            with_inputs(&pod, "app", |inputs| container_config(&node(), inputs)).map(|config| config.message.stop_signal())
        };
        assert_eq!(
            [of(""), of("SIGUSR1"), of("SIGRTMAX-3")],
            [Signal::RuntimeDefault, Signal::Sigusr1, Signal::Sigrtmaxminus3].map(Ok)
        );
        assert_eq!(of("USR1").map_err(|error| error.to_string()), Err("unknown stop signal \"USR1\"".to_owned()));
    }

    #[test]
    fn every_list_of_the_spec() {
        let pod = pod(json!({
            "initContainers": [{"name": "init", "image": "app", "workingDir": "/init"}],
            "containers": [{"name": "app", "image": "app", "workingDir": "/app"}],
            "ephemeralContainers": [{"name": "debug", "image": "app", "workingDir": "/debug", "command": ["sh"]}],
        }));
        for name in ["init", "app", "debug"] {
            let config = with_inputs(&pod, name, |inputs| container_config(&node(), inputs)).unwrap();
            assert_eq!(config.message.working_dir, format!("/{name}"));
        }
    }

    #[test]
    fn errors_are_configuration_errors() {
        let pod = pod_with(json!({"securityContext": {"runAsNonRoot": true, "runAsUser": 0}}));
        let error = with_inputs(&pod, "app", |inputs| container_config(&node(), inputs)).unwrap_err();
        let error = error.into_call_error(Operation::CreateContainer, "app");
        assert_eq!(error.kind, polylet_core::event::CallErrorKind::Config);
        assert_eq!(error.message, "container's runAsUser breaks non-root policy (pod: \"web_shop(u1)\", container: app)");
    }
}
