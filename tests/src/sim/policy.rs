//! Policies of the simulated world: good ones, random ones, silent ones and broken ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use polylet_core::ask;
use polylet_core::effect::Rung;
use polylet_core::ladder::Bindings;
use polylet_core::question::probe::Meaning;
use polylet_core::question::{Answer, FailureKind, Hook, PolicyFailure, Question, Verdict, eviction, probe, restart};

use super::Rng;

const KINDS: [&str; 5] = ["same", "random", "silent", "trap", "stranger"];

/// Bindings drawn at random; none when all is calm.
pub(super) fn draw(rng: &mut Rng, generation: u64, calm: bool) -> Arc<Bindings> {
    let mut rungs = BTreeMap::new();
    for hook in Hook::ALL {
        let mut ladder = Vec::new();
        if !calm && rng.chance(60) {
            let name = KINDS[rng.below(KINDS.len() as u64) as usize];
            ladder.push(Rung::Bound {
                name: name.into(),
                digest: format!("sha256:{generation}").as_str().into(),
                config: "none".into(),
            });
        }
        ladder.push(Rung::Default);
        rungs.insert(hook, ladder);
    }
    Arc::new(Bindings { generation, rungs })
}

/// What a rung says to a question.
pub(super) fn answer(rng: &mut Rng, rung: &Rung, question: &Question, calm: bool) -> Verdict {
    let fail = |kind| Err(PolicyFailure { kind, message: "simulated".into() });
    let name = match rung {
        Rung::Bound { name, .. } => name.as_str(),
        Rung::Default | Rung::Native => "same",
    };
    let answer = match name {
        // Gone by the time it is asked, now and then.
        "same" if !calm && rng.chance(2) => fail(FailureKind::Host),
        "same" => Ok(Some(ask::native(question))),
        "silent" => Ok(None),
        "trap" => fail([FailureKind::Trap, FailureKind::Fuel, FailureKind::Memory, FailureKind::Timeout][rng.below(4) as usize]),
        // The answer of another function altogether.
        "stranger" => Ok(Some(Answer::Assess(vec![eviction::Shortage {
            starved: eviction::Starved::Memory,
            hard: true,
            reclaim: 1,
            reason: String::new(),
        }]))),
        _ => Ok(Some(random(rng, question))),
    };
    Verdict { answer, fuel: 1, nanos: 1, store_reads: Vec::new(), log: Vec::new() }
}

fn random(rng: &mut Rng, question: &Question) -> Answer {
    match ask::native(question) {
        Answer::Restart(_) => {
            Answer::Restart(restart::Answer { delay: rng.below(2_000_000), give_up: rng.chance(10), reason: "random".into() })
        }
        Answer::Probe(default) => Answer::Probe(probe::Answer {
            verdict: [Meaning::Success, Meaning::Warning, Meaning::Unknown, default.verdict][rng.below(4) as usize],
            next_in: rng.chance(30).then(|| rng.below(100_000)),
            grace: rng.chance(30).then(|| rng.below(100_000)),
            reason: "random".into(),
        }),
        // Others, in another order, and now and then somebody who is none.
        Answer::Rank(mut victims) => {
            for at in (1..victims.len()).rev() {
                victims.swap(at, rng.below(at as u64 + 1) as usize);
            }
            victims.truncate(1 + rng.below(victims.len() as u64 + 1) as usize);
            for victim in &mut victims {
                victim.grace = rng.chance(30).then(|| rng.below(100_000));
                victim.pod += if rng.chance(5) { 7 } else { 0 };
            }
            Answer::Rank(victims)
        }
        other => other,
    }
}
