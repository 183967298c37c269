//! Classes and oom scores against upstream's vectors. A row number is that of the table in the behaviour notes.
#![allow(missing_docs)]

use polylet_upstream::qos::{Container, Kind, Placement, Pod, QosClass, Resources, class, place, total};

const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;

use QosClass::{BestEffort, Burstable, Guaranteed};

/// Millicores and bytes of requests, then of limits.
fn resources(request: [Option<u64>; 2], limit: [Option<u64>; 2]) -> Resources {
    let ([cpu_request, memory_request], [cpu_limit, memory_limit]) = (request, limit);
    Resources { cpu_request, cpu_limit, memory_request, memory_limit }
}

fn both(cpu: u64, memory: u64) -> Resources {
    resources([Some(cpu), Some(memory)], [Some(cpu), Some(memory)])
}

fn memory(request: u64) -> Resources {
    resources([None, Some(request)], [None, None])
}

const NOTHING: Resources = Resources { cpu_request: None, cpu_limit: None, memory_request: None, memory_limit: None };

fn of(kind: Kind, resources: Resources) -> Container {
    Container { kind, resources }
}

fn app(resources: Resources) -> Container {
    of(Kind::App, resources)
}

fn pod(containers: &[Container]) -> Pod<'_> {
    Pod { reported: None, node_critical: false, containers, pod_level: None }
}

#[track_caller]
fn check_class(row: u32, containers: &[Container], pod_level: Option<Resources>, expected: QosClass) {
    assert_eq!(class(&Pod { pod_level, ..pod(containers) }), expected, "row {row}");
}

#[test]
fn classes_by_containers() {
    let full = both(1000, GI);
    let cpu_only = resources([Some(1000), None], [None, None]);
    let check = |row, containers: &[Container], expected| check_class(row, containers, None, expected);
    check(1, &[app(NOTHING)], BestEffort);
    check(2, &[app(resources([Some(100), None], [None, None]))], Burstable);
    check(3, &[app(full)], Guaranteed);
    check(4, &[app(resources([None, None], [Some(1000), Some(GI)]))], Burstable);
    check(5, &[app(full)], Guaranteed);
    check(6, &[app(resources([Some(500), Some(GI)], [Some(1000), Some(GI)]))], Burstable);
    // 7 and 8: storage, hugepages and devices are not even part of the question.
    check(7, &[app(NOTHING)], BestEffort);
    check(8, &[app(NOTHING)], BestEffort);
    check(9, &[app(resources([Some(0), Some(0)], [None, None]))], BestEffort);
    check(10, &[app(resources([None, Some(0)], [Some(0), Some(0)]))], BestEffort);
    check(11, &[app(resources([None, Some(GI)], [None, Some(GI)]))], Burstable);
    check(12, &[app(full), app(NOTHING)], Burstable);
    check(13, &[app(full), app(full)], Guaranteed);
    check(14, &[of(Kind::Init, NOTHING), app(full)], Burstable);
    check(15, &[of(Kind::Init, both(2000, 2 * GI)), app(full)], Guaranteed);
    check(16, &[of(Kind::Sidecar, NOTHING), app(full)], Burstable);
    check(17, &[of(Kind::Sidecar, both(100, 64 * MI)), app(full)], Guaranteed);
    check(18, &[of(Kind::Init, cpu_only), app(NOTHING)], Burstable);
    check(19, &[app(full), of(Kind::Ephemeral, NOTHING)], Guaranteed);
    check(20, &[app(NOTHING), of(Kind::Ephemeral, NOTHING)], BestEffort);
    // 21: quantities are numbers by now, so that `1000m` is `1`.
    check(21, &[app(both(1000, 1024 * MI))], Guaranteed);
    check(22, &[app(resources([Some(1000), None], [Some(1000), Some(0)]))], Burstable);
    check(23, &[app(full)], Guaranteed);
}

