//! What a component must look like, found out without compiling it: its size, its imports, its exports and their types.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::LazyLock;

use polylet_core::question::Hook;
use serde::{Deserialize, Serialize};
use wit_parser::decoding::{DecodedWasm, decode};
use wit_parser::{Function, Resolve, UnresolvedPackageGroup, WorldId, WorldItem};

use crate::contract::types::compare;

mod types;

/// Largest component that is looked at.
pub const COMPONENT_MAX: usize = 32 << 20;

/// The contract as it was when the host was built.
pub(crate) const WIT: &str = include_str!("../../../wit/policy.wit");
const PACKAGE: &str = "polylet:policy/";

/// What a component imports and exports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// The hooks that it can be bound to.
    pub hooks: BTreeSet<Hook>,
    /// Interfaces that it imports, by full name.
    pub imports: Vec<String>,
}

/// Why a component is refused before it is compiled. Each says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComponentError {
    /// Too many bytes.
    #[error("is {bytes} bytes long; a policy may have {COMPONENT_MAX}")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// A core module.
    #[error("is a core WebAssembly module; a policy is a component (make one with `wasm-tools component new`)")]
    Module,
    /// Not WebAssembly, or damaged.
    #[error("is not a WebAssembly component: {reason}")]
    Malformed {
        /// What the decoder says.
        reason: String,
    },
    /// An import that is not the contract's.
    #[error("imports {name}, which a policy may not use; allowed are {allowed}")]
    Import {
        /// What it wants.
        name: String,
        /// What it may have.
        allowed: String,
    },
    /// An interface of the contract in a version that the node does not speak.
    #[error("{direction} {name}; this node speaks version {spoken} of the contract")]
    Version {
        /// `imports` or `exports`.
        direction: &'static str,
        /// Full name of the interface.
        name: String,
        /// The node's.
        spoken: String,
    },
    /// A function that the contract does not have, or with other types.
    #[error("{direction} {interface} with a function `{function}` that does not fit the contract: {difference}")]
    Type {
        /// `imports` or `exports`.
        direction: &'static str,
        /// Full name of the interface.
        interface: String,
        /// The function.
        function: String,
        /// Where it differs, what is there and what should be.
        difference: String,
    },
    /// `about` is missing.
    #[error("does not export {PACKAGE}about, which every policy does")]
    NoAbout,
    /// No hook at all.
    #[error("exports no hook; a policy exports at least one of {hooks}")]
    NoHook {
        /// The hooks there are.
        hooks: String,
    },
    /// Not the hook that it is to be bound to.
    #[error("does not export {PACKAGE}{wanted}; it can be bound to {exported}")]
    OtherHook {
        /// The hook of the binding.
        wanted: &'static str,
        /// The hooks that it exports.
        exported: String,
    },
}

impl Contents {
    /// Checks that it can be bound to the hook.
    ///
    /// # Errors
    /// [`ComponentError::OtherHook`].
    pub fn require(&self, hook: Hook) -> Result<(), ComponentError> {
        match self.hooks.contains(&hook) {
            true => Ok(()),
            false => Err(ComponentError::OtherHook { wanted: hook.as_str(), exported: names(self.hooks.iter().copied()) }),
        }
    }
}

/// Looks at a component without compiling it.
///
/// # Errors
/// [`ComponentError`]: the first thing that does not fit.
pub fn check(component: &[u8]) -> Result<Contents, ComponentError> {
    if component.len() > COMPONENT_MAX {
        return Err(ComponentError::TooLarge { bytes: component.len() });
    }
    if component.starts_with(b"\0asm\x01\0\0\0") {
        return Err(ComponentError::Module);
    }
    if !component.starts_with(b"\0asm") {
        let reason = "it does not begin with the bytes 00 61 73 6d, as WebAssembly does".into();
        return Err(ComponentError::Malformed { reason });
    }
    let (theirs, world) = decoded(component)?;
    let mut contents = Contents::default();
    for (key, item) in &theirs.worlds[world].imports {
        let name = theirs.name_world_key(key);
        let foreign = || ComponentError::Import { name: name.clone(), allowed: CONTRACT.imports.join(", ") };
        let interface = name.strip_prefix(PACKAGE).ok_or_else(foreign)?;
        let (short, version) = interface.split_once('@').unwrap_or((interface, ""));
        if !CONTRACT.imports.iter().any(|allowed| allowed == short) {
            return Err(foreign());
        }
        check_interface("imports", &theirs, item, &name, short, version)?;
        contents.imports.push(name.clone());
    }
    let mut about = false;
    for (key, item) in &theirs.worlds[world].exports {
        let name = theirs.name_world_key(key);
        // What else it exports, nobody calls.
        let Some(interface) = name.strip_prefix(PACKAGE) else { continue };
        let (short, version) = interface.split_once('@').unwrap_or((interface, ""));
        match Hook::ALL.into_iter().find(|hook| hook.as_str() == short) {
            Some(hook) => drop(contents.hooks.insert(hook)),
            None if short == "about" => about = true,
            None => continue,
        }
        check_interface("exports", &theirs, item, &name, short, version)?;
    }
    if !about {
        return Err(ComponentError::NoAbout);
    }
    if contents.hooks.is_empty() {
        return Err(ComponentError::NoHook { hooks: names(Hook::ALL) });
    }
    Ok(contents)
}

