//! A lifecycle hook's HTTP request: whatever is answered is a success.

use std::time::Duration;

use ::http::header::AUTHORIZATION;
use polylet_core::pod::Handler;
use polylet_core::question::probe::Failure;
use tokio::time::Instant;

use crate::attempt::{end_of, host_of};
use crate::headers::Headers;
use crate::http;
use crate::target::Target;
use crate::tls::PLAINTEXT;
use crate::trouble::Trouble;

const USER_AGENT: &str = "kube-lifecycle/1.36";

/// The hook was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookDone {
    /// HTTPS was asked for and plain HTTP answered: the text of upstream's event `LifecycleHTTPFallback`.
    pub fallback: Option<String>,
}

/// The hook was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct HookError {
    /// Which kind.
    pub failure: Failure,
    /// Upstream's words.
    pub text: String,
}

/// Sends a hook's request. `budget` bounds it; None is without limit, and the caller may drop the future.
///
/// A peer that answers HTTPS in plain HTTP is asked again in plain HTTP, without the header `Authorization`.
pub async fn hook_http(handler: &Handler, ips: &[String], budget: Option<Duration>) -> Result<HookDone, HookError> {
    let deadline = budget.map(|budget| end_of(Instant::now(), budget));
    let Handler::HttpGet { host, port, path, tls, headers } = handler else {
        return Err(HookError { failure: Failure::Internal, text: "invalid handler".to_owned() });
    };
    let target = Target::new(*tls, host_of(host, ips)?, *port, path);
    let mut headers = Headers::new(headers, USER_AGENT).map_err(|trouble| trouble.within(&format!("Get \"{target}\"")))?;
    let original = match http::get(&target, &headers, deadline).await {
        Ok(_) => return Ok(HookDone { fallback: None }),
        Err(trouble) if trouble.failure == Failure::Tls && trouble.text.ends_with(PLAINTEXT) => trouble,
        Err(trouble) => return Err(trouble.into()),
    };
    headers.map.remove(AUTHORIZATION);
    let plain = Target { tls: false, ..target };
    match http::get(&plain, &headers, deadline).await {
        Ok(_) => {
            let event =
                format!("request to HTTPS lifecycle hook {} got HTTP response, retry with HTTP succeeded", plain.authority);
            Ok(HookDone { fallback: Some(event) })
        }
        Err(_) => Err(original.into()),
    }
}

impl From<Trouble> for HookError {
    fn from(trouble: Trouble) -> Self {
        Self { failure: trouble.failure, text: trouble.text }
    }
}
