//! What went wrong with a call, told apart: each kind has another person to act on it.

use polylet_core::question::{FailureKind, PolicyFailure};
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};

use crate::answer::Unusable;
use crate::call::{Call, Stopped};
use crate::limits::TRANSFER_MAX;

/// Longest message, in bytes.
const MESSAGE_MAX: usize = 512;

/// The failure behind an error of the call.
pub(crate) fn of(error: &wasmtime::Error, call: &Call) -> PolicyFailure {
    let (kind, message) = match (call.stopped, error.downcast_ref::<Trap>()) {
        (Some(stopped @ (Stopped::Memory { .. } | Stopped::Table { .. })), _) => (FailureKind::Memory, stopped.to_string()),
        (Some(stopped @ Stopped::Fuel { .. }), _) => (FailureKind::Fuel, stopped.to_string()),
        (None, Some(Trap::OutOfFuel)) => return spent(call.limits.fuel),
        (None, Some(Trap::Interrupt)) => {
            (FailureKind::Timeout, format!("had no answer after {} ms", call.limits.timeout.as_millis()))
        }
        (None, Some(Trap::StackOverflow)) => (FailureKind::Trap, "the stack overflowed: it recurses too deeply".into()),
        (None, Some(trap)) => (FailureKind::Trap, trapped(*trap, call.last_error.as_deref())),
        (None, None) if error.is::<PoolConcurrencyLimitError>() => {
            (FailureKind::Host, "every instance is in use: too many decisions at once".into())
        }
        (None, None) if too_much(error) && guest_was_running(error) => {
            (FailureKind::Trap, format!("handed more than {TRANSFER_MAX} bytes to the node at once"))
        }
        (None, None) if too_much(error) => {
            (FailureKind::BadAnswer, format!("the answer is longer than the {TRANSFER_MAX} bytes allowed"))
        }
        (None, None) if guest_was_running(error) => (FailureKind::Trap, error.root_cause().to_string()),
        // The guest has ended, and what it left does not hold an answer: an unknown case, a pointer outside its memory, bad UTF-8.
        (None, None) => (FailureKind::BadAnswer, format!("the answer cannot be read: {}", error.root_cause())),
    };
    PolicyFailure { kind, message: one_line(&message) }
}

/// The failure behind an answer that cannot be used.
pub(crate) fn unusable(unusable: &Unusable) -> PolicyFailure {
    PolicyFailure { kind: FailureKind::BadAnswer, message: unusable.to_string() }
}

/// Fuel ran out.
pub(crate) fn spent(budget: u64) -> PolicyFailure {
    PolicyFailure { kind: FailureKind::Fuel, message: format!("spent its budget of {budget} fuel") }
}

/// The host could not ask.
pub(crate) fn host(message: impl Into<String>) -> PolicyFailure {
    PolicyFailure { kind: FailureKind::Host, message: message.into() }
}

/// Panics end in `unreachable`; what they had to say came through the log.
fn trapped(trap: Trap, last_error: Option<&str>) -> String {
    match (trap, last_error) {
        (Trap::UnreachableCodeReached, Some(said)) => said.to_owned(),
        (_, Some(said)) => format!("{trap} (it said before: {said})"),
        (_, None) => trap.to_string(),
    }
}

fn too_much(error: &wasmtime::Error) -> bool {
    error.root_cause().to_string().contains("fuel allocated for hostcalls")
}

fn guest_was_running(error: &wasmtime::Error) -> bool {
    error.downcast_ref::<WasmBacktrace>().is_some_and(|backtrace| !backtrace.frames().is_empty())
}

/// A guest's text as one line for people: control characters become spaces, and a long one is cut.
pub(crate) fn one_line(text: &str) -> String {
    let text = text.trim();
    let text = &text[..text.floor_char_boundary(MESSAGE_MAX)];
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// An error with its causes.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some errors show their cause themselves.
        if !text.contains(&error.to_string()) {
            text.push_str(&format!(": {error}"));
        }
        cause = error.source();
    }
    text
}
