//! From a core module to a component, and what a component imports and exports.

use anyhow::{Context, Result, bail};
use wit_component::{ComponentEncoder, DecodedWasm};
use wit_parser::{Resolve, WorldItem, WorldKey};

/// The package that policies may speak with.
const CONTRACT: &str = "polylet:policy/";
const HOOKS: [&str; 4] = ["restart", "probe", "qos", "eviction"];

/// The names of what a component imports and exports.
pub(crate) struct Shape {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
}

/// Makes a component of a module that carries its component type, as the bindings' generator puts it there.
pub(crate) fn encode(module: &[u8]) -> Result<Vec<u8>> {
    let encoder = ComponentEncoder::default().validate(true).module(module).context("not a guest's module")?;
    // What a type takes from the contract is an import too, though nothing is called; versions are merged, not repeated.
    encoder.merge_imports_based_on_semver(true).encode().context("cannot be made a component")
}

/// Reads a component's outer type, without compiling it.
pub(crate) fn shape(component: &[u8]) -> Result<Shape> {
    let (resolve, world) = match wit_component::decode(component).context("not a component")? {
        DecodedWasm::Component(resolve, world) => (resolve, world),
        DecodedWasm::WitPackage(..) => bail!("a WIT package is no component"),
    };
    let world = &resolve.worlds[world];
    let names = |items: &mut dyn Iterator<Item = (&WorldKey, &WorldItem)>| -> Vec<String> {
        items.map(|(key, _)| name(&resolve, key)).collect()
    };
    Ok(Shape { imports: names(&mut world.imports.iter()), exports: names(&mut world.exports.iter()) })
}

impl Shape {
    /// A policy imports nothing but the contract, and exports `about` and a hook.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(foreign) = self.imports.iter().find(|import| !import.starts_with(CONTRACT)) {
            bail!("imports {foreign}, which is not of the contract {CONTRACT}*");
        }
        if !self.exports_interface("about") {
            bail!("does not export {CONTRACT}about");
        }
        if !HOOKS.iter().any(|hook| self.exports_interface(hook)) {
            bail!("exports no hook: {CONTRACT} has {}", HOOKS.join(", "));
        }
        Ok(())
    }

    fn exports_interface(&self, interface: &str) -> bool {
        let prefix = format!("{CONTRACT}{interface}@");
        self.exports.iter().any(|export| export.starts_with(&prefix))
    }
}

fn name(resolve: &Resolve, key: &WorldKey) -> String {
    resolve.name_world_key(key)
}

#[cfg(test)]
mod tests {
    use super::Shape;

    fn check(imports: &[&str], exports: &[&str]) -> Result<(), String> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let shape = Shape { imports: names(imports), exports: names(exports) };
        shape.check().map_err(|error| error.to_string())
    }

    const ABOUT: &str = "polylet:policy/about@0.1.0";
    const QOS: &str = "polylet:policy/qos@0.1.0";

    #[test]
    fn policies_keep_to_the_contract() {
        let log = "polylet:policy/log@0.1.0";
        assert_eq!(check(&[log], &[ABOUT, QOS]), Ok(()));
        assert_eq!(
            check(&[log, "wasi:clocks/wall-clock@0.2.3"], &[ABOUT, QOS]),
            Err("imports wasi:clocks/wall-clock@0.2.3, which is not of the contract polylet:policy/*".to_owned())
        );
        assert_eq!(check(&[], &[QOS]), Err("does not export polylet:policy/about".to_owned()));
        assert_eq!(
            check(&[], &[ABOUT, "polylet:policy/quos@0.1.0"]),
            Err("exports no hook: polylet:policy/ has restart, probe, qos, eviction".to_owned())
        );
    }

    #[test]
    fn what_is_not_wasm_is_refused() {
        assert!(super::encode(b"MZ").is_err());
        assert!(super::shape(b"\0asm").is_err());
    }
}
