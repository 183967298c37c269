//! What a command run by the runtime comes to.

use std::time::Duration;

use polylet_core::question::probe::{Failure, Outcome};
use polylet_core::restart::go_duration;

use crate::attempt::start_of;

/// As many bytes of output are looked at.
const MAX_OUTPUT: usize = 10 << 10;

/// How the runtime's `ExecSync` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecEnd<'a> {
    /// The command ended.
    Exited {
        /// Its exit code.
        code: i32,
        /// Standard output, then standard error.
        output: &'a [u8],
    },
    /// It did not end in time.
    TimedOut,
    /// The runtime could not run it.
    Failed {
        /// The runtime's text.
        message: &'a str,
    },
}

/// The outcome and upstream's text of an exec probe.
pub fn exec_outcome(command: &[String], timeout: Duration, end: ExecEnd<'_>) -> (Outcome, String) {
    match end {
        ExecEnd::Exited { code, output } => {
            let output = &output[..output.len().min(MAX_OUTPUT)];
            let text = if code == 0 { String::new() } else { String::from_utf8_lossy(output).into_owned() };
            (Outcome::Exec { exit_code: code, output_start: start_of(output) }, text)
        }
        ExecEnd::TimedOut => {
            let text = format!("command timed out: \"{}\" timed out after {}", command.join(" "), go_duration(timeout));
            (Outcome::Failed(Failure::Timeout), text)
        }
        ExecEnd::Failed { message } => (Outcome::Failed(Failure::Exec), message.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_a_command() {
        let command = ["cat".to_owned(), "/tmp/healthy".to_owned()];
        let of = |end| exec_outcome(&command, Duration::from_millis(1500), end);
        let exited = |exit_code, output: &str| Outcome::Exec { exit_code, output_start: output.into() };
        assert_eq!(of(ExecEnd::Exited { code: 0, output: b"ok\n" }), (exited(0, "ok\n"), String::new()));
        assert_eq!(of(ExecEnd::Exited { code: 1, output: b"no\n" }), (exited(1, "no\n"), "no\n".into()));
        let long = vec![b'x'; 20 << 10];
        let (outcome, text) = of(ExecEnd::Exited { code: 1, output: &long });
        assert_eq!((outcome, text.len()), (exited(1, &"x".repeat(1024)), 10 << 10));
        let text = "command timed out: \"cat /tmp/healthy\" timed out after 1.5s";
        assert_eq!(of(ExecEnd::TimedOut), (Outcome::Failed(Failure::Timeout), text.into()));
        assert_eq!(of(ExecEnd::Failed { message: "gone" }), (Outcome::Failed(Failure::Exec), "gone".into()));
    }
}
