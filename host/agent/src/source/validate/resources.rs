//! Requests and limits, of containers and of the pod.

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polylet_core::quantity;

use super::names;
use crate::document::field::{At, Findings};
use crate::source::defaults::pod_level;

/// Checks one container's requests and limits.
pub(super) fn container(container: &v1::Container, at: &At, findings: &mut Findings) {
    for (i, policy) in container.resize_policy.iter().flatten().enumerate() {
        let at = at.child("resizePolicy").index(i);
        findings.one_of(&at.child("resourceName"), Some(&policy.resource_name), &["cpu", "memory"]);
        findings.one_of(&at.child("restartPolicy"), Some(&policy.restart_policy), &["NotRequired", "RestartContainer"]);
    }
    let Some(resources) = &container.resources else { return };
    let at = at.child("resources");
    for (field, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, amount) in amounts.iter().flatten() {
            let at = at.child(field);
            container_resource(name, &at, findings);
            check_amount(name, amount, &at.key(name), findings);
        }
    }
    within(resources, &at, findings);
    let hugepages = amounts(resources).any(|(name, _)| name.starts_with("hugepages-"));
    if hugepages && !amounts(resources).any(|(name, _)| matches!(name.as_str(), "cpu" | "memory")) {
        findings.forbidden(&at, "HugePages require cpu or memory");
    }
}

/// Checks what is declared for the pod as a whole.
pub(super) fn pod(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    for (name, amount) in spec.overhead.iter().flatten() {
        let at = at.child("overhead");
        container_resource(name, &at, findings);
        check_amount(name, amount, &at.key(name), findings);
    }
    let Some(resources) = &spec.resources else { return };
    let at = at.child("resources");
    for (field, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, amount) in amounts.iter().flatten() {
            let at = at.child(field).key(name);
            if !pod_level(name) {
                findings.unsupported(&at, name.as_str(), &["cpu", "memory", "hugepages-<size>"]);
            }
            check_amount(name, amount, &at, findings);
        }
    }
    if resources.claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        findings.forbidden(&at.child("claims"), "claims cannot be set for Resources at pod-level");
    }
    within(resources, &at, findings);
    below_pod(spec, resources, &at, findings);
}

/// What the app containers ask for together must fit the pod's request, and no container may be allowed more than the pod.
fn below_pod(spec: &v1::PodSpec, resources: &v1::ResourceRequirements, at: &At, findings: &mut Findings) {
    for (name, pod) in resources.requests.iter().flatten() {
        let requests = spec.containers.iter().filter_map(|c| c.resources.as_ref()?.requests.as_ref()?.get(name));
        let Some(sum) = requests.map(|amount| in_unit(name, amount)).try_fold(0u64, |sum, n| Some(sum.saturating_add(n?))) else {
            continue;
        };
        if in_unit(name, pod).is_some_and(|pod| sum > pod) {
            let unit = if name == "cpu" { quantity::cores(sum) } else { quantity::binary(sum) };
            let detail = format!("must be greater than or equal to aggregate container requests of {unit}");
            findings.invalid(&at.child("requests").key(name), pod.0.as_str(), detail);
        }
    }
    for (name, pod) in resources.limits.iter().flatten() {
        for (i, container) in spec.containers.iter().enumerate() {
            let limit = container.resources.as_ref().and_then(|r| r.limits.as_ref()?.get(name));
            if let Some(limit) = limit.filter(|limit| exceeds(limit, pod)) {
                let at = At::of("spec.containers").index(i).child("resources").child("limits").key(name);
                findings.invalid(&at, limit.0.as_str(), format!("must be less than or equal to pod limits of {}", pod.0));
            }
        }
    }
}

/// What `resourceFieldRef` of an environment variable may name.
pub(super) fn field_ref(field: &v1::ResourceFieldSelector, at: &At, findings: &mut Findings) {
    let supported = [
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "limits.hugepages-<size>",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "requests.hugepages-<size>",
    ];
    let resource = field.resource.as_str();
    if resource.is_empty() {
        return findings.required(&at.child("resource"), "");
    }
    let hugepages = ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| resource.starts_with(start));
    if !hugepages {
        findings.one_of(&at.child("resource"), Some(resource), &supported);
    }
    let Some(divisor) = field.divisor.as_ref().filter(|divisor| quantity::milli(&divisor.0) != Ok(0)) else { return };
    let divisors: &[&str] = if resource.ends_with(".cpu") {
        &["1m", "1"]
    } else {
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]
    };
    findings.one_of(&at.child("divisor"), Some(&divisor.0), divisors);
}

