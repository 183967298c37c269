//! Figures of the policy host, as one JSON object: what a call costs, how a ranking by a component compares with the same ranking
//! linked natively, and how long a swap takes. Run with `cargo run --release -p polylet-policy --example bench [COMPONENT]`; the default
//! component is measured where none is given.

#[path = "../tests/common/questions.rs"]
mod questions;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polylet_core::ask::native;
use polylet_core::question::{Hook, Question};
use polylet_policy::{
    CHILD_ARGUMENT, Install, LimitSpec, LoadSpec, LoadedPolicy, PolicyHost, Settings, Source, compile_child_main,
    default_component, install, scan,
};
use serde_json::{Value, json};

const CALLS: usize = 20_000;
const RANKINGS: usize = 1_000;
const SWAPS: usize = 200;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == CHILD_ARGUMENT) {
        return compile_child_main();
    }
    let given = std::env::args_os().nth(1).map(|path| std::fs::read(path).expect("the component given"));
    let Some(component) = given.as_deref().or(default_component()) else {
        eprintln!("built without the default component: run policies/build.sh first, or name a component");
        return ExitCode::FAILURE;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    let host = PolicyHost::new(Settings::new(&cache)).expect("a host");
    let compiled = Instant::now();
    let default = host.load(&spec(component)).expect("the default component loads");
    let compile = compiled.elapsed();

    let mut figures = json!({ "compile_ms": compile.as_secs_f64() * 1e3 });
    for question in questions::all() {
        let name = match question.body.hook() {
            Hook::Restart => "policy_call_us".to_owned(),
            Hook::Eviction => continue,
            hook => format!("policy_call_{}_us", hook.as_str()),
        };
        record(&mut figures, &name, call(&host, &default, &question));
    }
    ranking(&mut figures, &host, &default);
    record(&mut figures, "swap_us", swaps(folder.path(), &cache, component));
    println!("{figures:#}");
    ExitCode::SUCCESS
}

fn spec(component: &[u8]) -> LoadSpec {
    LoadSpec {
        name: "bench".into(),
        component: Source::Bytes(component.into()),
        digest: None,
        hook: None,
        config: json!({}),
        limits: LimitSpec::default(),
    }
}

fn call(host: &PolicyHost, policy: &LoadedPolicy, question: &Arc<Question>) -> Vec<Duration> {
    let one = |_| {
        let began = Instant::now();
        let asked = host.ask_policy(policy, question);
        let took = began.elapsed();
        assert!(asked.verdict.answer.is_ok(), "{:?}", asked.verdict);
        took
    };
    (0..CALLS / 10).for_each(|i| assert!(one(i) > Duration::ZERO));
    (0..CALLS).map(one).collect()
}

/// Both by turns, so that what else the machine does hits both; the ratio is that of the medians of pairs.
fn ranking(figures: &mut Value, host: &PolicyHost, policy: &LoadedPolicy) {
    let question = questions::rank(1_000);
    let (mut component, mut linked, mut ratios, mut fuel) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for round in 0..RANKINGS + RANKINGS / 10 {
        let began = Instant::now();
        let asked = host.ask_policy(policy, &question);
        let by_component = began.elapsed();
        let began = Instant::now();
        let answer = native(&question);
        let by_link = began.elapsed();
        assert_eq!(asked.verdict.answer.as_ref(), Ok(&Some(answer)));
        fuel = asked.verdict.fuel;
        if round >= RANKINGS / 10 {
            component.push(by_component);
            linked.push(by_link);
            ratios.push(by_component.as_secs_f64() / by_link.as_secs_f64());
        }
    }
    ratios.sort_by(f64::total_cmp);
    figures["rank_1000_ratio"] = json!(ratios[ratios.len() / 2]);
    figures["rank_1000_ratio_p90"] = json!(ratios[ratios.len() * 9 / 10]);
    figures["rank_1000_fuel"] = json!(fuel);
    record(figures, "rank_1000_component_us", component);
    record(figures, "rank_1000_native_us", linked);
}

/// A binding is there, its component was compiled once: from the scan of the directory to the new bindings, by a host that has
/// never seen the component.
fn swaps(folder: &Path, cache: &Path, component: &[u8]) -> Vec<Duration> {
    let directory = folder.join("policies");
    let bind = |round: usize| {
        let config = json!({});
        let name = ["a", "b"][round % 2];
        let (hook, limits) = (Hook::Restart, LimitSpec::default());
        install(&directory, &Install { name, hook, component, config, limits }).expect("it is installed");
    };
    let swap = |round| {
        let host = PolicyHost::new(Settings::new(cache)).expect("a host");
        bind(round);
        let began = Instant::now();
        let applied = host.apply(&scan(&directory).expect("it is there"));
        let took = began.elapsed();
        assert!(applied.changed && applied.errors.is_empty(), "{applied:?}");
        took
    };
    (0..SWAPS).map(swap).collect()
}

fn record(figures: &mut Value, name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| json!(times[times.len() * share / 100].as_secs_f64() * 1e6);
    figures[name] = at(50);
    figures[format!("{name}_p10")] = at(10);
    figures[format!("{name}_p90")] = at(90);
}
