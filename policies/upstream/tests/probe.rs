//! Outcomes of probes against the kubelet's handlers.
#![allow(missing_docs)]

use polylet_upstream::probe::{Failure, Outcome, Verdict, interpret};

#[test]
fn every_outcome_has_the_kubelets_verdict() {
    let table = [
        (Outcome::Http(100), Verdict::Failure),
        (Outcome::Http(199), Verdict::Failure),
        (Outcome::Http(200), Verdict::Success),
        (Outcome::Http(204), Verdict::Success),
        (Outcome::Http(299), Verdict::Success),
        (Outcome::Http(300), Verdict::Warning),
        (Outcome::Http(302), Verdict::Warning),
        (Outcome::Http(399), Verdict::Warning),
        (Outcome::Http(400), Verdict::Failure),
        (Outcome::Http(503), Verdict::Failure),
        (Outcome::Http(0), Verdict::Failure),
        (Outcome::TcpOpen, Verdict::Success),
        (Outcome::Grpc(0), Verdict::Failure),
        (Outcome::Grpc(1), Verdict::Success),
        (Outcome::Grpc(2), Verdict::Failure),
        (Outcome::Grpc(3), Verdict::Failure),
        (Outcome::Exec(0), Verdict::Success),
        (Outcome::Exec(1), Verdict::Failure),
        (Outcome::Exec(-1), Verdict::Failure),
        (Outcome::Failed(Failure::Timeout), Verdict::Failure),
        (Outcome::Failed(Failure::Refused), Verdict::Failure),
        (Outcome::Failed(Failure::Reset), Verdict::Failure),
        (Outcome::Failed(Failure::Unreachable), Verdict::Failure),
        (Outcome::Failed(Failure::NameResolution), Verdict::Failure),
        (Outcome::Failed(Failure::Tls), Verdict::Failure),
        (Outcome::Failed(Failure::Protocol), Verdict::Failure),
        (Outcome::Failed(Failure::Exec), Verdict::Unknown),
        (Outcome::Failed(Failure::Internal), Verdict::Unknown),
    ];
    for (outcome, verdict) in table {
        assert_eq!(interpret(outcome), verdict, "{outcome:?}");
    }
}