/// A resource of the API's own, or one with a vendor's prefix.
fn container_resource(name: &str, at: &At, findings: &mut Findings) {
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if standard {
        return;
    }
    let complaints = names::qualified_name(name);
    if complaints.is_empty() && !name.contains('/') {
        findings.invalid(at, name, "must be a standard resource for containers");
    }
    findings.format(at, name, complaints);
}

fn check_amount(name: &str, amount: &Quantity, at: &At, findings: &mut Findings) {
    match quantity::milli(&amount.0) {
        Err(quantity::QuantityError::Negative) => {
            findings.invalid(at, amount.0.as_str(), "must be greater than or equal to 0");
        }
        Err(error) => findings.invalid(at, amount.0.as_str(), error.to_string()),
        Ok(milli) if name.contains('/') && milli % 1000 != 0 => findings.invalid(at, amount.0.as_str(), "must be an integer"),
        Ok(_) => {}
    }
}

/// Requests stay within limits; what cannot be overcommitted must be equal.
fn within(resources: &v1::ResourceRequirements, at: &At, findings: &mut Findings) {
    for (name, request) in resources.requests.iter().flatten() {
        let limit = resources.limits.as_ref().and_then(|limits| limits.get(name));
        let overcommits = !name.contains('/') && !name.starts_with("hugepages-");
        match limit {
            Some(limit) if exceeds(request, limit) => {
                let detail = format!("must be less than or equal to {name} limit of {}", limit.0);
                findings.invalid(&at.child("requests"), request.0.as_str(), detail);
            }
            Some(limit) if !overcommits && exceeds(limit, request) => {
                let detail = format!("must be equal to {name} limit of {}", limit.0);
                findings.invalid(&at.child("requests"), request.0.as_str(), detail);
            }
            None if !overcommits => findings.required(&at.child("limits"), "Limit must be set for non overcommitable resources"),
            _ => {}
        }
    }
}

fn amounts(resources: &v1::ResourceRequirements) -> impl Iterator<Item = (&String, &Quantity)> {
    resources.limits.iter().chain(&resources.requests).flatten()
}

fn in_unit(name: &str, amount: &Quantity) -> Option<u64> {
    if name == "cpu" { quantity::milli(&amount.0).ok() } else { quantity::whole(&amount.0).ok() }
}

/// Whether one amount is above another. Thousandths saturate first, so whole units decide and thousandths break the tie.
fn exceeds(amount: &Quantity, bound: &Quantity) -> bool {
    let parts = |q: &Quantity| Some((quantity::whole(&q.0).ok()?, quantity::milli(&q.0).ok()?));
    matches!((parts(amount), parts(bound)), (Some(amount), Some(bound)) if amount > bound)
}

#[cfg(test)]
mod tests {
    use crate::source::validate::tests::check;

    #[test]
    fn amounts_are_checked() {
        check(
            "{containers: [{name: c, image: i, resources: {limits: {cpu: 500m, memory: 1Gx, disk: 1}, requests: {cpu: 1, memory: -1}}}]}",
            &[
                "spec.containers[0].resources.limits: Invalid value: \"disk\": must be a standard resource for containers",
                "spec.containers[0].resources.limits[memory]: Invalid value: \"1Gx\": not a quantity such as 250m, 1.5 or 64Mi",
                "spec.containers[0].resources.requests: Invalid value: \"disk\": must be a standard resource for containers",
                "spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.containers[0].resources.requests: Invalid value: \"1\": must be less than or equal to cpu limit of 500m",
            ],
        );
        check("{containers: [{name: c, image: i, resources: {limits: {cpu: 100m}, requests: {cpu: 0.1}}}]}", &[]);
        check(
            "{containers: [{name: c, image: i, resources: {limits: {hugepages-2Mi: 4Mi}}}]}",
            &["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
        );
        check(
            "{containers: [{name: c, image: i, resources: {requests: {cpu: 1, hugepages-2Mi: 4Mi}}}]}",
            &["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
        );
    }

    #[test]
    fn the_pods_own_amounts() {
        check(
            "{resources: {limits: {cpu: 1, ephemeral-storage: 1}, requests: {cpu: 100m}}, overhead: {cpu: x}, \
             containers: [{name: c, image: i, resources: {limits: {cpu: 2}, requests: {cpu: 200m}}}]}",
            &[
                "spec.overhead[cpu]: Invalid value: \"x\": not a quantity such as 250m, 1.5 or 64Mi",
                "spec.resources.limits[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"memory\", \
                 \"hugepages-<size>\"",
                "spec.resources.requests[cpu]: Invalid value: \"100m\": must be greater than or equal to aggregate container requests of 200m",
                "spec.containers[0].resources.limits[cpu]: Invalid value: \"2\": must be less than or equal to pod limits of 1",
            ],
        );
    }
}