#[test]
fn classes_by_pod_level_resources() {
    let full = both(1000, GI);
    let cpu_limit = resources([None, None], [Some(1000), None]);
    check_class(24, &[app(NOTHING)], Some(full), Guaranteed);
    check_class(25, &[app(full)], Some(resources([Some(1000), None], [None, None])), Burstable);
    check_class(26, &[app(NOTHING)], Some(cpu_limit), Burstable);
    check_class(27, &[app(full)], Some(resources([Some(1000), Some(GI)], [Some(2000), Some(GI)])), Burstable);
    check_class(28, &[app(full)], Some(NOTHING), BestEffort);
    check_class(29, &[app(full)], Some(NOTHING), BestEffort);
}

#[test]
fn a_reported_class_is_trusted() {
    let containers = [app(NOTHING)];
    let reported = Pod { reported: Some(Guaranteed), ..pod(&containers) };
    assert_eq!(class(&reported), Guaranteed, "row 30");
}

#[test]
fn sums_are_compared_and_not_containers() {
    let narrow = resources([Some(1000), Some(2 * GI)], [Some(2000), Some(GI)]);
    let wide = resources([Some(2000), Some(GI)], [Some(1000), Some(2 * GI)]);
    assert_eq!(class(&pod(&[app(narrow), app(wide)])), Guaranteed);
}

#[test]
fn oom_scores_of_burstable_pods_by_memory_request() {
    let table =
        [(0, 999), (16 * MI, 999), (17 * MI, 999), (512 * MI, 969), (GI, 938), (4 * GI, 750), (8 * GI, 500), (16 * GI, 3)];
    for (request, score) in table {
        let cpu = Resources { cpu_request: Some(100), ..memory(request) };
        assert_eq!(place(&pod(&[app(cpu)]), 16 * GI).oom_scores, [score], "request of {request}");
    }
}

#[test]
fn oom_scores_by_class() {
    let containers = [app(NOTHING), of(Kind::Ephemeral, NOTHING)];
    let scores = |pod: Pod| place(&pod, 16 * GI).oom_scores;
    assert_eq!(scores(pod(&containers)), [1000, 1000]);
    assert_eq!(scores(Pod { reported: Some(Guaranteed), ..pod(&containers) }), [-997, -997]);
    assert_eq!(scores(Pod { node_critical: true, ..pod(&containers) }), [-997, -997]);
}

#[test]
fn pod_level_memory_is_shared_out() {
    let containers = [app(memory(GI)), app(memory(GI))];
    let pod = Pod { pod_level: Some(memory(4 * GI)), ..pod(&containers) };
    assert_eq!(place(&pod, 16 * GI), Placement { tier: Burstable, oom_scores: vec![875, 875] });
}

#[test]
fn a_sidecar_is_no_easier_to_kill_than_what_it_serves() {
    let containers = [of(Kind::Sidecar, memory(64 * MI)), app(memory(2 * GI))];
    assert_eq!(place(&pod(&containers), 16 * GI).oom_scores, [875, 875]);
    let containers = [of(Kind::Sidecar, memory(4 * GI)), app(memory(2 * GI))];
    assert_eq!(place(&pod(&containers), 16 * GI).oom_scores, [750, 875]);
}

#[test]
fn absurd_numbers_stay_in_the_band() {
    let containers = [app(memory(u64::MAX))];
    assert_eq!(place(&pod(&containers), 0).oom_scores, [3]);
    assert_eq!(place(&pod(&[]), 0).oom_scores, [0; 0]);
}

#[test]
fn totals_add_what_runs_together() {
    let amount = |resources: &Resources| resources.memory_request.unwrap_or(0);
    let containers =
        [of(Kind::Sidecar, memory(1)), of(Kind::Init, memory(20)), of(Kind::Sidecar, memory(2)), app(memory(3)), app(memory(4))];
    assert_eq!(total(&containers, amount), 21);
    assert_eq!(total(&containers[2..], amount), 9);
}
