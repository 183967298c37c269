//! An example of a policy for `restart`: exits that mean no harm are restarted gently.
//!
//! A container that ends with code 0, or with one of the configured codes, did what it was meant to do: a worker that took one
//! job, a program that asks to be started again after an upgrade. The default punishes such an exit like a crash. This policy
//! waits a short, constant time instead, unless it happens too often; everything else it leaves to the default.

mod config;
#[cfg(test)]
mod tests;

use polylet_sdk::Ask;
use polylet_sdk::restart::{Action, Answer, Cause, Question, Restart, Termination};

pub use config::GentleRestart;

impl Restart for GentleRestart {
    fn decide(&self, ask: &Ask, question: &Question) -> Option<Answer> {
        let code = self.gentle_code(&question.last)?;
        let recent = self.recent_gentle_exits(ask, question.last.at);
        if recent > self.burst {
            let reason = format!("exit code {code} is gentle, but {recent} such exits came within {} ms", self.burst_window_ms);
            return Some(Answer { action: Action::Wait(question.default_delay), reason });
        }
        // Gentle is never harder than the default, whose first restart is immediate.
        let delay = self.delay_ms.min(question.default_delay);
        Some(Answer { action: Action::Wait(delay), reason: format!("exit code {code} is gentle") })
    }
}

impl GentleRestart {
    /// The exit code, if the container ended by itself with one that means no harm.
    fn gentle_code(&self, last: &Termination) -> Option<i32> {
        let by_itself = last.cause == Cause::Exited && last.signal.is_none() && !last.out_of_memory;
        last.exit_code.filter(|code| by_itself && self.is_gentle(i64::from(*code)))
    }

    /// How many gentle exits came within the window that ends now, the present one included.
    fn recent_gentle_exits(&self, ask: &Ask, now: u64) -> u64 {
        let history = ask.facts().restart_history();
        let (Some(ends), Some(codes)) = (history.at(), history.exit_code()) else { return 1 };
        let since = now.saturating_sub(self.burst_window_ms);
        let is_recent = |end: Option<i64>| end.is_some_and(|end| u64::try_from(end).is_ok_and(|end| end > since));
        let is_gentle = |code: Option<i64>| code.is_some_and(|code| self.is_gentle(code));
        ends.iter().zip(codes.iter()).filter(|(end, code)| is_recent(*end) && is_gentle(*code)).count() as u64
    }

    fn is_gentle(&self, code: i64) -> bool {
        code == 0 || self.codes.contains(&code)
    }
}

polylet_sdk::export!(GentleRestart: restart);
