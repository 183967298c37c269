//! The policy host: loads policies, asks them, keeps what they remember.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use polylet_core::effect::Rung;
use polylet_core::id::PolicyDigest;
use polylet_core::ladder::Bindings;
use polylet_core::question::{Hook, PolicyFailure, Question};
use serde_json::Value;
use wasmtime::component::{Component, Linker};

use crate::apply::Ladder;
use crate::ask::{self, Asked};
use crate::cache::{self, Cache, CacheError};
use crate::call::Call;
use crate::compile::{CompileError, Compiler};
use crate::contract::{COMPONENT_MAX, ComponentError, check};
use crate::digest::{canonical, config_digest, digest_of};
use crate::engine::Engine;
use crate::limits::{LimitSpec, Limits};
use crate::loaded::{Code, LoadedPolicy, Trial};
use crate::store::{CommitError, Persist, PolicyStore, Writes};
use crate::{failure, imports};

/// Calls at once, where nothing else is said.
const CALLS: u32 = 32;

/// What a host is made of.
pub struct Settings {
    /// Directory of compiled policies; made where it is missing, refused where others can write it.
    pub cache: PathBuf,
    /// How components are compiled.
    pub compiler: Compiler,
    /// How many calls can be under way at once; more are answered with a failure of the host.
    pub calls: u32,
    /// Keeps what policies remember.
    pub persist: Option<Arc<dyn Persist>>,
}

impl Settings {
    /// A host that compiles by this program itself, and whose policies forget with the agent.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self { cache: cache.into(), compiler: Compiler::this_program(), calls: CALLS, persist: None }
    }
}

/// Where a component comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Bytes at hand.
    Bytes(Arc<[u8]>),
}

/// A policy to be loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSpec {
    /// Name of the binding: its store is kept under it.
    pub name: String,
    /// The component.
    pub component: Source,
    /// Digest that it must have.
    pub digest: Option<PolicyDigest>,
    /// Hook that it must answer for.
    pub hook: Option<Hook>,
    /// Its configuration.
    pub config: Value,
    /// Its limits.
    pub limits: LimitSpec,
}

/// Why a policy cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The component's file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// The component is not the one that was meant.
    #[error("the component is {found}, the binding wants {wanted}")]
    Digest {
        /// What is there.
        found: PolicyDigest,
        /// What should be.
        wanted: PolicyDigest,
    },
    /// The component does not fit the contract.
    #[error("the component {0}")]
    Component(ComponentError),
    /// It cannot be compiled.
    #[error("the component {}", failure::whole(.0))]
    Compile(CompileError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// It cannot be linked, or is more than an instance may be.
    #[error("the component cannot be instantiated: {reason}")]
    Link {
        /// What wasmtime says.
        reason: String,
    },
    /// The trial call failed.
    #[error("{function} failed on trial: {failure}")]
    Trial {
        /// Which call.
        function: &'static str,
        /// How it failed.
        failure: PolicyFailure,
    },
    /// It does not accept its configuration.
    #[error("the policy refuses its configuration: {reason}")]
    Config {
        /// What it says.
        reason: String,
    },
    /// It is being compiled.
    #[error("the component is being compiled")]
    Waiting,
    /// It was refused before, and is not tried again yet.
    #[error("{0}")]
    Before(String),
    /// The engine cannot be made.
    #[error("make the WebAssembly engine: {reason}")]
    Engine {
        /// What wasmtime says.
        reason: String,
    },
}

impl From<ComponentError> for LoadError {
    fn from(error: ComponentError) -> Self {
        Self::Component(error)
    }
}

/// The policy host. Clones share everything; all calls are synchronous.
#[derive(Clone)]
pub struct PolicyHost(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    engine: Engine,
    linker: Linker<Call>,
    compiler: Compiler,
    cache: Cache,
    memory: Arc<PolicyStore>,
    pub(crate) bound: RwLock<Bound>,
    pub(crate) ladder: Mutex<Ladder>,
    /// One compiler at a time.
    compiling: Mutex<()>,
    /// What was compiled and could not be written into the cache.
    uncached: Mutex<HashMap<PolicyDigest, Component>>,
}

/// Components of which the cache could not keep the code; one more and they are compiled again.
const UNCACHED: usize = 8;

