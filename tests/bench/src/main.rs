//! Figures of the agent on a node of its own, and of the policy host: one flat JSON object on the standard output, progress on the
//! standard error. Needs root, and what `tests/lab/install.sh` installs.
//!
//! ```text
//! polylet-bench                       everything
//! polylet-bench start crowd           some parts: machine, policy, start, crowd
//! polylet-bench policy COMPONENT      the policy part, of this component
//! ```
//!
//! `POLYLET_BIN` is the agent to measure; the one beside this program where nothing is said.

mod agent;
mod crowd;
mod deaf;
mod figures;
mod machine;
mod node;
mod pods;
mod policy;
mod start;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};

use figures::Figures;
use node::Node;

const PARTS: &[&str] = &["machine", "policy", "start", "crowd"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|argument| argument == polylet_policy::CHILD_ARGUMENT) {
        return polylet_policy::compile_child_main();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (parts, component) = match arguments {
        [] => (PARTS.to_vec(), None),
        [part, component] if part == "policy" && !PARTS.contains(&component.as_str()) => {
            (vec!["policy"], Some(Path::new(component)))
        }
        parts => (parts.iter().map(String::as_str).collect(), None),
    };
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        bail!("there is no part {unknown:?}: parts are {}", PARTS.join(", "));
    }
    let began = Instant::now();
    let mut figures = Figures::default();
    let measured = measure(&mut figures, &parts, component);
    figures.put("bench_seconds", began.elapsed().as_secs());
    // What was measured before something failed is not lost.
    println!("{:#}", figures.into_json());
    measured
}

fn measure(figures: &mut Figures, parts: &[&str], component: Option<&Path>) -> anyhow::Result<()> {
    let wanted = |part: &str| parts.contains(&part);
    if wanted("machine") {
        machine::facts(figures)?;
    }
    if wanted("policy") {
        eprintln!("bench: policies");
        let folder = std::env::temp_dir().join(format!("polylet-bench-{}-policy", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let measured = policy::measure(figures, component, &folder);
        std::fs::remove_dir_all(&folder)?;
        measured?;
    }
    if wanted("start") || wanted("crowd") {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            tokio::select! {
                done = on_nodes(figures, wanted("start"), wanted("crowd")) => done,
                // The nodes go with the future.
                _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            }
        })?;
    }
    Ok(())
}

async fn on_nodes(figures: &mut Figures, start: bool, crowd: bool) -> anyhow::Result<()> {
    node::agent_binary()?;
    let node = Node::up("agent")?;
    let version = node.client.version().await?;
    figures.put("runtime", format!("{} {}", version.runtime_name, version.runtime_version));
    if start {
        eprintln!("bench: pods, by the agent and by bare calls");
        let bare = Node::up("bare")?;
        start::measure(figures, &node, &bare).await?;
    }
    if crowd {
        crowd::measure(figures, &node).await?;
    }
    Ok(())
}