/// The decoder meets bytes that anybody may have written: if it gives up by a panic, that is one more way of being malformed.
fn decoded(component: &[u8]) -> Result<(Resolve, WorldId), ComponentError> {
    let malformed = |reason: String| ComponentError::Malformed { reason };
    match panic::catch_unwind(AssertUnwindSafe(|| decode(component))) {
        Ok(Ok(DecodedWasm::Component(resolve, world))) => Ok((resolve, world)),
        Ok(Ok(DecodedWasm::WitPackage(..))) => Err(malformed("it holds interfaces only, and no code".into())),
        Ok(Err(error)) => Err(malformed(crate::failure::one_line(&error.root_cause().to_string()))),
        Err(_) => Err(malformed("the decoder gave up".into())),
    }
}

fn check_interface(
    direction: &'static str,
    theirs: &Resolve,
    item: &WorldItem,
    name: &str,
    short: &str,
    version: &str,
) -> Result<(), ComponentError> {
    if !same_minor(version, &CONTRACT.version) {
        return Err(ComponentError::Version { direction, name: name.into(), spoken: CONTRACT.version.clone() });
    }
    let WorldItem::Interface { id, .. } = item else { return Ok(()) };
    let wrong = |function: &str, difference: String| ComponentError::Type {
        direction,
        interface: name.into(),
        function: function.into(),
        difference,
    };
    let found = &theirs.interfaces[*id].functions;
    let expected = CONTRACT.interface(short);
    for (function, found) in found {
        match expected.iter().find(|expected| expected.name == *function) {
            Some(expected) => compare(theirs, found, &CONTRACT.resolve, expected).map_err(|d| wrong(function, d))?,
            None if direction == "imports" => return Err(wrong(function, "it is not there".into())),
            None => {}
        }
    }
    // An import may use a part of an interface; a hook must be there as a whole.
    match expected.iter().find(|f| direction == "exports" && !found.contains_key(&f.name)) {
        Some(missing) => Err(wrong(&missing.name, "the component does not have it".into())),
        None => Ok(()),
    }
}

/// Versions of one minor speak to each other.
fn same_minor(a: &str, b: &str) -> bool {
    let minor = |v: &str| v.splitn(3, '.').take(2).map(str::to_owned).collect::<Vec<_>>();
    minor(a) == minor(b)
}

fn names(hooks: impl IntoIterator<Item = Hook>) -> String {
    hooks.into_iter().map(Hook::as_str).collect::<Vec<_>>().join(", ")
}

struct Contract {
    resolve: Resolve,
    version: String,
    /// Interfaces that a policy may import.
    imports: Vec<String>,
}

impl Contract {
    fn interface(&self, name: &str) -> Vec<&Function> {
        let interface = self.resolve.interfaces.iter().find(|(_, interface)| interface.name.as_deref() == Some(name));
        interface.map(|(_, interface)| interface.functions.values().collect()).unwrap_or_default()
    }
}

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    let parse = || {
        let mut resolve = Resolve::default();
        let package = resolve.push_group(UnresolvedPackageGroup::parse("policy.wit", WIT).ok()?).ok()?;
        let version = resolve.packages[package].name.version.as_ref()?.to_string();
        let world = resolve.packages[package].worlds.get("policy")?;
        let imports = resolve.worlds[*world].imports.keys().map(|key| resolve.name_world_key(key));
        let short = |name: String| name.strip_prefix(PACKAGE).map(|n| n.split('@').next().unwrap_or(n).to_owned());
        let imports = imports.filter_map(short).collect();
        Some(Contract { resolve, version, imports })
    };
    // The same text was read by `bindgen!`, so that a contract that cannot be parsed does not get past the compiler.
    parse().expect("wit/policy.wit is the contract")
});
