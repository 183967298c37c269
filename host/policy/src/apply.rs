//! From what the directory shows to what the node asks: the ladder of each hook, changed in one assignment.
//!
//! **Invariant:** a policy is loaded before anything points to it, and what cannot be loaded leaves what was bound.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use polylet_core::effect::Rung;
use polylet_core::ladder::Bindings;
use polylet_core::question::Hook;

use crate::contract::check;
use crate::default::default_component;
use crate::directory::{Binding, BindingError, Scan, forget_good, remember_good};
use crate::failure;
use crate::host::{Bound, LoadError, LoadSpec, PolicyHost, Source, lock, read_component, verified};
use crate::limits::LimitSpec;
use crate::loaded::LoadedPolicy;

/// How long a policy can still be asked after it was unbound: decisions under way refer to it.
const LINGER: Duration = Duration::from_secs(60);
/// Policies that linger at most; the ones unbound first go first.
const LINGERING: usize = 16;

/// What policies remember is kept for so long after the directory has named them last: a file may be taken away and put back.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// What a scan came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// What is bound now: for the core.
    pub bindings: Arc<Bindings>,
    /// Whether that differs from before.
    pub changed: bool,
    /// Everything in the directory that is not bound, or could not be bound again, and why.
    pub errors: Vec<BindingError>,
    /// Hooks whose binding waits for its component to be compiled; what they had bound stays until then.
    pub waiting: BTreeSet<Hook>,
}

/// Answers for a component that no policy uses yet and that the cache does not have: whether it is to be compiled now.
///
/// # Errors
/// [`LoadError::Waiting`] where it is compiled elsewhere; any other where it was refused before.
pub type MayCompile<'a> = &'a mut dyn FnMut(&Binding, &Arc<[u8]>) -> Result<(), LoadError>;

/// One policy that is bound, for showing.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its hook.
    pub hook: Hook,
    /// Its place on the ladder.
    pub rung: Rung,
    /// The policy.
    pub policy: Arc<LoadedPolicy>,
}

/// What each hook has bound, and what lingers.
#[derive(Default)]
pub(crate) struct Ladder {
    active: BTreeMap<Hook, Place>,
    good: BTreeMap<Hook, Place>,
    default: Option<Arc<LoadedPolicy>>,
    lingering: Vec<(Instant, Rung, Arc<LoadedPolicy>)>,
    /// Names under which something is remembered although nothing has them, since when.
    unnamed: BTreeMap<Arc<str>, Instant>,
}

#[derive(Clone)]
struct Place {
    binding: Binding,
    policy: Arc<LoadedPolicy>,
}

impl PolicyHost {
    /// Binds what a scan shows. Loads what is new, compiling it if need be, while calls go on with what was bound; then changes
    /// all bindings at once.
    pub fn apply(&self, scan: &Scan) -> Applied {
        self.apply_compiled(scan, &mut |_, _| Ok(()))
    }

    /// The same for who may not wait for a compiler: `may` is asked about each component that needs one.
    pub fn apply_compiled(&self, scan: &Scan, may: MayCompile<'_>) -> Applied {
        let mut ladder = lock(&self.0.ladder);
        let mut errors = scan.errors.clone();
        let mut waiting = BTreeSet::new();
        let mut places = BTreeMap::new();
        for binding in &scan.bindings {
            let bound = ladder.active.get(&binding.hook).filter(|place| place.binding == *binding);
            let place = match bound {
                Some(place) => {
                    errors.extend(damaged(binding, scan));
                    Ok(place.clone())
                }
                None => self.place(binding, scan, may),
            };
            match place {
                Ok(place) => drop(places.insert(binding.hook, place)),
                Err(LoadError::Waiting) => drop(waiting.insert(binding.hook)),
                Err(error) => errors.push(refused(binding, scan, &error)),
            }
        }
        for hook in Hook::ALL {
            let active = ladder.active.get(&hook).cloned();
            let stays = |place: &Place| waiting.contains(&hook) || keeps(&errors, hook, place);
            let next = places.remove(&hook).or_else(|| active.clone().filter(stays));
            self.take_place(&mut ladder, scan, active, next, hook, may);
        }
        let (bindings, changed) = self.publish(&mut ladder);
        self.forget_unnamed(&mut ladder, scan);
        Applied { bindings, changed, errors, waiting }
    }

    /// What [`PolicyHost::apply`] would make of each binding of a scan, with nothing bound.
    pub fn try_out(&self, scan: &Scan) -> Vec<Result<Arc<LoadedPolicy>, BindingError>> {
        let place = |binding| {
            let placed = self.place(binding, scan, &mut |_, _| Ok(()));
            placed.map(|place| place.policy).map_err(|error| refused(binding, scan, &error))
        };
        scan.bindings.iter().map(place).collect()
    }

