//! What the outcome of a probe means.

use polylet_sdk::Ask;
use polylet_sdk::probe::{Answer, Failure, Outcome, Probe, Question, Verdict};
use polylet_upstream::probe as upstream;

impl Probe for crate::Default {
    fn interpret(&self, _: &Ask, question: &Question) -> Option<Answer> {
        let verdict = match upstream::interpret(outcome(&question.outcome)) {
            upstream::Verdict::Success => Verdict::Success,
            upstream::Verdict::Warning => Verdict::Warning,
            upstream::Verdict::Failure => Verdict::Failure,
            upstream::Verdict::Unknown => Verdict::Unknown,
        };
        Some(Answer { verdict, next_in: None, grace: None, reason: String::new() })
    }
}

fn outcome(outcome: &Outcome) -> upstream::Outcome {
    match *outcome {
        Outcome::Http(ref answer) => upstream::Outcome::Http(answer.status),
        Outcome::TcpOpen => upstream::Outcome::TcpOpen,
        Outcome::Grpc(status) => upstream::Outcome::Grpc(status),
        Outcome::Exec(code) => upstream::Outcome::Exec(code),
        Outcome::Failed(failure) => upstream::Outcome::Failed(match failure {
            Failure::Timeout => upstream::Failure::Timeout,
            Failure::Refused => upstream::Failure::Refused,
            Failure::Reset => upstream::Failure::Reset,
            Failure::Unreachable => upstream::Failure::Unreachable,
            Failure::NameResolution => upstream::Failure::NameResolution,
            Failure::Tls => upstream::Failure::Tls,
            Failure::Protocol => upstream::Failure::Protocol,
            Failure::Exec => upstream::Failure::Exec,
            Failure::Internal => upstream::Failure::Internal,
        }),
    }
}
