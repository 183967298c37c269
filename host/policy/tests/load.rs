//! Components that are refused, and what the operator is told.

mod common;

use std::time::Duration;

use common::guest::{changed_contract, component};
use common::{built, check_load, compiler, guest, host, host_with, spec, whole};
use polylet_core::question::Hook;
use polylet_policy::LoadError;
use polylet_policy::compile::{CompileError, CompileLimits, Costly};
use polylet_policy::contract::{COMPONENT_MAX, check};
use serde_json::json;

#[track_caller]
fn check_contract(component: &[u8], expected: &str) {
    assert_eq!(check(component).expect_err("it is refused").to_string(), expected);
}

/// The module of a policy that exports only `decide` of `restart`, and imports what is said.
fn bare(imports: &str, exports: &str) -> String {
    format!(
        r#"(module {imports} (memory (export "memory") 1)
          (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
          {exports})"#
    )
}

const ABOUT: &str = r#"
  (func (export "polylet:policy/about@0.1.0#describe") (result i32) (i32.const 64))
  (func (export "polylet:policy/about@0.1.0#validate") (param i32 i32) (result i32) (i32.const 64))"#;
const RESTART: &str = r#"(func (export "polylet:policy/restart@0.1.0#decide") (param i32) (result i32) (i32.const 64))"#;

#[test]
fn the_default_answers_every_hook() {
    let contents = check(&built("default")).unwrap();
    assert_eq!(contents.hooks.into_iter().collect::<Vec<_>>(), Hook::ALL);
    assert!(contents.imports.iter().all(|name| name.starts_with("polylet:policy/")), "{:?}", contents.imports);
}

#[test]
fn imports_outside_the_contract_are_refused_by_name() {
    check_load(
        &host(),
        built("hostile/forbidden-import"),
        "the component imports wasi:clocks/wall-clock@0.2.3, which a policy may not use; allowed are facts, types, words, \
         settings, store, log",
    );
}

