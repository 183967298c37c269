//! Probes and lifecycle hooks.

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::names;
use crate::document::field::{At, Findings};

/// Checks the three probes of a container.
pub(super) fn probes(container: &v1::Container, at: &At, findings: &mut Findings) {
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (field, probe) in probes {
        let (Some(probe), at) = (probe, at.child(field)) else { continue };
        let handlers = Handlers {
            exec: probe.exec.as_ref(),
            http_get: probe.http_get.as_ref(),
            tcp_socket: probe.tcp_socket.as_ref(),
            grpc: probe.grpc.as_ref(),
            sleep: None,
        };
        one_handler(&handlers, container, 0, &at, findings);
        findings.not_negative(&at.child("initialDelaySeconds"), probe.initial_delay_seconds.map(i64::from));
        let numbers = [
            ("timeoutSeconds", probe.timeout_seconds),
            ("periodSeconds", probe.period_seconds),
            ("successThreshold", probe.success_threshold),
            ("failureThreshold", probe.failure_threshold),
        ];
        for (name, number) in numbers {
            findings.not_negative(&at.child(name), number.map(i64::from));
        }
        let success = probe.success_threshold.unwrap_or(1);
        if field != "readinessProbe" && success > 1 {
            findings.invalid(&at.child("successThreshold"), success, "must be 1");
        }
        if let Some(grace) = probe.termination_grace_period_seconds {
            let at = at.child("terminationGracePeriodSeconds");
            if field == "readinessProbe" {
                findings.invalid(&at, grace, "must not be set for readinessProbes");
            } else if grace <= 0 {
                findings.invalid(&at, grace, "must be greater than 0");
            }
        }
    }
}

/// Checks the hooks of a container whose pod has this grace in seconds.
pub(super) fn hooks(container: &v1::Container, grace: i64, at: &At, findings: &mut Findings) {
    let Some(lifecycle) = &container.lifecycle else { return };
    for (field, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        let Some(hook) = hook else { continue };
        let handlers = Handlers {
            exec: hook.exec.as_ref(),
            http_get: hook.http_get.as_ref(),
            tcp_socket: hook.tcp_socket.as_ref(),
            grpc: None,
            sleep: hook.sleep.as_ref(),
        };
        one_handler(&handlers, container, grace, &at.child("lifecycle").child(field), findings);
    }
}

struct Handlers<'a> {
    exec: Option<&'a v1::ExecAction>,
    http_get: Option<&'a v1::HTTPGetAction>,
    tcp_socket: Option<&'a v1::TCPSocketAction>,
    grpc: Option<&'a v1::GRPCAction>,
    sleep: Option<&'a v1::SleepAction>,
}

/// The first handler counts, every further one is one too many.
fn one_handler(handlers: &Handlers<'_>, container: &v1::Container, grace: i64, at: &At, findings: &mut Findings) {
    let mut seen = false;
    let mut first = |at: &At, findings: &mut Findings| {
        if std::mem::replace(&mut seen, true) {
            findings.forbidden(at, "may not specify more than 1 handler type");
            return false;
        }
        true
    };
    if let Some(exec) = handlers.exec {
        let at = at.child("exec");
        if first(&at, findings) && exec.command.as_ref().is_none_or(Vec::is_empty) {
            findings.required(&at.child("command"), "");
        }
    }
    if let Some(http) = handlers.http_get {
        let at = at.child("httpGet");
        if first(&at, findings) {
            http_get(http, container, &at, findings);
        }
    }
    if let Some(tcp) = handlers.tcp_socket {
        let at = at.child("tcpSocket");
        if first(&at, findings) {
            port(&tcp.port, container, &at.child("port"), findings);
        }
    }
    if let Some(grpc) = handlers.grpc {
        let at = at.child("grpc");
        if first(&at, findings) {
            findings.between(&at.child("port"), grpc.port.into(), 1, 65535);
            findings.one_of(&at.child("mode"), grpc.mode.as_deref(), &["Plaintext", "TLS"]);
        }
    }
    if let Some(sleep) = handlers.sleep {
        let at = at.child("sleep");
        if first(&at, findings) && !(0..=grace).contains(&sleep.seconds) {
            let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            findings.invalid(&at, sleep.seconds, detail);
        }
    }
    if !seen {
        findings.required(at, "must specify a handler type");
    }
}

