//! What a pod claims of the node besides cpu, memory and disk: huge pages, host ports, AppArmor.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

use crate::quantity;

use super::Pod;

/// What a pod holds of the node beside others, from its admission on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Claim {
    /// Thousandths of a processor.
    pub cpu: u64,
    /// Bytes.
    pub memory: u64,
    /// Bytes of local storage.
    pub storage: u64,
    /// Bytes by the size of a page in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
    /// Ports of the node.
    pub host_ports: Vec<HostPort>,
}

/// A port of the node that a pod wants for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPort {
    /// `0.0.0.0` where the spec names none: every address.
    pub ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// 1 to 65535.
    pub port: i32,
}

impl HostPort {
    /// Both cannot be had at once.
    pub fn meets(&self, other: &HostPort) -> bool {
        let everywhere = |ip: &str| ip == ANY || ip == "::";
        let ips = self.ip == other.ip || everywhere(&self.ip) || everywhere(&other.ip);
        ips && self.protocol == other.protocol && self.port == other.port
    }
}

const ANY: &str = "0.0.0.0";
/// Resource names of huge pages: the size of a page follows.
pub const HUGE_PAGES: &str = "hugepages-";

impl Pod {
    /// What it asks for beside others.
    pub fn claim(&self) -> Claim {
        let total = self.total();
        Claim {
            cpu: total.cpu_request.unwrap_or(0),
            memory: total.memory_request.unwrap_or(0),
            storage: total.storage_request.unwrap_or(0),
            huge_pages: self.huge_pages(),
            host_ports: self.host_ports().collect(),
        }
    }

    /// Host ports of app containers and sidecars.
    pub fn host_ports(&self) -> impl Iterator<Item = HostPort> {
        let spec = self.object.spec.as_ref();
        let sidecars = spec.and_then(|s| s.init_containers.as_ref()).into_iter().flatten().filter(|c| is_sidecar(c));
        let containers = spec.map(|s| &s.containers).into_iter().flatten().chain(sidecars);
        let ports = containers.flat_map(|c| c.ports.iter().flatten());
        ports.filter_map(|port| {
            Some(HostPort {
                ip: port.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or(ANY).to_owned(),
                protocol: port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP").to_owned(),
                port: port.host_port.filter(|port| *port > 0)?,
            })
        })
    }

    /// Bytes of huge pages that are asked for, by the size of a page in bytes: what the pod states as a whole, else the larger of what
    /// runs together and what starts up; and the pod's overhead.
    pub fn huge_pages(&self) -> BTreeMap<u64, u64> {
        let Some(spec) = &self.object.spec else { return BTreeMap::new() };
        let of = |c: &v1::Container| c.resources.as_ref().map(requests).unwrap_or_default();
        let (mut sidecars, mut peak) = (BTreeMap::new(), BTreeMap::new());
        for c in spec.init_containers.iter().flatten() {
            let mut now = sidecars.clone();
            add(&mut now, of(c));
            if is_sidecar(c) {
                sidecars = now.clone();
            }
            for (size, bytes) in now {
                let most = peak.entry(size).or_insert(0);
                *most = bytes.max(*most);
            }
        }
        spec.containers.iter().for_each(|c| add(&mut sidecars, of(c)));
        for (size, bytes) in sidecars {
            let most = peak.entry(size).or_insert(0);
            *most = bytes.max(*most);
        }
        peak.extend(spec.resources.as_ref().map(requests).unwrap_or_default());
        add(&mut peak, amounts(&spec.overhead));
        peak
    }

    /// Its processes are to have the groups of the spec and none of the image's.
    pub fn wants_strict_groups(&self) -> bool {
        let context = self.object.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        context.and_then(|context| context.supplemental_groups_policy.as_deref()) == Some("Strict")
    }

    /// A container, or the pod for all of them, asks for an AppArmor profile to be enforced.
    pub fn wants_apparmor(&self) -> bool {
        let Some(spec) = &self.object.spec else { return false };
        let enforced = |profile: Option<&v1::AppArmorProfile>| profile.is_some_and(|profile| profile.type_ != "Unconfined");
        let of = |c: &v1::Container| enforced(c.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref()));
        enforced(spec.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref()))
            || spec.init_containers.iter().flatten().chain(&spec.containers).any(of)
    }
}

