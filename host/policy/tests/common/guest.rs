//! Guests written by hand: a core module in text, made a component of the contract. For what a decent compiler does not emit.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, UnresolvedPackageGroup};

const WIT: &str = include_str!("../../../../wit/policy.wit");

/// A policy for `restart` whose `decide` is this body: it has a parameter, the address of the question, and returns the address of
/// an `option<answer>`. `$wait` writes one. Beside it: `imports` and further fields of the module.
pub(crate) fn restart(imports: &str, fields: &str, decide: &str) -> Vec<u8> {
    restart_with_memory(imports, fields, decide, 2)
}

pub(crate) fn restart_with_memory(imports: &str, fields: &str, decide: &str, pages: u32) -> Vec<u8> {
    component(
        WIT,
        "restart-policy",
        &format!(
            r#"(module
              {imports}
              (memory (export "memory") {pages})
              (global $free (mut i32) (i32.const 4096))
              (data (i32.const 16) "test0.1.0A test.")
              (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -16)))
                (global.set $free (i32.add (local.get $at) (local.get 3)))
                (local.get $at))
              (func $wait (param $delay i64) (result i32)
                (i32.store8 (i32.const 512) (i32.const 1))
                (i32.store8 (i32.const 520) (i32.const 0))
                (i64.store (i32.const 528) (local.get $delay))
                (i64.store (i32.const 536) (i64.const 0))
                (i32.const 512))
              (func (export "polylet:policy/about@0.1.0#describe") (result i32)
                (i32.store (i32.const 600) (i32.const 16)) (i32.store (i32.const 604) (i32.const 4))
                (i32.store (i32.const 608) (i32.const 20)) (i32.store (i32.const 612) (i32.const 5))
                (i32.store (i32.const 616) (i32.const 25)) (i32.store (i32.const 620) (i32.const 7))
                (i32.store8 (i32.const 624) (i32.const 0))
                (i32.const 600))
              (func (export "polylet:policy/about@0.1.0#validate") (param i32 i32) (result i32)
                (i32.store8 (i32.const 640) (i32.const 0))
                (i32.const 640))
              {fields}
              (func (export "polylet:policy/restart@0.1.0#decide") (param i32) (result i32) {decide}))"#
        ),
    )
}

/// A policy for `restart` that always waits this long.
pub(crate) fn waits(delay: u64) -> Vec<u8> {
    restart("", "", &format!("(call $wait (i64.const {delay}))"))
}

/// A component of a world, from a core module in text.
pub(crate) fn component(wit: &str, world: &str, module: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_group(UnresolvedPackageGroup::parse("policy.wit", wit).unwrap()).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut module = wat::parse_str(module).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

/// A component of one core module, with an instance of another one beside it.
pub(crate) fn beside(mut component: Vec<u8>, module: &str) -> Vec<u8> {
    let mut section = |id: u8, content: &[u8]| {
        component.push(id);
        let mut length = content.len();
        while length >= 0x80 {
            component.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        component.push(length as u8);
        component.extend(content);
    };
    section(1, &wat::parse_str(module).unwrap());
    // One instance: of the second module, which imports nothing.
    section(2, &[1, 0, 1, 0]);
    component
}

/// The contract with a change.
pub(crate) fn changed_contract(from: &str, to: &str) -> String {
    assert!(WIT.contains(from), "the contract has no {from:?}");
    WIT.replacen(from, to, 1)
}