fn http_get(http: &v1::HTTPGetAction, container: &v1::Container, at: &At, findings: &mut Findings) {
    if http.path.as_deref().unwrap_or_default().is_empty() {
        findings.required(&at.child("path"), "");
    }
    port(&http.port, container, &at.child("port"), findings);
    findings.one_of(&at.child("scheme"), http.scheme.as_deref(), &["HTTP", "HTTPS"]);
    for (i, header) in http.http_headers.iter().flatten().enumerate() {
        findings.format(&at.child("httpHeaders").index(i).child("name"), &header.name, names::header_name(&header.name));
    }
}

/// A number in range, or the name of one of the container's ports.
fn port(port: &IntOrString, container: &v1::Container, at: &At, findings: &mut Findings) {
    match port {
        IntOrString::Int(number) => findings.between(at, (*number).into(), 1, 65535),
        IntOrString::String(name) => {
            let complaints = names::port_name(name);
            let known = container.ports.iter().flatten().any(|port| port.name.as_deref() == Some(name));
            // Upstream finds out only when it probes that no port has the name.
            if complaints.is_empty() && !known {
                findings.invalid(at, name.as_str(), "must be the name of one of the container's ports");
            } else {
                findings.format(at, name, complaints);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::source::validate::tests::check;

    #[test]
    fn probes_are_checked() {
        check(
            "{containers: [{name: c, image: i, livenessProbe: {}, readinessProbe: {exec: {command: []}, tcpSocket: {port: 1}, \
             terminationGracePeriodSeconds: 5}, startupProbe: {httpGet: {port: web, scheme: FTP, httpHeaders: [{name: 'a b', value: x}]}, \
             successThreshold: 2, periodSeconds: -1, terminationGracePeriodSeconds: 0}}]}",
            &[
                "spec.containers[0].livenessProbe: Required value: must specify a handler type",
                "spec.containers[0].readinessProbe.exec.command: Required value",
                "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes",
                "spec.containers[0].startupProbe.httpGet.port: Invalid value: \"web\": must be the name of one of the container's ports",
                "spec.containers[0].startupProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
                "spec.containers[0].startupProbe.httpGet.httpHeaders[0].name: Invalid value: \"a b\": a valid HTTP header must consist of \
                 alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
                "spec.containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1",
                "spec.containers[0].startupProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
            ],
        );
        check(
            "{containers: [{name: c, image: i, livenessProbe: {tcpSocket: {port: 0}}, readinessProbe: {grpc: {port: 65536}}, \
             startupProbe: {httpGet: {port: 'UP'}}, ports: [{containerPort: 80, name: web}]}]}",
            &[
                "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.containers[0].readinessProbe.grpc.port: Invalid value: 65536: must be between 1 and 65535, inclusive",
                "spec.containers[0].startupProbe.httpGet.port: Invalid value: \"UP\": must contain only lowercase alphanumeric characters \
                 (a-z, 0-9), and hyphens ('-')",
                "spec.containers[0].startupProbe.httpGet.port: Invalid value: \"UP\": must contain at least one letter (a-z)",
            ],
        );
    }

    #[test]
    fn hooks_are_checked() {
        check(
            "{terminationGracePeriodSeconds: 10, containers: [{name: c, image: i, lifecycle: {postStart: {}, preStop: {sleep: {seconds: 11}}}}]}",
            &[
                "spec.containers[0].lifecycle.postStart: Required value: must specify a handler type",
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 11: must be non-negative and less than \
                 terminationGracePeriodSeconds (10)",
            ],
        );
    }
}
