//! Headers of a request: the spec's, with upstream's defaults.

use ::http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, TRAILER, TRANSFER_ENCODING, USER_AGENT};
use ::http::{HeaderMap, HeaderName, HeaderValue};
use polylet_core::question::probe::Failure;

use crate::trouble::Trouble;

/// What every request of one attempt carries.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    /// Without `Host`.
    pub(crate) map: HeaderMap,
    /// Instead of the URL's host and port.
    pub(crate) host: Option<HeaderValue>,
}

impl Headers {
    /// The spec's headers; `User-Agent` and `Accept` have defaults, and are left out where the spec gives them empty.
    pub(crate) fn new(given: &[(String, String)], user_agent: &'static str) -> Result<Self, Trouble> {
        let mut map = HeaderMap::new();
        for (name, value) in given {
            let bad =
                |what: &str| Trouble::new(Failure::Protocol, format!("net/http: invalid header field {what} for \"{name}\""));
            let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
            map.append(parsed, HeaderValue::from_bytes(value.trim().as_bytes()).map_err(|_| bad("value"))?);
        }
        for (name, default) in [(USER_AGENT, user_agent), (ACCEPT, "*/*")] {
            match map.get(&name) {
                None => drop(map.insert(name, HeaderValue::from_static(default))),
                Some(value) if value.is_empty() => drop(map.remove(name)),
                Some(_) => {}
            }
        }
        let host = map.remove(HOST).filter(|host| !host.is_empty());
        // The message's framing is ours, and the connection is not kept.
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, CONNECTION] {
            map.remove(name);
        }
        Ok(Self { map, host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(given: &[(&str, &str)]) -> (Vec<String>, Option<String>) {
        let given: Vec<_> = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let headers = Headers::new(&given, "kube-probe/1.36").expect("valid");
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut lines: Vec<_> = headers.map.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
        lines.sort();
        (lines, headers.host.as_ref().map(text))
    }

    #[test]
    fn defaults_and_overrides() {
        assert_eq!(shown(&[]), (vec!["accept: */*".into(), "user-agent: kube-probe/1.36".into()], None));
        assert_eq!(shown(&[("user-agent", ""), ("ACCEPT", "")]), (vec![], None));
        let given = [("Host", "web.example"), ("X-A", "1"), ("X-A", "2"), ("Accept", "text/plain"), ("Content-Length", "7")];
        let expected = ["accept: text/plain", "user-agent: kube-probe/1.36", "x-a: 1", "x-a: 2"];
        assert_eq!(shown(&given), (expected.map(String::from).to_vec(), Some("web.example".into())));
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        for (name, value, text) in [
            ("a b", "1", "net/http: invalid header field name for \"a b\""),
            ("a", "1\r\nb: 2", "net/http: invalid header field value for \"a\""),
        ] {
            let error = Headers::new(&[(name.into(), value.into())], "x").expect_err(name);
            assert_eq!((error.failure, error.text.as_str()), (Failure::Protocol, text));
        }
    }
}
