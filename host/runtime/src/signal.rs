//! Signals: `SIGRTMIN+1` in the API, `SIGNAL_SIGRTMINPLUS1` in the CRI.

use polylet_proto::cri::Signal;

/// The signal of this name in the API.
pub(crate) fn from_name(name: &str) -> Option<Signal> {
    if !name.starts_with("SIG") || name.contains("PLUS") || name.contains("MINUS") {
        return None;
    }
    Signal::from_str_name(&format!("SIGNAL_{}", name.replace('+', "PLUS").replace('-', "MINUS")))
}

/// The API's name of a signal of the CRI; None: the runtime's own choice, or one that we do not know.
pub(crate) fn name(signal: i32) -> Option<String> {
    let signal = Signal::try_from(signal).ok().filter(|signal| *signal != Signal::RuntimeDefault)?;
    Some(signal.as_str_name().trim_start_matches("SIGNAL_").replace("PLUS", "+").replace("MINUS", "-"))
}

/// Names of all signals that a container may be stopped with, in the API's spelling.
pub fn signal_names() -> Vec<String> {
    (1..).map_while(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut known = 0;
        for number in 1..=100 {
            if let Some(text) = name(number) {
                assert_eq!(from_name(&text).map(i32::from), Some(number), "{text}");
                known += 1;
            }
        }
        assert_eq!((known, signal_names().len()), (65, 65));
        assert_eq!(name(Signal::Sigrtminplus15.into()).as_deref(), Some("SIGRTMIN+15"));
        assert_eq!(name(Signal::Sigrtmaxminus1.into()).as_deref(), Some("SIGRTMAX-1"));
        assert_eq!((name(0), name(1000)), (None, None));
        for wrong in ["", "TERM", "SIGNAL", "15", "SIGRTMINPLUS1", "sigterm", "SIGRTMIN+16", "SIG"] {
            assert_eq!(from_name(wrong), None, "{wrong}");
        }
    }
}
