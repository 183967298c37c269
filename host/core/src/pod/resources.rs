//! What a pod asks for as a whole: its class and its totals.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polylet_upstream::qos;

use super::{Container, ContainerKind, Pod, QosClass, Resources};
use crate::quantity::{self, QuantityError};

impl Pod {
    /// Kinds and amounts as `policies/upstream` counts them, in the order of [`Pod::containers`].
    pub fn container_resources(&self) -> Vec<qos::Container> {
        self.containers.iter().map(|c| qos::Container { kind: kind(c.kind), resources: amounts(&c.resources) }).collect()
    }

    /// What the whole pod asks for: the larger of what runs together and what starts up, or the pod's own `spec.resources`
    /// where they name the resource, and the overhead of its runtime class on top. A limit of CPU or memory is there only where
    /// upstream enforces one: where it is declared for all containers, or for the pod. Storage is limited to the sum of what is
    /// declared, by whomever.
    pub fn total(&self) -> Resources {
        let overhead = |name| self.overhead(name);
        let request = |of: fn(&Resources) -> Option<u64>, name| {
            let own = self.resources.as_ref().and_then(of);
            Some(own.unwrap_or_else(|| self.sum(of)).saturating_add(overhead(name))).filter(|amount| *amount > 0)
        };
        let limit = |of: fn(&Resources) -> Option<u64>, name| {
            let own = self.resources.as_ref().and_then(of).filter(|limit| *limit > 0);
            let all = name == STORAGE || self.all_declare(of);
            let declared = own.or_else(|| all.then(|| self.sum(of)).filter(|limit| *limit > 0));
            declared.map(|limit| limit.saturating_add(overhead(name)))
        };
        Resources {
            cpu_request: request(|r| r.cpu_request, "cpu"),
            cpu_limit: limit(|r| r.cpu_limit, "cpu"),
            memory_request: request(|r| r.memory_request, "memory"),
            memory_limit: limit(|r| r.memory_limit, "memory"),
            storage_request: request(|r| r.storage_request, STORAGE),
            storage_limit: limit(|r| r.storage_limit, STORAGE),
        }
    }

    /// Millicores that the whole pod asks for, with its overhead.
    pub fn cpu_request(&self) -> u64 {
        self.total().cpu_request.unwrap_or(0)
    }

    /// Bytes of memory that an eviction ranking holds against the pod's use: the pod's own request alone where `spec.resources`
    /// is there, even where it names no memory; else the sum. Overhead is added only to what is asked for.
    pub fn memory_request(&self) -> u64 {
        let request = match &self.resources {
            Some(own) => own.memory_request.unwrap_or(0),
            None => self.sum(|r| r.memory_request),
        };
        self.with_overhead(request, "memory")
    }

    /// Bytes of ephemeral storage that an eviction ranking holds against the pod's use.
    pub fn storage_request(&self) -> u64 {
        self.with_overhead(self.sum(|r| r.storage_request), STORAGE)
    }

    /// What the runtime class adds to one resource of the pod, in millicores or bytes.
    pub(crate) fn overhead(&self, name: &str) -> u64 {
        let declared = self.object.spec.as_ref().and_then(|spec| spec.overhead.as_ref());
        let read = if name == "cpu" { quantity::milli } else { quantity::whole };
        declared.and_then(|overhead| overhead.get(name)).and_then(|text| read(&text.0).ok()).unwrap_or(0)
    }

    fn with_overhead(&self, request: u64, name: &str) -> u64 {
        if request == 0 { 0 } else { request.saturating_add(self.overhead(name)) }
    }

    /// The larger of what runs together and what starts up.
    fn sum(&self, of: fn(&Resources) -> Option<u64>) -> u64 {
        let alone = |c: &Container| qos::Container {
            kind: kind(c.kind),
            resources: qos::Resources { cpu_request: of(&c.resources), ..Default::default() },
        };
        let amounts: Vec<qos::Container> = self.containers.iter().map(alone).collect();
        qos::total(&amounts, |resources| resources.cpu_request.unwrap_or(0))
    }

