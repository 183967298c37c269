//! What a call of a policy costs, how a ranking by a component compares with the same ranking linked natively, and how long a swap
//! takes.

#[path = "../../../host/policy/tests/common/questions.rs"]
mod questions;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use polylet_core::ask::native;
use polylet_core::question::{Hook, Question};
use polylet_policy::{
    Install, LimitSpec, LoadSpec, LoadedPolicy, PolicyHost, Settings, Source, default_component, install, scan,
};
use serde_json::json;

use crate::figures::Figures;

const CALLS: usize = 20_000;
const RANKINGS: usize = 1_000;
const SWAPS: usize = 200;

/// Measures a component, the default one where none is given, with files below `folder`.
pub(crate) fn measure(figures: &mut Figures, given: Option<&Path>, folder: &Path) -> anyhow::Result<()> {
    let given = given.map(|path| std::fs::read(path).with_context(|| path.display().to_string())).transpose()?;
    let component = given.as_deref().or(default_component());
    let component = component.context("built without the default component: run policies/build.sh first, or name a component")?;
    let cache = folder.join("cache");
    let host = PolicyHost::new(Settings::new(&cache))?;
    let compiled = Instant::now();
    let default = host.load(&spec(component)).context("load the component")?;
    figures.put("policy_compile_ms", (compiled.elapsed().as_secs_f64() * 1e4).round() / 10.0);
    for question in questions::all() {
        let name = match question.body.hook() {
            Hook::Restart => "policy_call_us".to_owned(),
            Hook::Eviction => continue,
            hook => format!("policy_call_{}_us", hook.as_str()),
        };
        figures.micros(&name, &call(&host, &default, &question));
    }
    ranking(figures, &host, &default);
    figures.micros("swap_us", &swaps(folder, &cache, component)?);
    Ok(())
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
fn ranking(figures: &mut Figures, host: &PolicyHost, policy: &LoadedPolicy) {
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
    figures.spread("rank_1000_ratio", ratios);
    figures.put("rank_1000_fuel", fuel);
    figures.micros("rank_1000_component_us", &component);
    figures.micros("rank_1000_native_us", &linked);
}

/// A binding is there, its component was compiled once: from the scan of the directory to the new bindings, by a host that has
/// never seen the component.
fn swaps(folder: &Path, cache: &Path, component: &[u8]) -> anyhow::Result<Vec<Duration>> {
    let directory = folder.join("policies");
    let mut times = Vec::new();
    for round in 0..SWAPS {
        let host = PolicyHost::new(Settings::new(cache))?;
        let (name, hook, config, limits) = (["a", "b"][round % 2], Hook::Restart, json!({}), LimitSpec::default());
        install(&directory, &Install { name, hook, component, config, limits })?;
        let began = Instant::now();
        let applied = host.apply(&scan(&directory)?);
        times.push(began.elapsed());
        anyhow::ensure!(applied.changed && applied.errors.is_empty(), "{applied:?}");
    }
    Ok(times)
}
