//! What a pod's cgroup gets, from its spec and its placement.

use std::collections::BTreeMap;

use polylet_core::pod::{Pod, QosClass};
use polylet_core::question::qos::Placement;
use polylet_upstream::cpu;

use super::Version;
use super::write::Values;

/// The operator's settings that bear on a pod's cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    /// `cpuCFSQuota`: whether cpu limits are enforced.
    pub cpu_quota: bool,
    /// `cpuCFSQuotaPeriod` in microseconds.
    pub cpu_period_us: u64,
    /// `podPidsLimit`, where it is set above zero.
    pub pids: Option<u64>,
}

impl Default for LimitOptions {
    fn default() -> Self {
        Self { cpu_quota: true, cpu_period_us: cpu::DEFAULT_PERIOD_US, pids: None }
    }
}

/// A pod's cgroup. What is None is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLimits {
    /// Which tier it stands in.
    pub tier: QosClass,
    /// In v1's measure.
    pub cpu_shares: u64,
    /// In v2's measure (1 to 10000): a policy's word, instead of what the shares come to.
    pub cpu_weight: Option<u32>,
    /// Microseconds of cpu per period; −1 is explicitly without limit.
    pub cpu_quota_us: Option<i64>,
    /// Microseconds.
    pub cpu_period_us: u64,
    /// Bytes.
    pub memory: Option<u64>,
    /// Bytes never reclaimed (v2).
    pub memory_min: Option<u64>,
    /// Bytes reclaimed last (v2).
    pub memory_low: Option<u64>,
    /// Bytes at which throttling begins (v2).
    pub memory_high: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Bytes by size of page; the machine's other sizes get 0.
    pub huge_pages: BTreeMap<u64, u64>,
}

impl PodLimits {
    /// What a pod's new cgroup gets on a machine with these sizes of huge pages, in bytes: names of files, and what is written into each.
    /// Where the machine lacks a controller, only the others' files are written.
    pub fn files(&self, version: Version, page_sizes: &[u64]) -> BTreeMap<String, String> {
        self.values_on(page_sizes).files(version)
    }

    /// Huge pages that the pod does not ask for are not to be had.
    pub(super) fn values_on(&self, page_sizes: &[u64]) -> Values {
        let mut values = self.values();
        for size in page_sizes {
            values.huge_pages.entry(*size).or_insert(0);
        }
        values
    }

    fn values(&self) -> Values {
        let shares = self.cpu_weight.map_or(self.cpu_shares, |weight| cpu::shares_of_weight(weight.into()));
        Values {
            shares: Some(shares),
            weight: self.cpu_weight.map(u64::from),
            quota: self.cpu_quota_us.map(|quota| (quota, self.cpu_period_us)),
            memory_limit: self.memory,
            memory_min: self.memory_min,
            memory_low: self.memory_low,
            memory_high: self.memory_high,
            pids_limit: self.pids,
            huge_pages: self.huge_pages.clone(),
        }
    }
}