fn is_sidecar(container: &v1::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn requests(resources: &v1::ResourceRequirements) -> BTreeMap<u64, u64> {
    // Of huge pages, what is asked for is what is allowed: a limit stands for the request that is not written.
    let mut all = amounts(&resources.limits);
    all.extend(amounts(&resources.requests));
    all
}

/// Bytes by the size of a page, which can be named in several ways.
fn amounts(list: &Option<BTreeMap<String, Quantity>>) -> BTreeMap<u64, u64> {
    let amount = |(name, amount): (&String, &Quantity)| {
        let size = quantity::whole(name.strip_prefix(HUGE_PAGES)?).ok()?;
        Some(BTreeMap::from([(size, quantity::whole(&amount.0).ok()?)]))
    };
    let mut all = BTreeMap::new();
    list.iter().flatten().filter_map(amount).for_each(|one| add(&mut all, one));
    all
}

fn add(sum: &mut BTreeMap<u64, u64>, more: BTreeMap<u64, u64>) {
    for (size, bytes) in more {
        let total = sum.entry(size).or_insert(0);
        *total = total.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::pod::Source;
    use crate::time::Wall;

    fn pod(spec: Value) -> Pod {
        let object = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec});
        Pod::parse(Arc::new(serde_json::from_value(object).expect("a pod")), Source::File, Wall(0)).expect("a valid pod")
    }

    fn container(name: &str, more: Value) -> Value {
        let mut c = json!({"name": name, "image": "i:1"});
        c.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        c
    }

    fn huge(amount: &str) -> Value {
        json!({"resources": {"limits": {"hugepages-2Mi": amount}}})
    }

    #[test]
    fn huge_pages_of_what_runs_together() {
        let two = 2 << 20;
        for (init, apps, expected) in [
            (vec![], vec![huge("4Mi"), huge("6Mi")], 10 << 20),
            (vec![huge("32Mi")], vec![huge("4Mi")], 32 << 20),
            (
                vec![{
                    let mut side = huge("8Mi");
                    side["restartPolicy"] = "Always".into();
                    side
                }],
                vec![huge("4Mi")],
                12 << 20,
            ),
        ] {
            let name = |list: Vec<Value>, of: &str| -> Vec<Value> {
                list.into_iter().enumerate().map(|(i, c)| container(&format!("{of}{i}"), c)).collect()
            };
            let pod = pod(json!({"initContainers": name(init, "i"), "containers": name(apps, "c")}));
            assert_eq!(pod.huge_pages(), BTreeMap::from([(two, expected)]));
        }
    }

    #[test]
    fn huge_pages_of_the_pod_as_a_whole_and_its_overhead() {
        let (two, one) = (2 << 20, 1 << 30);
        let mut spec = json!({"containers": [container("c", huge("4Mi"))], "overhead": {"hugepages-2Mi": "2Mi", "cpu": "1"}});
        assert_eq!(pod(spec.clone()).huge_pages(), BTreeMap::from([(two, 6 << 20)]));
        spec["resources"] = json!({"limits": {"hugepages-1Gi": "1Gi"}});
        assert_eq!(pod(spec.clone()).huge_pages(), BTreeMap::from([(two, 6 << 20), (one, one)]));
        spec["resources"] = json!({"limits": {"hugepages-2Mi": "8Mi"}, "requests": {"cpu": "1"}});
        assert_eq!(pod(spec).huge_pages(), BTreeMap::from([(two, 10 << 20)]));
    }

    #[test]
    fn ports_meet_on_one_address() {
        let port = |ip: &str, protocol: &str, port| HostPort { ip: ip.to_owned(), protocol: protocol.to_owned(), port };
        for (a, b, meet) in [
            (port("0.0.0.0", "TCP", 80), port("10.0.0.1", "TCP", 80), true),
            (port("10.0.0.2", "TCP", 80), port("10.0.0.1", "TCP", 80), false),
            (port("10.0.0.1", "UDP", 80), port("10.0.0.1", "TCP", 80), false),
            (port("10.0.0.1", "TCP", 81), port("10.0.0.1", "TCP", 80), false),
        ] {
            assert_eq!((a.meets(&b), b.meets(&a)), (meet, meet), "{a:?} {b:?}");
        }
        let pod = pod(
            json!({"containers": [container("c", json!({"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}))]}),
        );
        assert_eq!(pod.host_ports().collect::<Vec<_>>(), [port("0.0.0.0", "TCP", 8081)]);
    }

    #[test]
    fn profiles_that_must_be_enforced() {
        let with = |kind: &str| {
            let context = json!({"securityContext": {"appArmorProfile": {"type": kind}}});
            pod(json!({"containers": [container("c", context)]})).wants_apparmor()
        };
        assert_eq!(["RuntimeDefault", "Localhost", "Unconfined"].map(with), [true, true, false]);
    }
}
