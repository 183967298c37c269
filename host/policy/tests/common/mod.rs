//! What the tests of this crate share: a host, guests, questions.
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod guest;
pub(crate) mod questions;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use polylet_core::question::{Answer, FailureKind, Question};
use polylet_policy::compile::{CompileLimits, Compiler};
use polylet_policy::{Asked, LoadError, LoadSpec, LoadedPolicy, PolicyHost, Settings, Source};
use serde_json::json;

/// The child, alone: tests have no `main` of their own to hand over to it.
pub(crate) fn compiler() -> Compiler {
    Compiler {
        command: env!("CARGO_BIN_EXE_polylet-compile-policy").into(),
        args: Vec::new(),
        // Machines that build are slow; what is costly says its own limits.
        limits: CompileLimits { wall: Duration::from_secs(300), cpu: Duration::from_secs(300), ..CompileLimits::default() },
    }
}

/// A host over the cache that all tests share.
pub(crate) fn host() -> PolicyHost {
    host_with(|_| {})
}

pub(crate) fn host_with(change: impl FnOnce(&mut Settings)) -> PolicyHost {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policy-cache");
    let mut settings = Settings { compiler: compiler(), ..Settings::new(cache) };
    change(&mut settings);
    PolicyHost::new(settings).unwrap()
}

/// A component that `policies/build.sh` made.
pub(crate) fn built(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("POLYLET_POLICIES_DIR")).join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}; run policies/build.sh", path.display()))
}

pub(crate) fn spec(component: Vec<u8>) -> LoadSpec {
    LoadSpec {
        name: "test".into(),
        component: Source::Bytes(component.into()),
        digest: None,
        hook: None,
        config: json!({}),
        limits: Default::default(),
    }
}

pub(crate) fn load(host: &PolicyHost, component: Vec<u8>) -> LoadedPolicy {
    host.load(&spec(component)).unwrap_or_else(|error| panic!("{}", whole(&error)))
}

#[track_caller]
pub(crate) fn check_load(host: &PolicyHost, component: Vec<u8>, expected: &str) {
    let error = host.load(&spec(component)).expect_err("it is refused");
    assert_eq!(whole(&error), expected);
}

/// An error with its causes.
pub(crate) fn whole(error: &LoadError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[track_caller]
pub(crate) fn answer(asked: Asked) -> Option<Answer> {
    asked.verdict.answer.unwrap_or_else(|failure| panic!("{failure}"))
}

/// Asks, and expects a failure with a message that begins like this.
#[track_caller]
pub(crate) fn check_failure(
    host: &PolicyHost,
    policy: &LoadedPolicy,
    question: &Arc<Question>,
    kind: FailureKind,
    message: &str,
) {
    let failure = host.ask_policy(policy, question).verdict.answer.expect_err("it fails");
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(failure.message.starts_with(message), "{:?} does not begin with {message:?}", failure.message);
}
