//! CrashLoopBackOff, and its likes for what fails before a container runs.

use polylet_sdk::Ask;
use polylet_sdk::restart::{Action, Answer, Question, Restart};
use polylet_upstream::restart::{Bounds, Entry, delay};

impl Restart for crate::Default {
    fn decide(&self, ask: &Ask, question: &Question) -> Option<Answer> {
        let bounds = Bounds {
            initial_ms: question.bounds.initial,
            maximum_ms: question.bounds.maximum,
            reset_after_ms: question.bounds.reset_after,
        };
        let delay = delay(entry(ask), question.last.at, bounds);
        Some(Answer { action: Action::Wait(delay), reason: String::new() })
    }
}

fn entry(ask: &Ask) -> Option<Entry> {
    let facts = ask.facts();
    Some(Entry { backoff_ms: facts.backoff_current()?, updated_ms: facts.backoff_updated()? })
}
