use serde_json::{Value, json};

use super::*;
use crate::translate::Swap;
use crate::translate::testing::{map, node, pod, pod_with, with_inputs};

fn of(resources: Value, node: &NodeContext) -> LinuxContainerResources {
    let pod = pod_with(json!({"resources": resources}));
    with_inputs(&pod, "app", |inputs| of_container(node, inputs))
}

#[test]
fn shares_quota_and_memory() {
    let cases = [
        (json!({}), (2, 0, 0)),
        (json!({"requests": {"cpu": "100m"}}), (102, 0, 0)),
        (json!({"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}), (2, 100_000, 0)),
        (json!({"limits": {"cpu": "500m", "memory": "1Gi"}}), (512, 50_000, 1 << 30)),
        (json!({"requests": {"cpu": "1500m"}, "limits": {"cpu": "4"}}), (1536, 400_000, 0)),
        (json!({"limits": {"cpu": "1m"}}), (2, 1000, 0)),
        (json!({"requests": {"cpu": "256"}, "limits": {"cpu": "256"}}), (262_144, 25_600_000, 0)),
    ];
    for (resources, expected) in cases {
        let got = of(resources.clone(), &node());
        assert_eq!((got.cpu_shares, got.cpu_quota, got.memory_limit_in_bytes), expected, "{resources}");
        assert_eq!((got.cpu_period, got.oom_score_adj), (100_000, 938));
    }
    let without = of(json!({"limits": {"cpu": "1"}}), &NodeContext { cpu_cfs_quota: false, ..node() });
    assert_eq!((without.cpu_quota, without.cpu_period), (0, 0));
    let period = of(json!({"limits": {"cpu": "1"}}), &NodeContext { cpu_cfs_period_us: 10_000, ..node() });
    assert_eq!((period.cpu_quota, period.cpu_period), (10_000, 10_000));
}

#[test]
fn a_limit_of_the_pod_stands_in() {
    let pod = pod(json!({
        "resources": {"limits": {"cpu": "2", "memory": "2Gi", "hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}},
        "containers": [
            {"name": "app", "image": "app"},
            {"name": "own", "image": "app",
             "resources": {"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}}},
        ],
    }));
    let of = |name: &str| {
        let got = with_inputs(&pod, name, |inputs| of_container(&node(), inputs));
        let pages: Vec<_> = got.hugepage_limits.into_iter().map(|page| (page.page_size, page.limit)).collect();
        (got.cpu_shares, got.cpu_quota, got.memory_limit_in_bytes, pages)
    };
    let pages = |two: u64| vec![("2MB".to_owned(), two), ("1GB".to_owned(), 1 << 30)];
    assert_eq!(of("app"), (2048, 200_000, 2 << 30, pages(4 << 20)));
    assert_eq!(of("own"), (1024, 100_000, 1 << 30, pages(2 << 20)));
}

#[test]
fn what_the_pod_comes_to() {
    let overhead = json!({
        "overhead": {"cpu": "250m", "memory": "64Mi"},
        "initContainers": [{"name": "init", "image": "app", "resources": {"requests": {"cpu": "3"}}}],
        "containers": [
            {"name": "a", "image": "app", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}},
            {"name": "b", "image": "app", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}},
        ],
    });
    let pod = pod(overhead);
    let total = super::of_pod(&node(), &pod);
    assert_eq!((total.cpu_shares, total.cpu_quota, total.memory_limit_in_bytes), (3072, 100_000, 1 << 30));
    let own = super::overhead(&node(), &pod);
    assert_eq!((own.cpu_shares, own.cpu_quota, own.memory_limit_in_bytes), (256, 25_000, 64 << 20));
}

#[test]
fn the_unified_hierarchys_files() {
    let files = |node: &NodeContext, memory_high| {
        let pod = pod_with(json!({"resources": {"requests": {"memory": "4Gi"}}}));
        with_inputs(&pod, "app", |inputs| of_container(node, &ContainerInputs { memory_high, ..*inputs })).unified
    };
    let swap = |limited| Some(Swap { limited, capacity: 8 << 30 });
    assert_eq!(files(&node(), None), map(&[]));
    assert_eq!(files(&node(), Some(4096)), map(&[("memory.high", "4096")]));
    let group = NodeContext { single_process_oom_kill: false, ..node() };
    assert_eq!(files(&group, None), map(&[("memory.oom.group", "1")]));
    assert_eq!(files(&NodeContext { cgroup_v2: false, ..group }, Some(1)), map(&[]));
    assert_eq!(files(&NodeContext { swap: swap(false), ..node() }, None), map(&[("memory.swap.max", "0")]));
    assert_eq!(files(&NodeContext { swap: swap(true), ..node() }, None), map(&[("memory.swap.max", "2147483648")]));

    let v1 = NodeContext { swap: swap(false), cgroup_v2: false, ..node() };
    let limited = of(json!({"limits": {"memory": "1Gi"}}), &v1);
    assert_eq!(limited.memory_swap_limit_in_bytes, 1 << 30);
}

#[test]
fn page_sizes() {
    for (bytes, expected) in [(2 << 20, "2MB"), (1 << 30, "1GB"), (64 << 10, "64KB"), (512 << 20, "512MB"), (7, "7B")] {
        assert_eq!(page_size_name(bytes), expected);
    }
    // Every size that there can be, as the kernel names its files; what is none is not taken for one.
    let names: Vec<String> = (14..=34).map(|shift| page_size_name(1 << shift)).collect();
    let expected = [16, 32, 64, 128, 256, 512].map(|n| format!("{n}KB")).into_iter();
    let expected = expected.chain((0..10).map(|n| format!("{}MB", 1 << n))).chain((0..5).map(|n| format!("{}GB", 1 << n)));
    assert_eq!(names, expected.collect::<Vec<_>>());
    assert_eq!([3 << 29, 5 << 19, (2 << 20) + 1].map(page_size_name), ["1536MB", "2560KB", "2097153B"]);
}
