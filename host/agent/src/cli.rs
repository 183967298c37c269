//! The command line: one place that knows all commands. Each prints for people, or JSON with `-o json`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use polylet_core::question::Hook;
use polylet_server::AdminClient;
use serde_json::Value;

mod policy;
mod show;

use crate::settings::Settings;

/// A Kubernetes node agent whose judgements are Wasm policies.
#[derive(Parser)]
#[command(name = "polylet", version, about, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the agent on this node until it is told to stop; pods keep running
    Run(RunArgs),
    /// Show the pods of this node
    Pods {
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Show the node
    Node {
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Policies: what is bound, and how to bind something else
    #[command(subcommand)]
    Policy(policy::Command),
    /// Show what this node would do with a pod: its defaults, class, cgroup and the messages to the runtime
    Explain {
        /// A manifest, YAML or JSON
        manifest: PathBuf,
        #[command(flatten)]
        config: ConfigArgs,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show versions of the agent and, where one runs, of its runtime
    Version {
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// Where an agent listens, and how to print.
#[derive(Args, Clone)]
pub(crate) struct AskArgs {
    /// Administration socket of the agent
    #[arg(long, env = "POLYLET_SOCKET", default_value = "/var/lib/kubelet/polylet.sock")]
    pub(crate) socket: PathBuf,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Text,
    /// For tools
    Json,
}

/// What configures the agent.
#[derive(Args, Clone)]
pub(crate) struct ConfigArgs {
    /// KubeletConfiguration (kubelet.config.k8s.io/v1beta1), YAML or JSON
    #[arg(long)]
    config: Option<PathBuf>,
    /// PolyletConfiguration (polylet.io/v1alpha1), YAML or JSON
    #[arg(long)]
    polylet_config: Option<PathBuf>,
    /// Directory of pods' files and of the agent's own
    #[arg(long, default_value = "/var/lib/kubelet")]
    root_dir: PathBuf,
    /// Name of the node, instead of the machine's
    #[arg(long)]
    hostname_override: Option<String>,
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs one command.
pub fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(polylet_policy::CHILD_ARGUMENT) {
        return polylet_policy::compile_child_main();
    }
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Run(args) => run(&args),
        other => runtime(1).and_then(|rt| rt.block_on(ask(other))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &RunArgs) -> anyhow::Result<()> {
    let settings = settings(&args.config)?;
    log(&settings);
    runtime(2)?.block_on(crate::run::run(settings))
}

async fn ask(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(_) => bail!("run is not a question"),
        Command::Pods { ask } => {
            let pods = AdminClient::new(&ask.socket).get("/v1/pods").await?;
            print(&ask, &pods, show::pods)
        }
        Command::Node { ask } => {
            let node = AdminClient::new(&ask.socket).get("/v1/node").await?;
            print(&ask, &node, show::node)
        }
        Command::Policy(command) => policy::run(command).await,
        Command::Explain { manifest, config, output } => {
            let settings = settings(&config)?;
            let explained = crate::explain::explain(&manifest, &settings)?;
            match output {
                Output::Json => println!("{}", serde_json::to_string_pretty(&explained)?),
                Output::Text => print!("{}", show::explained(&explained)),
            }
            Ok(())
        }
        Command::Version { ask } => {
            let runtime = AdminClient::new(&ask.socket).get("/v1/version").await.ok();
            let own = env!("CARGO_PKG_VERSION");
            let value = serde_json::json!({"polylet": own, "agent": runtime});
            print(&ask, &value, |_| {
                let agent = runtime.as_ref().map(|v| format!("runtime {}\n", v["runtime"].as_str().unwrap_or("?")));
                format!("polylet {own}\n{}", agent.unwrap_or_default())
            })
        }
    }
}

/// Prints a value, as the arguments want it.
pub(crate) fn print(ask: &AskArgs, value: &Value, text: impl FnOnce(&Value) -> String) -> anyhow::Result<()> {
    match ask.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(value)?),
        Output::Text => print!("{}", text(value)),
    }
    Ok(())
}

pub(crate) fn hook(text: &str) -> Result<Hook, String> {
    Hook::ALL
        .into_iter()
        .find(|hook| hook.as_str() == text)
        .ok_or_else(|| format!("{text:?} is not a hook; hooks are restart, probe, qos, eviction"))
}

fn runtime(threads: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("start the asynchronous runtime")
}

fn log(settings: &Settings) {
    let level = match settings.verbosity {
        0..=3 => "info",
        4..=7 => "debug",
        _ => "trace",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("POLYLET_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(format!("{level},h2=warn,hyper=warn,tonic=warn")));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber in one process is a mistake of a test, not of the operator.
    let _already = if settings.log_json { builder.json().try_init() } else { builder.try_init() };
}

fn settings(args: &ConfigArgs) -> anyhow::Result<Settings> {
    let name = match &args.hostname_override {
        Some(name) => name.trim().to_lowercase(),
        None => rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase(),
    };
    let mut settings = Settings::below(&args.root_dir, &name);
    if let Some(path) = &args.config {
        interim(&mut settings, path)?;
    }
    Ok(settings)
}

fn interim(settings: &mut Settings, path: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let value: Value = serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(path) = text("staticPodPath") {
        settings.static_pod_path = Some(path.into());
    }
    if let Some(dir) = text("podLogsDir") {
        settings.paths.container_logs = PathBuf::from(&dir).with_file_name("containers");
        settings.paths.pod_logs = dir.into();
    }
    if let Some(endpoint) = text("containerRuntimeEndpoint") {
        settings.runtime_endpoint = endpoint;
    }
    if let Some(root) = text("cgroupRoot") {
        settings.cgroup_root = root;
    }
    if let Some(port) = value.get("healthzPort").and_then(Value::as_u64) {
        settings.health = u16::try_from(port).ok().filter(|p| *p > 0).map(|p| ([127, 0, 0, 1], p).into());
    }
    if let Some(fail) = value.get("failCgroupV1").and_then(Value::as_bool) {
        settings.fail_cgroup_v1 = fail;
    }
    if let Some(fail) = value.get("failSwapOn").and_then(Value::as_bool) {
        settings.fail_swap_on = fail;
    }
    Ok(())
}