#[test]
fn an_import_of_the_contract_must_be_one_that_policies_have() {
    let wit = changed_contract("world restart-policy { include imports;", "world restart-policy { import probe;");
    let module =
        bare(r#"(import "polylet:policy/probe@0.1.0" "interpret" (func (param i32 i32)))"#, &format!("{ABOUT}{RESTART}"));
    check_contract(
        &component(&wit, "restart-policy", &module),
        "imports polylet:policy/probe@0.1.0, which a policy may not use; allowed are facts, types, words, settings, store, log",
    );
}

#[test]
fn types_that_differ_are_named() {
    let host = host();
    let error = host.load(&spec(built("hostile/wrong-type"))).err().unwrap();
    let text = whole(&error);
    assert!(text.contains("that does not fit the contract: "), "{text}");

    let check_changed = |from: &str, to: &str, expected: &str| {
        let module = bare("", &format!("{ABOUT}{RESTART}"));
        check_contract(&component(&changed_contract(from, to), "restart-policy", &module), expected);
    };
    let function = "exports polylet:policy/restart@0.1.0 with a function `decide` that does not fit the contract: ";
    check_changed(
        "exit-code: option<s32>",
        "exit-code: option<s64>",
        &format!("{function}question.last.exit-code is s64, in the contract s32"),
    );
    check_changed("    out-of-memory: bool,\n", "", &format!("{function}question.last lacks the field `out-of-memory`"));
    check_changed("out-of-memory: bool", "oom: bool", &format!("{function}question.last lacks the field `out-of-memory`"));
    check_changed(
        "out-of-memory: bool,",
        "out-of-memory: bool, odd: bool,",
        &format!("{function}question.last has a field `odd` that the contract does not know"),
    );
    check_changed(
        "enum restart-policy { always, on-failure, never }",
        "enum restart-policy { always, never, on-failure }",
        &format!("{function}question.container.restart-policy has its cases in another order than the contract"),
    );
    check_changed("wait(u64)", "wait(s64)", &format!("{function}the result.action.wait is s64, in the contract u64"));
    check_changed(
        "decide: func(question: question)",
        "decide: func(query: question)",
        &format!("{function}it has a parameter `query` where the contract has `question`"),
    );
}

#[test]
fn an_import_with_another_type_is_named() {
    let wit = changed_contract("number: func(name: string) -> option<s64>", "number: func(name: string) -> option<u64>");
    let module =
        bare(r#"(import "polylet:policy/facts@0.1.0" "number" (func (param i32 i32 i32)))"#, &format!("{ABOUT}{RESTART}"));
    check_contract(
        &component(&wit, "restart-policy", &module),
        "imports polylet:policy/facts@0.1.0 with a function `number` that does not fit the contract: the result is u64, in the \
         contract s64",
    );
}

#[test]
fn a_function_of_tomorrow_is_not_there() {
    let wit = changed_contract("number: func(name: string)", "tomorrow: func();\n  number: func(name: string)");
    let module = bare(r#"(import "polylet:policy/facts@0.1.0" "tomorrow" (func))"#, &format!("{ABOUT}{RESTART}"));
    check_contract(
        &component(&wit, "restart-policy", &module),
        "imports polylet:policy/facts@0.1.0 with a function `tomorrow` that does not fit the contract: it is not there",
    );
}

#[test]
fn another_version_of_the_contract_is_named() {
    let wit = changed_contract("package polylet:policy@0.1.0", "package polylet:policy@0.7.0");
    let module = bare("", &format!("{ABOUT}{RESTART}")).replace("@0.1.0", "@0.7.0");
    check_contract(
        &component(&wit, "restart-policy", &module),
        "imports polylet:policy/types@0.7.0; this node speaks version 0.1.0 of the contract",
    );
}

#[test]
fn a_patch_of_the_contract_is_no_other_version() {
    let wit = changed_contract("package polylet:policy@0.1.0", "package polylet:policy@0.1.9");
    let module = bare("", &format!("{ABOUT}{RESTART}")).replace("@0.1.0", "@0.1.9");
    assert!(check(&component(&wit, "restart-policy", &module)).is_ok());
}

#[test]
fn a_policy_says_who_it_is_and_answers_something() {
    let wit =
        changed_contract("world restart-policy { include imports; export about;", "world restart-policy { include imports;");
    check_contract(
        &component(&wit, "restart-policy", &bare("", RESTART)),
        "does not export polylet:policy/about, which every policy does",
    );
    let wit = changed_contract("export about; export restart; }", "export about; }");
    check_contract(
        &component(&wit, "restart-policy", &bare("", ABOUT)),
        "exports no hook; a policy exports at least one of restart, probe, qos, eviction",
    );
}

#[test]
fn what_is_no_component_says_so() {
    let magic = "is not a WebAssembly component: it does not begin with the bytes 00 61 73 6d, as WebAssembly does";
    check_contract(b"", magic);
    check_contract(b"#!/bin/sh\n", magic);
    check_contract(
        &wat::parse_str("(module)").unwrap(),
        "is a core WebAssembly module; a policy is a component (make one with `wasm-tools component new`)",
    );
    check_contract(&vec![0; COMPONENT_MAX + 1], "is 33554433 bytes long; a policy may have 33554432");
    let whole = built("default");
    for end in [9, 100, whole.len() / 2, whole.len() - 1] {
        assert!(check(&whole[..end]).is_err(), "cut at {end}");
    }
}

/// Any byte may be any other: the decoder says no, or the component is one, but it does not take the agent with it.
#[test]
fn damaged_components_are_refused_or_are_components() {
    let whole = built("gentle-restart");
    let mut random = 1u64;
    for _ in 0..2_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut damaged = whole.clone();
        let at = (random >> 33) as usize % damaged.len();
        damaged[at] ^= (random >> 16) as u8 | 1;
        let _ = check(&damaged);
    }
}

#[test]
fn a_component_is_bound_to_a_hook_that_it_has() {
    let mut spec = spec(guest::waits(1));
    spec.hook = Some(Hook::Eviction);
    let error = host().load(&spec).err().unwrap();
    assert_eq!(whole(&error), "the component does not export polylet:policy/eviction; it can be bound to restart");
}

#[test]
fn the_digest_is_the_one_of_the_binding() {
    let mut spec = spec(guest::waits(1));
    spec.digest = Some(polylet_policy::digest_of(b"another"));
    let error = whole(&host().load(&spec).err().unwrap());
    assert!(error.starts_with("the component is sha256:") && error.contains(", the binding wants sha256:"), "{error}");
}

#[test]
fn a_policy_may_refuse_its_configuration() {
    let mut spec = spec(built("default"));
    spec.config = json!({ "delay": 5 });
    let error = host().load(&spec).err().unwrap();
    assert_eq!(
        whole(&error),
        "the policy refuses its configuration: unknown field `delay`; the default policy has no configuration"
    );
}

#[test]
fn a_trial_that_fails_names_the_call() {
    let host = host();
    let traps = guest::restart("", "(func $start unreachable) (start $start)", "(call $wait (i64.const 1))");
    check_load(&host, traps, "instantiation failed on trial: trap: wasm trap: wasm `unreachable` instruction executed");
    let never = guest::restart("", "(func $start (loop (br 0))) (start $start)", "(call $wait (i64.const 1))");
    check_load(&host, never, "instantiation failed on trial: fuel: spent its budget of 200000000 fuel");
}

#[test]
fn what_is_costly_to_compile_is_cut_off_in_time() {
    let costly = built("hostile/costly");
    let check = |limits: CompileLimits, expected: fn(&Costly) -> bool| {
        let cache = tempfile::tempdir().unwrap();
        let host = host_with(|settings| {
            settings.compiler.limits = limits;
            settings.cache = cache.path().join("cache");
        });
        match host.load(&spec(costly.clone())).err().unwrap() {
            LoadError::Compile(CompileError::TooCostly { limit }) if expected(&limit) => {}
            other => panic!("{}", whole(&other)),
        }
    };
    let ample = compiler().limits;
    check(CompileLimits { wall: Duration::from_millis(300), ..ample }, |limit| matches!(limit, Costly::Wall(_)));
    check(CompileLimits { cpu: Duration::from_secs(1), ..ample }, |limit| matches!(limit, Costly::Cpu(_)));
    check(CompileLimits { memory: 96 << 20, ..ample }, |limit| matches!(limit, Costly::Memory(_)));
}

#[test]
fn a_compiler_that_cannot_be_started_is_named() {
    let host = host_with(|settings| {
        settings.compiler.command = "/nonexistent/compiler".into();
        settings.cache = settings.cache.with_file_name("policy-cache-empty");
    });
    let error = whole(&host.load(&spec(guest::waits(77))).err().unwrap());
    assert_eq!(error, "the component start the compiler /nonexistent/compiler: No such file or directory (os error 2)");
}