/// What can be asked now. Replaced as a whole, while no call waits: a call takes its policy with it.
#[derive(Clone, Default)]
pub(crate) struct Bound {
    pub(crate) bindings: Arc<Bindings>,
    pub(crate) policies: HashMap<Rung, Arc<LoadedPolicy>>,
}

impl PolicyHost {
    /// A host with nothing bound.
    ///
    /// # Errors
    /// The cache's directory is not ours alone, or the engine cannot be made.
    pub fn new(settings: Settings) -> Result<Self, LoadError> {
        let engine_error = |error: wasmtime::Error| LoadError::Engine { reason: format!("{error:#}") };
        let engine = Engine::new(settings.calls).map_err(engine_error)?;
        Ok(Self(Arc::new(Inner {
            linker: imports::linker(engine.wasmtime()).map_err(engine_error)?,
            cache: Cache::open(&settings.cache, &engine)?,
            compiler: settings.compiler,
            memory: Arc::new(PolicyStore::new(settings.persist)),
            bound: RwLock::default(),
            ladder: Mutex::default(),
            compiling: Mutex::default(),
            uncached: Mutex::default(),
            engine,
        })))
    }

    /// Asks the policy of a rung. A fresh instance; returns when it has answered, or when a limit has ended it.
    pub fn ask(&self, rung: &Rung, question: &Arc<Question>) -> Asked {
        let policy = self.0.bound.read().unwrap_or_else(PoisonError::into_inner).policies.get(rung).cloned();
        match (policy, rung) {
            (Some(policy), _) => self.ask_policy(&policy, question),
            (None, Rung::Bound { name, digest, .. }) => {
                Asked::not_asked(format!("policy {name} ({digest}) is not bound any more"))
            }
            (None, Rung::Default) => Asked::not_asked("the default component is not loaded yet"),
            (None, Rung::Native) => Asked::not_asked("the native policy is no component"),
        }
    }

    /// Asks a policy that need not be bound.
    pub fn ask_policy(&self, policy: &LoadedPolicy, question: &Arc<Question>) -> Asked {
        let asked = ask::ask(&self.0.engine, &self.0.memory, policy, question);
        for (level, message) in &asked.verdict.log {
            let (policy, hook) = (&*policy.name, question.body.hook().as_str());
            match level.as_str() {
                "debug" => tracing::debug!(target: "policy", policy, hook, "{message}"),
                "info" => tracing::info!(target: "policy", policy, hook, "{message}"),
                "warn" => tracing::warn!(target: "policy", policy, hook, "{message}"),
                _ => tracing::error!(target: "policy", policy, hook, "{message}"),
            }
        }
        asked
    }

    /// Keeps what a policy wants to remember, once its answer has been accepted.
    ///
    /// # Errors
    /// [`CommitError`]: the answer stands, only its memory is lost.
    pub fn commit(&self, writes: Writes) -> Result<(), CommitError> {
        if writes.is_empty() { Ok(()) } else { self.0.memory.commit(writes) }
    }

    /// What policies remember.
    pub fn store(&self) -> &PolicyStore {
        &self.0.memory
    }

    /// What is bound now.
    pub fn bindings(&self) -> Arc<Bindings> {
        Arc::clone(&self.0.bound.read().unwrap_or_else(PoisonError::into_inner).bindings)
    }

    /// Loads a policy: checks it, compiles it unless that has been done before, and tries it out. Takes as long as the compiler does.
    ///
    /// # Errors
    /// [`LoadError`]: what does not fit, and what would.
    pub fn load(&self, spec: &LoadSpec) -> Result<LoadedPolicy, LoadError> {
        let component = match &spec.component {
            Source::Bytes(bytes) => Arc::clone(bytes),
            Source::File(path) => read_component(path)?.into(),
        };
        let digest = verified(&component, spec.digest.as_ref())?;
        let code = self.code(&component, &digest, spec.hook)?;
        let config: Arc<str> = canonical(&spec.config).into();
        let name: Arc<str> = spec.name.as_str().into();
        let limits = Limits::of_trial().with(&spec.limits);
        let call = Call::new(Arc::clone(&name), Arc::clone(&config), None, limits, Arc::clone(&self.0.memory));
        let mut store = ask::store(&self.0.engine, call).map_err(|error| LoadError::Engine { reason: format!("{error:#}") })?;
        let tried = {
            let _ticking = self.0.engine.ticker().begin();
            code.try_out(&mut store)
        };
        let description = tried.map_err(|trial| match trial {
            Trial::Refused(reason) => LoadError::Config { reason },
            Trial::Failure(function, failure) => LoadError::Trial { function, failure },
            Trial::Error(function, error) => LoadError::Trial { function, failure: failure::of(&error, store.data()) },
        })?;
        Ok(LoadedPolicy {
            name,
            digest,
            config_digest: config_digest(&spec.config),
            config,
            description,
            limits: spec.limits,
            code,
            answered: AtomicBool::new(false),
        })
    }