/// Upstream's limits of a pod's cgroup, with the placement's tier, weight and memory protection.
///
/// The limits follow from the pod's class, the tier only says where it stands: a policy that moves a pod does not lift its limits.
pub fn pod_limits(pod: &Pod, placement: &Placement, options: &LimitOptions) -> PodLimits {
    let best_effort = pod.qos == QosClass::BestEffort;
    let total = if best_effort { Default::default() } else { pod.total() };
    let quota = |limit| match options.cpu_quota {
        true => cpu::quota_us(limit, options.cpu_period_us).and_then(|quota| i64::try_from(quota).ok()),
        false => Some(-1),
    };
    // A Guaranteed pod's quota is switched off in so many words even where it has no cpu limit; it always has one.
    let cpu_limit = total.cpu_limit.filter(|limit| *limit > 0);
    PodLimits {
        tier: placement.tier,
        cpu_shares: cpu::shares(total.cpu_request.unwrap_or(0)),
        cpu_weight: placement.cpu_weight,
        cpu_quota_us: cpu_limit.and_then(quota),
        cpu_period_us: options.cpu_period_us,
        memory: total.memory_limit.filter(|limit| *limit > 0),
        memory_min: placement.memory_min,
        memory_low: placement.memory_low,
        memory_high: placement.memory_high,
        pids: options.pids,
        huge_pages: pod.huge_pages(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    const GI: u64 = 1 << 30;

    fn limits(spec: &str, options: LimitOptions) -> PodLimits {
        let pod = pod(spec);
        let placement = Placement {
            tier: pod.qos,
            cpu_weight: None,
            memory_min: None,
            memory_low: None,
            memory_high: None,
            containers: Vec::new(),
        };
        pod_limits(&pod, &placement, &options)
    }

    /// Class, shares, quota, memory limit.
    #[track_caller]
    fn check(spec: &str, tier: QosClass, shares: u64, quota: Option<i64>, memory: Option<u64>) {
        let limits = limits(spec, LimitOptions::default());
        assert_eq!((limits.tier, limits.cpu_shares, limits.cpu_quota_us, limits.memory), (tier, shares, quota, memory), "{spec}");
    }

    fn container(resources: &str) -> String {
        format!(r#"{{"name":"c{}","image":"i","resources":{resources}}}"#, resources.len())
    }

    #[test]
    fn each_class_gets_its_limits() {
        let full = container(r#"{"requests":{"cpu":"500m","memory":"1Gi"},"limits":{"cpu":"500m","memory":"1Gi"}}"#);
        let some = container(r#"{"requests":{"cpu":"250m"},"limits":{"cpu":"1"}}"#);
        let none = container("{}");
        check(&format!(r#"{{"containers":[{full}]}}"#), QosClass::Guaranteed, 512, Some(50_000), Some(GI));
        check(&format!(r#"{{"containers":[{none}]}}"#), QosClass::BestEffort, 2, None, None);
        check(&format!(r#"{{"containers":[{some}]}}"#), QosClass::Burstable, 256, Some(100_000), None);
        // The second container declares no limit, so that the pod has none.
        check(&format!(r#"{{"containers":[{full},{none}]}}"#), QosClass::Burstable, 512, None, None);
        check(&format!(r#"{{"containers":[{full},{some}]}}"#), QosClass::Burstable, 768, Some(150_000), None);
    }

    #[test]
    fn init_containers_count_with_the_sidecars_before_them() {
        let side = r#"{"name":"s","image":"i","restartPolicy":"Always","resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"cpu":"100m","memory":"64Mi"}}}"#;
        let bare = r#"{"name":"b","image":"i"}"#;
        let app = container(r#"{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}"#);
        let memory = GI + (64 << 20);
        check(
            &format!(r#"{{"initContainers":[{side},{bare}],"containers":[{app}]}}"#),
            QosClass::Burstable,
            1126,
            Some(110_000),
            Some(memory),
        );
        check(&format!(r#"{{"initContainers":[{bare},{side}],"containers":[{app}]}}"#), QosClass::Burstable, 1126, None, None);
    }

    #[test]
    fn pod_level_values_and_overhead() {
        let none = container("{}");
        check(
            &format!(
                r#"{{"resources":{{"requests":{{"cpu":"1","memory":"1Gi"}},"limits":{{"cpu":"2","memory":"1Gi"}}}},"containers":[{none}]}}"#
            ),
            QosClass::Burstable,
            1024,
            Some(200_000),
            Some(GI),
        );
        let some = container(r#"{"requests":{"cpu":"250m"},"limits":{"cpu":"1"}}"#);
        check(
            &format!(r#"{{"overhead":{{"cpu":"250m","memory":"100Mi"}},"containers":[{some}]}}"#),
            QosClass::Burstable,
            512,
            Some(125_000),
            None,
        );
    }

    #[test]
    fn settings_bear_on_quota_and_pids() {
        let spec =
            format!(r#"{{"containers":[{}]}}"#, container(r#"{"requests":{"cpu":"1"},"limits":{"cpu":"1","memory":"1Gi"}}"#));
        let off = limits(&spec, LimitOptions { cpu_quota: false, pids: Some(64), ..LimitOptions::default() });
        assert_eq!((off.cpu_quota_us, off.pids), (Some(-1), Some(64)));
        let short = limits(&spec, LimitOptions { cpu_period_us: 10_000, ..LimitOptions::default() });
        assert_eq!((short.cpu_quota_us, short.cpu_period_us), (Some(10_000), 10_000));
    }

    #[test]
    fn huge_pages_are_summed_like_other_resources() {
        let page = |name: &str, amount: &str| {
            format!(
                r#"{{"name":"{name}","image":"i","resources":{{"requests":{{"hugepages-2Mi":"{amount}","memory":"1Gi","cpu":"1"}},"limits":{{"hugepages-2Mi":"{amount}"}}}}}}"#
            )
        };
        let spec =
            format!(r#"{{"initContainers":[{}],"containers":[{},{}]}}"#, page("i", "64Mi"), page("a", "4Mi"), page("b", "8Mi"));
        assert_eq!(limits(&spec, LimitOptions::default()).huge_pages, BTreeMap::from([(2 << 20, 64 << 20)]));
    }

    /// One size can be named in several ways.
    #[test]
    fn absurd_amounts_are_the_most_that_there_is() {
        let most = i64::MAX;
        let pages = format!(r#""hugepages-2Mi":"{most}","hugepages-2048Ki":"{most}","hugepages-2097152":"{most}""#);
        let spec = format!(r#"{{"containers":[{{"name":"a","image":"i","resources":{{"requests":{{{pages}}}}}}}]}}"#);
        assert_eq!(limits(&spec, LimitOptions::default()).huge_pages, BTreeMap::from([(2 << 20, u64::MAX)]));
    }

    #[test]
    fn a_policys_weight_goes_before_the_shares() {
        let mut limits = limits(&format!(r#"{{"containers":[{}]}}"#, container("{}")), LimitOptions::default());
        assert_eq!(limits.values().shares, Some(2));
        limits.cpu_weight = Some(39);
        let values = limits.values();
        assert_eq!((values.weight, values.shares), (Some(39), Some(998)));
    }
}