    /// Loads the default component and puts it on every ladder, below what is bound. None: the program was built without one.
    ///
    /// # Errors
    /// [`LoadError`]: the native rung goes on answering.
    pub fn load_default(&self) -> Result<Option<Arc<Bindings>>, LoadError> {
        let Some(component) = default_component() else { return Ok(None) };
        let policy = self.load(&LoadSpec {
            name: "default".into(),
            component: Source::Bytes(component.into()),
            digest: None,
            hook: None,
            config: serde_json::json!({}),
            limits: LimitSpec::default(),
        })?;
        let mut ladder = lock(&self.0.ladder);
        ladder.default = Some(Arc::new(policy));
        Ok(Some(self.publish(&mut ladder).0))
    }

    /// Every policy on a ladder, the best of each hook first.
    pub fn standing(&self) -> Vec<Standing> {
        let bound = self.0.bound.read().unwrap_or_else(PoisonError::into_inner);
        let rungs = bound.bindings.rungs.iter().flat_map(|(hook, rungs)| rungs.iter().map(|rung| (*hook, rung.clone())));
        rungs.filter_map(|(hook, rung)| Some(Standing { hook, policy: Arc::clone(bound.policies.get(&rung)?), rung })).collect()
    }

    /// The binding with its policy.
    fn place(&self, binding: &Binding, scan: &Scan, may: MayCompile<'_>) -> Result<Place, LoadError> {
        let component: Arc<[u8]> = read_component(&binding.component_in(&scan.directory))?.into();
        verified(&component, Some(&binding.digest))?;
        if !self.is_compiled(&binding.digest) {
            check(&component)?;
            may(binding, &component)?;
        }
        let policy = self.load(&LoadSpec {
            name: binding.name.clone(),
            component: Source::Bytes(component),
            digest: Some(binding.digest.clone()),
            hook: Some(binding.hook),
            config: binding.config.clone(),
            limits: binding.limits,
        })?;
        Ok(Place { binding: binding.clone(), policy: Arc::new(policy) })
    }

    /// Puts `next` in the place of `active`, which becomes the last that was good if it was.
    fn take_place(
        &self,
        ladder: &mut Ladder,
        scan: &Scan,
        active: Option<Place>,
        next: Option<Place>,
        hook: Hook,
        may: MayCompile<'_>,
    ) {
        let same = |a: &Option<Place>, b: &Option<Place>| match (a, b) {
            (Some(a), Some(b)) => a.policy.rung() == b.policy.rung(),
            (None, None) => true,
            _ => false,
        };
        if let (Some(before), Some(_)) = (&active, &next)
            && !same(&active, &next)
            && before.policy.has_answered()
        {
            if let Err(error) = remember_good(&scan.directory, &before.binding) {
                tracing::warn!(hook = hook.as_str(), %error, "the last good policy will not be known after a restart of the agent");
            }
            ladder.good.insert(hook, before.clone());
        }
        // After a restart of the agent the directory remembers.
        if let (Some(_), Some(good)) = (&next, scan.good.get(&hook))
            && !ladder.good.contains_key(&hook)
            && let Ok(place) = self.place(good, scan, may)
        {
            ladder.good.insert(hook, place);
        }
        match next {
            Some(place) => drop(ladder.active.insert(hook, place)),
            None => {
                // Whoever unbinds a hook wants the default there.
                ladder.active.remove(&hook);
                ladder.good.remove(&hook);
                if let Err(error) = forget_good(&scan.directory, hook) {
                    tracing::warn!(hook = hook.as_str(), %error, "the last good policy may come back with the next one that is bound");
                }
            }
        }
    }

    /// Drops what is remembered under names that nothing has had for long: no binding, and none that could be reverted to.
    fn forget_unnamed(&self, ladder: &mut Ladder, scan: &Scan) {
        let Some(mut named) = scan.names.clone() else { return };
        let places = ladder.active.values().chain(ladder.good.values());
        named.extend(places.map(|place| place.binding.name.clone()));
        named.extend(ladder.default.iter().map(|policy| policy.name.to_string()));
        for policy in ladder.long_unnamed(&self.store().policies(), &named, Instant::now()) {
            tracing::info!(policy = &*policy, "no binding has this name any more: what its policy remembered is dropped");
            self.store().forget_policy(&policy);
        }
    }

    /// Replaces what can be asked.
    fn publish(&self, ladder: &mut Ladder) -> (Arc<Bindings>, bool) {
        let mut rungs: BTreeMap<Hook, Vec<Rung>> = BTreeMap::new();
        let mut policies: HashMap<Rung, Arc<LoadedPolicy>> = HashMap::new();
        for hook in Hook::ALL {
            let places = [ladder.active.get(&hook), ladder.good.get(&hook)].into_iter().flatten();
            for policy in places.map(|place| &place.policy) {
                let ladder = rungs.entry(hook).or_default();
                if !ladder.contains(&policy.rung()) {
                    ladder.push(policy.rung());
                    policies.insert(policy.rung(), Arc::clone(policy));
                }
            }
            if let Some(default) = ladder.default.as_ref().filter(|default| default.hooks().contains(&hook)) {
                rungs.entry(hook).or_default().push(Rung::Default);
                policies.insert(Rung::Default, Arc::clone(default));
            }
        }
        let mut bound = self.0.bound.write().unwrap_or_else(PoisonError::into_inner);
        ladder.linger(&bound, &policies);
        for (_, rung, policy) in &ladder.lingering {
            policies.insert(rung.clone(), Arc::clone(policy));
        }
        let changed = bound.bindings.rungs != rungs;
        let bindings = match changed {
            true => Arc::new(Bindings { generation: bound.bindings.generation + 1, rungs }),
            false => Arc::clone(&bound.bindings),
        };
        *bound = Bound { bindings: Arc::clone(&bindings), policies };
        (bindings, changed)
    }
}