    /// The code of a component: of a policy that is bound already, from the cache, or from the compiler.
    fn code(&self, component: &[u8], digest: &PolicyDigest, hook: Option<Hook>) -> Result<Arc<Code>, LoadError> {
        let code = match self.shared(digest) {
            Some(code) => code,
            None => {
                let component = self.compiled(component, digest)?;
                Arc::new(Code::link(&self.0.linker, &component).map_err(|reason| LoadError::Link { reason })?)
            }
        };
        let contents = crate::contract::Contents { hooks: code.hooks(), imports: Vec::new() };
        hook.map_or(Ok(()), |hook| contents.require(hook))?;
        Ok(code)
    }

    /// Compiles a component into the cache. Takes as long as the compiler does; one at a time.
    ///
    /// # Errors
    /// [`LoadError`]: it does not fit, or cannot be compiled.
    pub fn compile(&self, component: &[u8]) -> Result<(), LoadError> {
        self.compiled(component, &digest_of(component)).map(drop)
    }

    /// Whether loading it takes no compiler.
    pub(crate) fn is_compiled(&self, digest: &PolicyDigest) -> bool {
        let kept = lock(&self.0.uncached).contains_key(digest);
        kept || self.shared(digest).is_some() || self.0.cache.holds(&self.0.engine, digest)
    }

    fn shared(&self, digest: &PolicyDigest) -> Option<Arc<Code>> {
        let bound = self.0.bound.read().unwrap_or_else(PoisonError::into_inner);
        bound.policies.values().find(|policy| policy.digest == *digest).map(|policy| Arc::clone(&policy.code))
    }

    fn compiled(&self, component: &[u8], digest: &PolicyDigest) -> Result<Component, LoadError> {
        let inner = &*self.0;
        if let Some(component) = lock(&inner.uncached).get(digest) {
            return Ok(component.clone());
        }
        if let Some(component) = inner.cache.find(&inner.engine, digest)? {
            return Ok(component);
        }
        check(component)?;
        let _one_at_a_time = lock(&inner.compiling);
        // Somebody else may have compiled it while this call waited.
        if let Some(component) = inner.cache.find(&inner.engine, digest)? {
            return Ok(component);
        }
        let artifact = inner.compiler.compile(component).map_err(LoadError::Compile)?;
        match inner.cache.put(&inner.engine, digest, &artifact) {
            Ok(component) => Ok(component),
            // What has just been compiled is sound: it is more than an instance may be.
            Err(CacheError::Load { reason, .. }) => Err(LoadError::Link { reason }),
            Err(error) => {
                tracing::warn!(policy = %digest, error = failure::whole(&error), "compiled policy is kept in memory only");
                let component = cache::from_bytes(&inner.engine, &artifact).map_err(|reason| LoadError::Link { reason })?;
                let mut kept = lock(&inner.uncached);
                if kept.len() >= UNCACHED {
                    kept.clear();
                }
                kept.insert(digest.clone(), component.clone());
                Ok(component)
            }
        }
    }
}

impl fmt::Debug for PolicyHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyHost").field("bindings", &self.bindings()).finish_non_exhaustive()
    }
}

/// A component's file: a regular one, no larger than a component may be.
///
/// # Errors
/// [`LoadError::Read`]
pub fn read_component(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |cause| LoadError::Read { path: path.into(), cause };
    let mut bytes = Vec::new();
    crate::file::open(path).map_err(failed)?.take(COMPONENT_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// The digest of a component, which is the one that is wanted, where one is.
pub(crate) fn verified(component: &[u8], wanted: Option<&PolicyDigest>) -> Result<PolicyDigest, LoadError> {
    let found = digest_of(component);
    match wanted {
        Some(wanted) if *wanted != found => Err(LoadError::Digest { found, wanted: wanted.clone() }),
        _ => Ok(found),
    }
}

/// Nothing is left half done by a panic: what these locks guard is replaced in one assignment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
