//! Answers of the contract as the core's types. Only their size and shape are checked here: whether an answer may be obeyed is for
//! the guard in the core.

use polylet_core::pod::QosClass;
use polylet_core::question::{self as core, Answer, eviction::Starved, probe::Meaning};

use crate::bindings::{eviction, probe, qos, restart, types};
use crate::limits::REASON_MAX;

/// Shortages in one answer: there are eight resources, each hard and soft.
const SHORTAGES_MAX: usize = 16;

/// What makes an answer unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("the reason is {0} bytes long; {REASON_MAX} are allowed")]
    Reason(usize),
    #[error("{answered} {what} for {asked} asked about")]
    Count { what: &'static str, answered: usize, asked: usize },
    #[error("{0} shortages; {SHORTAGES_MAX} are allowed")]
    Shortages(usize),
}

type Checked<T> = Result<T, Unusable>;

/// `give-up` leaves the delay at the default's, for where the operator does not allow it.
pub(crate) fn restart(question: &core::restart::Question, answer: restart::Answer) -> Checked<Answer> {
    let (delay, give_up) = match answer.action {
        restart::Action::Wait(delay) => (delay, false),
        restart::Action::GiveUp => (question.default_delay, true),
    };
    Ok(Answer::Restart(core::restart::Answer { delay, give_up, reason: reason(answer.reason)? }))
}

pub(crate) fn probe(answer: probe::Answer) -> Checked<Answer> {
    Ok(Answer::Probe(core::probe::Answer {
        verdict: match answer.verdict {
            probe::Verdict::Success => Meaning::Success,
            probe::Verdict::Warning => Meaning::Warning,
            probe::Verdict::Failure => Meaning::Failure,
            probe::Verdict::Unknown => Meaning::Unknown,
        },
        next_in: answer.next_in,
        grace: answer.grace,
        reason: reason(answer.reason)?,
    }))
}

pub(crate) fn qos(question: &core::qos::Question, answer: qos::Answer) -> Checked<Answer> {
    let placement = answer.placement;
    count("container placements", placement.containers.len(), question.containers.len(), |a, q| a == q)?;
    Ok(Answer::Qos(core::qos::Answer {
        placement: core::qos::Placement {
            tier: match placement.tier {
                types::QosClass::BestEffort => QosClass::BestEffort,
                types::QosClass::Burstable => QosClass::Burstable,
                types::QosClass::Guaranteed => QosClass::Guaranteed,
            },
            cpu_weight: placement.cpu_weight,
            memory_min: placement.memory_min,
            memory_low: placement.memory_low,
            memory_high: placement.memory_high,
            containers: placement
                .containers
                .into_iter()
                .map(|c| core::qos::ContainerPlacement { oom_score: c.oom_score, memory_high: c.memory_high })
                .collect(),
        },
        reason: reason(answer.reason)?,
    }))
}

pub(crate) fn shortages(shortages: Vec<eviction::Shortage>) -> Checked<Answer> {
    if shortages.len() > SHORTAGES_MAX {
        return Err(Unusable::Shortages(shortages.len()));
    }
    let convert = |shortage: eviction::Shortage| {
        Ok(core::eviction::Shortage {
            starved: starved(shortage.starved),
            hard: shortage.hard,
            reclaim: shortage.reclaim,
            reason: reason(shortage.reason)?,
        })
    };
    Ok(Answer::Assess(shortages.into_iter().map(convert).collect::<Checked<_>>()?))
}

pub(crate) fn victims(question: &core::eviction::Rank, victims: Vec<eviction::Victim>) -> Checked<Answer> {
    count("victims", victims.len(), question.candidates.len(), |a, q| a <= q)?;
    let convert = |victim: eviction::Victim| {
        Ok(core::eviction::Victim { pod: victim.pod, grace: victim.grace, reason: reason(victim.reason)? })
    };
    Ok(Answer::Rank(victims.into_iter().map(convert).collect::<Checked<_>>()?))
}

fn starved(starved: eviction::StarvedResource) -> Starved {
    match starved {
        eviction::StarvedResource::Memory => Starved::Memory,
        eviction::StarvedResource::Disk => Starved::Disk,
        eviction::StarvedResource::Inodes => Starved::Inodes,
        eviction::StarvedResource::ImageDisk => Starved::ImageDisk,
        eviction::StarvedResource::ImageInodes => Starved::ImageInodes,
        eviction::StarvedResource::ContainerDisk => Starved::ContainerDisk,
        eviction::StarvedResource::ContainerInodes => Starved::ContainerInodes,
        eviction::StarvedResource::Pids => Starved::Pids,
    }
}

fn reason(text: String) -> Checked<String> {
    match text.len() > REASON_MAX {
        true => Err(Unusable::Reason(text.len())),
        false => Ok(text),
    }
}

fn count(what: &'static str, answered: usize, asked: usize, fits: impl Fn(usize, usize) -> bool) -> Checked<()> {
    match fits(answered, asked) {
        true => Ok(()),
        false => Err(Unusable::Count { what, answered, asked }),
    }
}