impl Ladder {
    /// Notes what has just lost its place, and forgets what lost it long ago.
    fn linger(&mut self, before: &Bound, policies: &HashMap<Rung, Arc<LoadedPolicy>>) {
        self.lingering.retain(|(since, rung, _)| since.elapsed() < LINGER && !policies.contains_key(rung));
        for (rung, policy) in &before.policies {
            if !policies.contains_key(rung) && !self.lingering.iter().any(|(_, there, _)| there == rung) {
                self.lingering.push((Instant::now(), rung.clone(), Arc::clone(policy)));
            }
        }
        let over = self.lingering.len().saturating_sub(LINGERING);
        self.lingering.drain(..over);
    }

    /// Of the names under which something is remembered, those that have not been among the `named` for [`REMEMBERED`].
    fn long_unnamed(&mut self, remembered: &BTreeSet<Arc<str>>, named: &BTreeSet<String>, now: Instant) -> Vec<Arc<str>> {
        let unnamed = || remembered.iter().filter(|policy| !named.contains(&***policy));
        self.unnamed.retain(|policy, _| unnamed().any(|other| other == policy));
        for policy in unnamed() {
            self.unnamed.entry(Arc::clone(policy)).or_insert(now);
        }
        let long = |since: Instant| now.duration_since(since) >= REMEMBERED;
        self.unnamed.iter().filter(|(_, since)| long(**since)).map(|(policy, _)| Arc::clone(policy)).collect()
    }
}

/// Whether what is bound stays although nothing takes its place: because its file, or what claims its hook, is in error.
fn keeps(errors: &[BindingError], hook: Hook, place: &Place) -> bool {
    errors.iter().any(|error| error.hooks.contains(&hook) || error.name() == place.binding.name)
}

/// A bound policy whose component could not be loaded again: told now, and not first when the agent starts anew.
fn damaged(binding: &Binding, scan: &Scan) -> Option<BindingError> {
    let component = read_component(&binding.component_in(&scan.directory));
    let damage = component.and_then(|bytes| verified(&bytes, Some(&binding.digest))).err()?;
    let error = refused(binding, scan, &damage);
    Some(BindingError {
        problem: format!("bound as it was loaded, but the agent's next start will refuse it: {}", error.problem),
        ..error
    })
}

fn refused(binding: &Binding, scan: &Scan, error: &LoadError) -> BindingError {
    let field = match error {
        LoadError::Digest { .. } => "spec.digest",
        LoadError::Config { .. } => "spec.config",
        LoadError::Component(crate::contract::ComponentError::OtherHook { .. }) => "spec.hook",
        _ => "spec.component",
    };
    let files = ["yaml", "yml", "json"].map(|extension| scan.directory.join(format!("{}.{extension}", binding.name)));
    BindingError {
        file: files.iter().find(|file| file.exists()).unwrap_or(&files[0]).clone(),
        field: field.into(),
        problem: failure::whole(error),
        hooks: vec![binding.hook],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_remembers_outlives_its_name_by_an_hour() {
        let mut ladder = Ladder::default();
        let name = |text: &str| Arc::<str>::from(text);
        let remembered = BTreeSet::from([name("gentle"), name("other")]);
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let (both, other) = (named(&["gentle", "other"]), named(&["other"]));
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        assert!(ladder.long_unnamed(&remembered, &both, start).is_empty());
        assert!(ladder.long_unnamed(&remembered, &other, start + minute).is_empty());
        assert!(ladder.long_unnamed(&remembered, &other, start + minute * 60).is_empty(), "the hour begins when the name goes");
        // It comes back, and goes again.
        assert!(ladder.long_unnamed(&remembered, &both, start + minute * 61).is_empty());
        assert!(ladder.long_unnamed(&remembered, &other, start + minute * 62).is_empty());
        assert!(ladder.long_unnamed(&remembered, &other, start + minute * 121).is_empty());
        assert_eq!(ladder.long_unnamed(&remembered, &other, start + minute * 122), [name("gentle")]);
        assert!(
            ladder.long_unnamed(&BTreeSet::from([name("other")]), &other, start + minute * 300).is_empty(),
            "what is dropped is not dropped again"
        );
    }
}
