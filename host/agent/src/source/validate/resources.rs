//! Requests and limits, of containers and of the pod.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polylet_core::quantity;

use super::names;
use crate::document::field::{At, Findings, shown};
use crate::source::defaults::{aggregate, pod_level, written};

/// Checks one container's requests and limits.
pub(super) fn container(container: &v1::Container, restart_policy: Option<&str>, at: &At, findings: &mut Findings) {
    let mut taken = BTreeSet::new();
    for (i, policy) in container.resize_policy.iter().flatten().enumerate() {
        let at = at.child("resizePolicy").index(i);
        if !taken.insert(policy.resource_name.as_str()) {
            findings.duplicate(&at, policy.resource_name.as_str());
        }
        findings.one_of(&at.child("resourceName"), Some(&policy.resource_name), &["cpu", "memory"]);
        let at = at.child("restartPolicy");
        findings.one_of(&at, Some(&policy.restart_policy), &["NotRequired", "RestartContainer"]);
        if restart_policy == Some("Never") && policy.restart_policy == "RestartContainer" {
            findings.invalid(&at, "RestartContainer", "must be 'NotRequired' when `restartPolicy` is 'Never'");
        }
    }
    let Some(resources) = &container.resources else { return };
    let at = at.child("resources");
    for (field, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, amount) in amounts.iter().flatten() {
            let at = at.child(field).key(name);
            container_resource(name, &at, findings);
            check_amount(name, amount, &at, findings);
        }
    }
    within(resources, &at, findings);
    huge_pages_alone(resources, &at, findings);
}

/// A process that uses huge pages uses something else too.
fn huge_pages_alone(resources: &v1::ResourceRequirements, at: &At, findings: &mut Findings) {
    let huge_pages = amounts(resources).any(|(name, _)| name.starts_with("hugepages-"));
    if huge_pages && !amounts(resources).any(|(name, _)| matches!(name.as_str(), "cpu" | "memory")) {
        findings.forbidden(at, "HugePages require cpu or memory");
    }
}

/// Checks what is declared for the pod as a whole.
pub(super) fn pod(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    for (name, amount) in spec.overhead.iter().flatten() {
        let at = at.child("overhead").key(name);
        container_resource(name, &at, findings);
        check_amount(name, amount, &at, findings);
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
    huge_pages_alone(resources, &at, findings);
    below_pod(spec, resources, &at, findings);
}

/// What the containers ask for at the hungriest moment must fit the pod's request, and none may be allowed more than the pod.
fn below_pod(spec: &v1::PodSpec, resources: &v1::ResourceRequirements, at: &At, findings: &mut Findings) {
    for (name, pod) in resources.requests.iter().flatten() {
        let sum = aggregate(name, spec.init_containers.as_deref().unwrap_or_default(), &spec.containers);
        if in_unit(name, pod).is_some_and(|pod| sum > pod) {
            let detail = format!("must be greater than or equal to aggregate container requests of {}", written(name, sum).0);
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

/// Names of the pod's containers: those that a `resourceFieldRef` may name.
pub(super) fn container_names(spec: &v1::PodSpec) -> BTreeSet<&str> {
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.map(|container| container.name.as_str()).collect()
}

/// Names of containers that an error lists.
const MOST_LISTED: usize = 20;

/// The API takes any name here, but nobody can bring a static pod a container later: it would wait for ever.
fn known_container(name: &str, containers: &BTreeSet<&str>, at: &At, findings: &mut Findings) {
    if name.is_empty() || containers.contains(name) {
        return;
    }
    let mut list: Vec<String> = containers.iter().take(MOST_LISTED).map(|name| shown(&(*name).into())).collect();
    if containers.len() > MOST_LISTED {
        list.push("…".to_owned());
    }
    findings.invalid(at, name, format!("must be a container of this pod: {}", list.join(", ")));
}

/// What `resourceFieldRef` may name, of a variable or of a file.
pub(super) fn field_ref(field: &v1::ResourceFieldSelector, containers: &BTreeSet<&str>, at: &At, findings: &mut Findings) {
    let name = field.container_name.as_deref().unwrap_or_default();
    known_container(name, containers, &at.child("containerName"), findings);
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
        Ok(_) => {
            if let Some(size) = name.strip_prefix("hugepages-")
                && !is_multiple(&amount.0, size)
            {
                findings.invalid(at, amount.0.as_str(), format!("{} is not positive integer multiple of {name}", amount.0));
            }
        }
    }
}

/// Whether an amount is made of pages of this size; of what is no size, none is.
fn is_multiple(amount: &str, size: &str) -> bool {
    let amount = quantity::milli(amount).ok().filter(|milli| milli % 1000 == 0).and(quantity::whole(amount).ok());
    let size = quantity::whole(size).ok().filter(|size| *size > 0);
    matches!((amount, size), (Some(amount), Some(size)) if amount % size == 0)
}

/// Requests stay within limits; what cannot be overcommitted must be equal.
fn within(resources: &v1::ResourceRequirements, at: &At, findings: &mut Findings) {
    for (name, request) in resources.requests.iter().flatten() {
        let limit = resources.limits.as_ref().and_then(|limits| limits.get(name));
        let overcommits = !name.contains('/') && !name.starts_with("hugepages-");
        match limit {
            Some(limit) if !overcommits && (exceeds(request, limit) || exceeds(limit, request)) => {
                let detail = format!("must be equal to {name} limit of {}", limit.0);
                findings.invalid(&at.child("requests"), request.0.as_str(), detail);
            }
            Some(limit) if exceeds(request, limit) => {
                let detail = format!("must be less than or equal to {name} limit of {}", limit.0);
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
                "spec.containers[0].resources.limits[disk]: Invalid value: \"disk\": must be a standard resource for containers",
                "spec.containers[0].resources.limits[memory]: Invalid value: \"1Gx\": not a quantity such as 250m, 1.5 or 64Mi",
                "spec.containers[0].resources.requests[disk]: Invalid value: \"disk\": must be a standard resource for containers",
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
            "{containers: [{name: c, image: i, resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi, hugepages-1Gi: 0, hugepages-1: 500m}}}]}",
            &[
                "spec.containers[0].resources.limits[hugepages-1]: Invalid value: \"500m\": 500m is not positive integer multiple of hugepages-1",
                "spec.containers[0].resources.requests[hugepages-1]: Invalid value: \"500m\": 500m is not positive integer multiple of \
                 hugepages-1",
            ],
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
