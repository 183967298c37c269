//! The command line: one place that knows all commands. Each prints for people, or JSON with `-o json`.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use polylet_core::question::Hook;
use polylet_server::AdminClient;
use serde_json::Value;

mod exec;
mod pod;
mod policy;
mod question;
mod show;

use crate::config::{self, Loaded};
use crate::flags::{self, Flags};
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
        /// Of this namespace only
        #[arg(short, long, value_parser = pod::name)]
        namespace: Option<String>,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Show all that is known of a pod: as kubectl describe does, and what the node knows beside it
    Describe(pod::DescribeArgs),
    /// Show what has happened lately: the newest events of each pod and of the node, since the agent started
    Events(pod::EventsArgs),
    /// Show what a container printed, to both of its outputs
    ///
    /// It is read out of the log of the attempt that runs, or that ran last. What was rotated away is not shown.
    Logs(pod::LogsArgs),
    /// Run a command in a container
    ///
    /// Its exit code becomes this program's; where the command cannot be run, that is 1, and standard error says why.
    ///
    /// Without -i the command has no input. With it, the command's input ends with this program's; with -t the terminal ends it (Ctrl-D).
    /// With -t what the command writes to its two outputs comes as one.
    ///
    /// The agent speaks SPDY/3.1 to the runtime, as the kubelet does: the WebSocket streams of today's runtimes (version 4) cannot say
    /// that an input has ended. A command that ends with megabytes of its input unread may keep containerd from saying that it has:
    /// interrupt this program then.
    Exec(exec::ExecArgs),
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
        flags: Flags,
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

/// Where an agent listens.
#[derive(Args, Clone)]
pub(crate) struct SocketArgs {
    /// Administration socket of the agent
    #[arg(long, env = "POLYLET_SOCKET", default_value = "/var/lib/kubelet/polylet.sock")]
    pub(crate) socket: PathBuf,
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
    /// For people, with every column
    Wide,
    /// For tools
    Json,
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    flags: Flags,
}

/// Runs one command.
pub fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(polylet_policy::CHILD_ARGUMENT) {
        return polylet_policy::compile_child_main();
    }
    let cli = Cli::parse_from(flags::normalize(std::env::args_os()));
    let done = match cli.command {
        Command::Run(args) => run(&args).map(|()| ExitCode::SUCCESS),
        Command::Exec(args) => runtime(1).and_then(|rt| rt.block_on(exec::exec(args))),
        other => runtime(1).and_then(|rt| rt.block_on(ask(other))).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // Nobody may be left to read it.
            let _ = writeln!(std::io::stderr(), "Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &RunArgs) -> anyhow::Result<()> {
    let Loaded { settings, warnings } = config::load(&args.flags)?;
    log(&settings);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let runtime = runtime(2)?;
    let ended = runtime.block_on(crate::run::run(settings));
    // A call that blocks for ever must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn ask(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(_) | Command::Exec(_) => bail!("not a question"),
        Command::Pods { namespace, ask } => {
            let mut pods = AdminClient::new(&ask.socket).get("/v1/pods").await?;
            if let (Some(namespace), Some(pods)) = (namespace, pods.as_array_mut()) {
                let others = pods.len();
                pods.retain(|pod| pod["namespace"] == namespace.as_str());
                if pods.is_empty() && ask.output != Output::Json {
                    eprintln!("there is no pod in namespace {namespace:?}; there are {others} in others");
                }
            }
            let now = jiff::Timestamp::now();
            print(&ask, &pods, |pods| show::pods(pods, now, ask.output == Output::Wide))
        }
        Command::Node { ask } => {
            let node = AdminClient::new(&ask.socket).get("/v1/node").await?;
            print(&ask, &node, show::node)
        }
        Command::Describe(args) => pod::describe(args).await,
        Command::Events(args) => pod::events(args).await,
        Command::Logs(args) => pod::logs(args).await,
        Command::Policy(command) => policy::run(command).await,
        Command::Explain { manifest, flags, output } => {
            let explained = crate::explain::explain(&manifest, &config::load(&flags)?)?;
            show(output, &explained, show::explained)
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
fn print(ask: &AskArgs, value: &Value, text: impl FnOnce(&Value) -> String) -> anyhow::Result<()> {
    show(ask.output, value, text)
}

fn show(output: Output, value: &Value, text: impl FnOnce(&Value) -> String) -> anyhow::Result<()> {
    match output {
        Output::Json => out(&(serde_json::to_string_pretty(value)? + "\n")),
        Output::Text | Output::Wide => out(&text(value)),
    }
}

/// Writes to standard output.
fn out(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// What came of writing to standard output. A reader that has had enough ends this program without a word, as it ends others: with the
/// status that the shell shows for the signal SIGPIPE.
fn written(done: std::io::Result<()>) -> anyhow::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(128 + 13),
        done => done.context("write to standard output"),
    }
}

fn hook(text: &str) -> Result<Hook, String> {
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
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    // A second subscriber in one process is a mistake of a test, not of the operator.
    let _already = if settings.log_json { builder.json().try_init() } else { builder.try_init() };
}
