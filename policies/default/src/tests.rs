//! The default component's translation, natively; the rules themselves are tested in `upstream`.
use polylet_sdk::Policy as _;
use polylet_sdk::eviction::{Candidate, Eviction, Shortage, StarvedResource};
use polylet_sdk::harness::Harness;
use polylet_sdk::probe::{Failure, HttpAnswer, Outcome, Probe, Verdict};
use polylet_sdk::qos::{Placement, Qos, Question};
use polylet_sdk::restart::{Action, Restart};
use polylet_sdk::types::{ContainerFacts, ContainerKind, PodTraits, QosClass};
use polylet_sdk::{Config, samples};

use crate::Default as Policy;

fn wait(node: &Harness, at: u64) -> Action {
    let mut question = samples::restart();
    question.last.at = at;
    // The default must not lean on what the question says that it would do.
    question.default_delay = 77;
    Policy.decide(&node.ask(), &question).unwrap().action
}

#[test]
fn restart_recomputes_the_delay_from_the_entry() {
    assert_eq!(wait(&Harness::new(), samples::NOW), Action::Wait(0));
    let updated = samples::NOW - 600_000;
    let node = Harness::new().fact("backoff.current", 40_000).fact("backoff.updated", updated as i64);
    assert_eq!(wait(&node, samples::NOW - 40_000), Action::Wait(40_000));
    assert_eq!(wait(&node, samples::NOW - 1), Action::Wait(1));
    assert_eq!(wait(&node, samples::NOW), Action::Wait(0));
}

#[test]
fn probe_reads_outcomes() {
    let http = |status| Outcome::Http(HttpAnswer { status, retry_after: None, redirected_off_host: false });
    let table = [
        (http(204), Verdict::Success),
        (http(302), Verdict::Warning),
        (http(500), Verdict::Failure),
        (Outcome::TcpOpen, Verdict::Success),
        (Outcome::Grpc(2), Verdict::Failure),
        (Outcome::Exec(0), Verdict::Success),
        (Outcome::Failed(Failure::Timeout), Verdict::Failure),
        (Outcome::Failed(Failure::Internal), Verdict::Unknown),
    ];
    for (outcome, verdict) in table {
        let question = polylet_sdk::probe::Question { outcome, default_verdict: Verdict::Unknown, ..samples::probe() };
        let answer = Policy.interpret(&Harness::new().ask(), &question).unwrap();
        assert_eq!((answer.verdict, answer.next_in, answer.grace), (verdict, None, None), "{:?}", question.outcome);
    }
}

#[test]
fn qos_recomputes_class_and_scores() {
    let mut question = samples::qos();
    let sidecar = ContainerFacts { kind: ContainerKind::Sidecar, ..samples::container() };
    question.containers = vec![sidecar, samples::container()];
    question.default_placement.tier = QosClass::Guaranteed;
    let place = |node: &Harness, question: &Question| Policy.classify(&node.ask(), question).unwrap().placement;
    let scores = |placement: &Placement| placement.containers.iter().map(|container| container.oom_score).collect::<Vec<_>>();

    let placement = place(&Harness::new(), &question);
    assert_eq!(placement.tier, QosClass::Burstable);
    // 64 MiB of 16 GiB are 3.9 thousandths, which truncate.
    assert_eq!(scores(&placement), [997, 997]);
    assert_eq!(placement.cpu_weight, None);

    let reported = place(&Harness::new().fact("pod.class.reported", 2), &question);
    assert_eq!((reported.tier, scores(&reported)), (QosClass::Guaranteed, vec![-997, -997]));

    question.pod.traits = PodTraits::NODE_CRITICAL;
    assert_eq!(scores(&place(&Harness::new(), &question)), [-997, -997]);
}

fn ranked(node: &Harness, starved: StarvedResource, candidates: &[Candidate]) -> Vec<u32> {
    let shortage = Shortage { starved, ..samples::shortage() };
    let victims = Policy.rank(&node.ask(), &samples::node(), &shortage, candidates).unwrap();
    victims.into_iter().map(|victim| victim.pod).collect()
}

#[test]
fn eviction_ranks_by_rows_and_columns() {
    let pods = [samples::candidate(4), samples::candidate(7)];
    let more = Candidate { memory_usage: Some(1 << 30), ..pods[1] };
    assert_eq!(ranked(&Harness::new(), StarvedResource::Memory, &[pods[0], more]), [7, 4]);

    let node = Harness::new().column("candidates", "processes", [Some(3), Some(30)]);
    assert_eq!(ranked(&node, StarvedResource::Pids, &pods), [7, 4]);

    // Rows 14 and 15 of upstream's vectors.
    let dedicated = Harness::new()
        .fact("node.disk.layout", 1)
        .column("candidates", "disk.rootfs", [Some(900), None])
        .column("candidates", "disk.logs", [Some(1), Some(5)])
        .column("candidates", "disk.volumes", [None, Some(50)]);
    assert_eq!(ranked(&dedicated, StarvedResource::Disk, &pods), [7, 4]);
    assert_eq!(ranked(&dedicated, StarvedResource::ImageDisk, &pods), [4, 7]);

    let inodes = Harness::new().column("candidates", "inodes.volumes", [Some(10), Some(1000)]);
    assert_eq!(ranked(&inodes, StarvedResource::Inodes, &pods), [7, 4]);

    // Without statistics a pod goes first.
    let blind = Candidate { memory_usage: None, disk_usage: None, ..pods[1] };
    for starved in [StarvedResource::Memory, StarvedResource::Disk, StarvedResource::ContainerInodes] {
        assert_eq!(ranked(&Harness::new(), starved, &[pods[0], blind]), [7, 4]);
    }
}

#[test]
fn eviction_sees_no_other_shortage() {
    assert!(Policy.assess(&Harness::new().ask(), &samples::node(), &[]).is_empty());
}

#[test]
fn it_has_no_configuration() {
    assert_eq!(Policy::validate(&Config::of("{}")), Ok(()));
    assert_eq!(Policy::validate(&Config::of("")), Ok(()));
    let message = Policy::validate(&Config::of(r#"{"initial":1}"#)).unwrap_err();
    assert_eq!(message, "unknown field `initial`; the default policy has no configuration");
}
