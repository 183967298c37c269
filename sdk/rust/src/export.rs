//! From an author's traits to the exports of a component.

use std::marker::PhantomData;

use crate::bindings::restart as restart_wit;
use crate::bindings::{about, eviction as eviction_wit, probe as probe_wit, qos as qos_wit};
use crate::eviction::{Candidate, Eviction, Shortage, Signal, Victim};
use crate::types::NodeFacts;
use crate::{Ask, Config, Policy, probe, qos, restart};

/// Makes a component of a policy: `export!(Gentle: restart)`, or with several hooks, `export!(All: restart, qos)`. The traits of
/// the named hooks must be implemented. Once in a crate, which is a `cdylib`.
///
/// Natively it checks that the traits are there, and exports nothing: the names of a component's exports are none that a native
/// linker accepts.
#[macro_export]
macro_rules! export {
    ($policy:ty: $($hook:ident),+ $(,)?) => {
        const _: () = {
            type Exported = $crate::export::Exported<$policy>;
            $crate::export_interface!(Exported: about);
            $($crate::export_interface!(Exported: $hook);)+
        };
    };
}

/// One interface of [`export!`].
#[doc(hidden)]
#[macro_export]
macro_rules! export_interface {
    ($exported:ident: about) => {
        $crate::export_interface!($exported: about by export_about);
    };
    ($exported:ident: restart) => {
        $crate::export_interface!($exported: restart by export_restart);
    };
    ($exported:ident: probe) => {
        $crate::export_interface!($exported: probe by export_probe);
    };
    ($exported:ident: qos) => {
        $crate::export_interface!($exported: qos by export_qos);
    };
    ($exported:ident: eviction) => {
        $crate::export_interface!($exported: eviction by export_eviction);
    };
    ($exported:ident: $interface:ident by $export:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::$interface::$export!($exported with_types_in $crate::bindings::$interface);
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            const fn is_exportable<E: $crate::bindings::$interface::Guest>() {}
            is_exportable::<$exported>();
        };
    };
    ($exported:ident: $other:ident) => {
        compile_error!(concat!(
            "no hook `", stringify!($other), "`: there are restart, probe, qos and eviction"
        ));
    };
}

/// What stands between the generated exports and a policy.
#[derive(Debug)]
pub struct Exported<P>(PhantomData<P>);

impl<P: Policy> about::Guest for Exported<P> {
    fn describe() -> about::Description {
        about::Description {
            name: P::NAME.to_owned(),
            version: P::VERSION.to_owned(),
            summary: P::SUMMARY.to_owned(),
            config_schema: P::CONFIG_SCHEMA.map(str::to_owned),
        }
    }

    fn validate(config: String) -> Result<(), String> {
        report_panics();
        P::validate(&Config::of(config))
    }
}

impl<P: restart::Restart> restart_wit::Guest for Exported<P> {
    fn decide(question: restart::Question) -> Option<restart::Answer> {
        answer(|policy: &P, ask| policy.decide(ask, &question))
    }
}

impl<P: probe::Probe> probe_wit::Guest for Exported<P> {
    fn interpret(question: probe::Question) -> Option<probe::Answer> {
        answer(|policy: &P, ask| policy.interpret(ask, &question))
    }
}

impl<P: qos::Qos> qos_wit::Guest for Exported<P> {
    fn classify(question: qos::Question) -> Option<qos::Answer> {
        answer(|policy: &P, ask| policy.classify(ask, &question))
    }
}

impl<P: Eviction> eviction_wit::Guest for Exported<P> {
    fn assess(node: NodeFacts, signals: Vec<Signal>) -> Vec<Shortage> {
        answer(|policy: &P, ask| Some(policy.assess(ask, &node, &signals))).unwrap_or_default()
    }

    fn rank(node: NodeFacts, shortage: Shortage, candidates: Vec<Candidate>) -> Option<Vec<Victim>> {
        answer(|policy: &P, ask| policy.rank(ask, &node, &shortage, &candidates))
    }
}

/// Answers one question. A configuration that the policy does not accept was refused before it was bound; should one come after
/// all (another version of the policy was bound to it), the policy says so and abstains.
fn answer<P: Policy, A>(question: impl FnOnce(&P, &Ask) -> Option<A>) -> Option<A> {
    report_panics();
    let ask = Ask::node();
    match P::configure(&Config::bound()) {
        Ok(policy) => question(&policy, &ask),
        Err(error) => {
            ask.error(&format!("abstaining, since the configuration is not acceptable: {error}"));
            None
        }
    }
}

/// A panic ends as a trap, which says nothing. So its message goes to the log first.
fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| Ask::node().error(&panic.to_string())));
}