    /// Whether every container declares a limit; an init container counts with the sidecars before it, so that one without a
    /// limit passes after a sidecar that has it.
    fn all_declare(&self, of: fn(&Resources) -> Option<u64>) -> bool {
        let mut sidecars = 0u64;
        let mut declared = |c: &Container| {
            let amount = of(&c.resources).unwrap_or(0);
            match c.kind {
                ContainerKind::Ephemeral => true,
                ContainerKind::App => amount > 0,
                ContainerKind::Init => amount.saturating_add(sidecars) > 0,
                ContainerKind::Sidecar => {
                    sidecars = sidecars.saturating_add(amount);
                    sidecars > 0
                }
            }
        };
        self.containers.iter().all(&mut declared)
    }
}

/// The class that the API would report for this spec. Amounts that cannot be read count as absent: parsing a pod refuses them.
pub fn qos_class(spec: &v1::PodSpec) -> QosClass {
    let read = |r: Option<&v1::ResourceRequirements>| amounts(&read(r).unwrap_or_default());
    let init = spec.init_containers.iter().flatten().map(|c| (qos::Kind::Init, c));
    let apps = spec.containers.iter().map(|c| (qos::Kind::App, c));
    let containers: Vec<qos::Container> =
        init.chain(apps).map(|(kind, c)| qos::Container { kind, resources: read(c.resources.as_ref()) }).collect();
    // Sidecars may count as init containers here: both count for the class alike.
    let pod = qos::Pod {
        reported: None,
        node_critical: false,
        containers: &containers,
        pod_level: spec.resources.as_ref().map(|r| read(Some(r))),
    };
    class(qos::class(&pod))
}

/// CPU, memory and storage out of a spec's resources; the error names the field below `resources`.
pub(super) fn read(resources: Option<&v1::ResourceRequirements>) -> Result<Resources, (String, String, QuantityError)> {
    type List = BTreeMap<String, Quantity>;
    let Some(resources) = resources else { return Ok(Resources::default()) };
    let get = |list: &Option<List>, list_name, name, read: fn(&str) -> Result<u64, QuantityError>| {
        let Some(text) = list.as_ref().and_then(|list| list.get(name)) else { return Ok(None) };
        read(&text.0).map(Some).map_err(|error| (format!("{list_name}.{name}"), text.0.clone(), error))
    };
    let (requests, limits) = (&resources.requests, &resources.limits);
    Ok(Resources {
        cpu_request: get(requests, "requests", "cpu", quantity::milli)?,
        cpu_limit: get(limits, "limits", "cpu", quantity::milli)?,
        memory_request: get(requests, "requests", "memory", quantity::whole)?,
        memory_limit: get(limits, "limits", "memory", quantity::whole)?,
        storage_request: get(requests, "requests", STORAGE, quantity::whole)?,
        storage_limit: get(limits, "limits", STORAGE, quantity::whole)?,
    })
}

const STORAGE: &str = "ephemeral-storage";

fn amounts(r: &Resources) -> qos::Resources {
    qos::Resources {
        cpu_request: r.cpu_request,
        cpu_limit: r.cpu_limit,
        memory_request: r.memory_request,
        memory_limit: r.memory_limit,
    }
}

fn kind(kind: ContainerKind) -> qos::Kind {
    match kind {
        ContainerKind::Init => qos::Kind::Init,
        ContainerKind::Sidecar => qos::Kind::Sidecar,
        ContainerKind::App => qos::Kind::App,
        ContainerKind::Ephemeral => qos::Kind::Ephemeral,
    }
}

fn class(class: qos::QosClass) -> QosClass {
    match class {
        qos::QosClass::BestEffort => QosClass::BestEffort,
        qos::QosClass::Burstable => QosClass::Burstable,
        qos::QosClass::Guaranteed => QosClass::Guaranteed,
    }
}
