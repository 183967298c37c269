//! A policy that is ready to be asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polylet_core::effect::Rung;
use polylet_core::id::PolicyDigest;
use polylet_core::question::{FailureKind, Hook, PolicyFailure};
use serde::{Deserialize, Serialize};
use wasmtime::component::{Component, InstancePre, Linker};

use crate::bindings::{about, eviction, probe, qos, restart};
use crate::call::Call;
use crate::failure;
use crate::limits::{LimitSpec, Limits};

/// Longest text of a description, in bytes.
const DESCRIPTION_MAX: usize = 16 << 10;

/// Who a policy says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Its own name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// JSON schema of its configuration.
    #[serde(default)]
    pub config_schema: Option<String>,
}

/// A compiled policy with its configuration, tried once. Asked through [`crate::PolicyHost::ask_policy`].
pub struct LoadedPolicy {
    pub(crate) name: Arc<str>,
    pub(crate) digest: PolicyDigest,
    pub(crate) config_digest: PolicyDigest,
    pub(crate) config: Arc<str>,
    pub(crate) description: Description,
    pub(crate) limits: LimitSpec,
    pub(crate) code: Arc<Code>,
    /// It has given a usable answer.
    pub(crate) answered: AtomicBool,
}

/// What policies of the same component share.
pub(crate) struct Code {
    pub(crate) pre: InstancePre<Call>,
    pub(crate) about: about::GuestIndices,
    pub(crate) restart: Option<restart::GuestIndices>,
    pub(crate) probe: Option<probe::GuestIndices>,
    pub(crate) qos: Option<qos::GuestIndices>,
    pub(crate) eviction: Option<eviction::GuestIndices>,
}

impl std::fmt::Debug for LoadedPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPolicy").field("name", &self.name).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl LoadedPolicy {
    /// Name of the binding.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Digest of the component.
    pub fn digest(&self) -> &PolicyDigest {
        &self.digest
    }

    /// Who it says it is.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The hooks that it answers.
    pub fn hooks(&self) -> BTreeSet<Hook> {
        self.code.hooks()
    }

    /// What one call for the hook may use.
    pub fn limits(&self, hook: Hook) -> Limits {
        Limits::of(hook).with(&self.limits)
    }

    /// Whether it has given a usable answer since it was loaded.
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// The rung that it stands on when it is bound.
    pub fn rung(&self) -> Rung {
        Rung::Bound { name: self.name.as_ref().to_owned(), digest: self.digest.clone(), config: self.config_digest.clone() }
    }
}

impl Code {
    /// Links a component. The reason says what does not fit.
    pub(crate) fn link(linker: &Linker<Call>, component: &Component) -> Result<Self, String> {
        let pre = linker.instantiate_pre(component).map_err(|error| format!("{error:#}"))?;
        Ok(Self {
            about: about::GuestIndices::new(&pre).map_err(|error| format!("{error:#}"))?,
            restart: restart::GuestIndices::new(&pre).ok(),
            probe: probe::GuestIndices::new(&pre).ok(),
            qos: qos::GuestIndices::new(&pre).ok(),
            eviction: eviction::GuestIndices::new(&pre).ok(),
            pre,
        })
    }

    pub(crate) fn hooks(&self) -> BTreeSet<Hook> {
        [
            (Hook::Restart, self.restart.is_some()),
            (Hook::Probe, self.probe.is_some()),
            (Hook::Qos, self.qos.is_some()),
            (Hook::Eviction, self.eviction.is_some()),
        ]
        .into_iter()
        .filter_map(|(hook, there)| there.then_some(hook))
        .collect()
    }

    /// One call before anything depends on it: who is it, does it accept the configuration, are its hooks what they should be?
    pub(crate) fn try_out(&self, store: &mut wasmtime::Store<Call>) -> Result<Description, Trial> {
        let failed = |function| move |error| Trial::Error(function, error);
        let instance = self.pre.instantiate(&mut *store).map_err(failed("instantiation"))?;
        let about = self.about.load(&mut *store, &instance).map_err(failed("about"))?;
        self.load_hooks(store, &instance).map_err(failed("a hook"))?;
        let said = about.call_describe(&mut *store).map_err(failed("about.describe"))?;
        let texts = [&said.name, &said.version, &said.summary, said.config_schema.as_ref().unwrap_or(&said.name)];
        if let Some(long) = texts.into_iter().find(|text| text.len() > DESCRIPTION_MAX) {
            let message = format!("a text of {} bytes; {DESCRIPTION_MAX} are allowed", long.len());
            return Err(Trial::Failure("about.describe", PolicyFailure { kind: FailureKind::BadAnswer, message }));
        }
        let config = store.data().config.as_ref().to_owned();
        match about.call_validate(&mut *store, &config).map_err(failed("about.validate"))? {
            Ok(()) => Ok(Description {
                name: failure::one_line(&said.name),
                version: failure::one_line(&said.version),
                summary: failure::one_line(&said.summary),
                config_schema: said.config_schema,
            }),
            Err(reason) => Err(Trial::Refused(failure::one_line(&reason))),
        }
    }

    fn load_hooks(&self, store: &mut wasmtime::Store<Call>, instance: &wasmtime::component::Instance) -> wasmtime::Result<()> {
        if let Some(indices) = &self.restart {
            indices.load(&mut *store, instance)?;
        }
        if let Some(indices) = &self.probe {
            indices.load(&mut *store, instance)?;
        }
        if let Some(indices) = &self.qos {
            indices.load(&mut *store, instance)?;
        }
        if let Some(indices) = &self.eviction {
            indices.load(&mut *store, instance)?;
        }
        Ok(())
    }
}

/// How a trial can end badly.
pub(crate) enum Trial {
    Error(&'static str, wasmtime::Error),
    Failure(&'static str, PolicyFailure),
    Refused(String),
}
