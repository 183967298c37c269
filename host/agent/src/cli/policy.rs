//! `polylet policy …`: what is bound, and how to bind something else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Subcommand;
use polylet_core::question::{Hook, Question};
use polylet_policy::{Install, LimitSpec, LoadSpec, LoadedPolicy, PolicyHost, Settings, Source, default_component, scan};
use polylet_server::AdminClient;
use serde_json::{Value, json};

use super::{AskArgs, Output, hook, print, show};

/// Commands about policies.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the ladder of every hook, best rung first
    List {
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Check a component, or everything in a policy directory, without binding it
    Check {
        /// A component, or a directory of bindings
        path: PathBuf,
        /// Hook that it must answer for
        #[arg(long, value_parser = hook)]
        hook: Option<Hook>,
        /// Configuration that it must accept, as JSON
        #[arg(long, default_value = "{}")]
        config: String,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Bind a component to a hook, in place of what is bound now
    Load {
        /// The component
        component: PathBuf,
        /// Hook to bind it to
        #[arg(long, value_parser = hook)]
        hook: Hook,
        /// Name of the binding; the component's own name where nothing is said
        #[arg(long)]
        name: Option<String>,
        /// Its configuration, as JSON
        #[arg(long, default_value = "{}")]
        config: String,
        #[command(flatten)]
        place: Place,
    },
    /// Bring back what was bound to a hook before the last change
    Revert {
        /// The hook
        #[arg(value_parser = hook)]
        hook: Hook,
        #[command(flatten)]
        place: Place,
    },
    /// Bind nothing to a hook: the default policy answers
    Unbind {
        /// The hook
        #[arg(value_parser = hook)]
        hook: Hook,
        #[command(flatten)]
        place: Place,
    },
    /// Show decisions, the newest last
    Log {
        /// Go on with those to come
        #[arg(short, long)]
        follow: bool,
        /// Of one hook
        #[arg(long, value_parser = hook)]
        hook: Option<Hook>,
        /// The newest so many
        #[arg(long, default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Ask a policy one question, without a node: JSON in, JSON out
    Ask {
        /// Hook that the question belongs to
        #[arg(value_parser = hook)]
        hook: Hook,
        /// File with the question, `-` for standard input
        #[arg(long)]
        input: PathBuf,
        /// Component to ask, instead of the default policy
        #[arg(long)]
        policy: Option<PathBuf>,
        /// Its configuration, as JSON
        #[arg(long, default_value = "{}")]
        config: String,
    },
}

/// Where bindings lie.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// Directory of bindings
    #[arg(long, env = "POLYLET_POLICY_DIR", default_value = "/var/lib/kubelet/policies")]
    policy_dir: PathBuf,
    #[command(flatten)]
    ask: AskArgs,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List { ask } => {
            let policies = AdminClient::new(&ask.socket).get("/v1/policies").await?;
            print(&ask, &policies, show::policies)
        }
        Command::Check { path, hook, config, output } => check(&path, hook, &config, output),
        Command::Load { component, hook, name, config, place } => load(&component, hook, name, &config, &place).await,
        Command::Revert { hook, place } => {
            let before = polylet_policy::revert(&place.policy_dir, hook)?;
            let what = before.map_or("nothing: the default answers".to_owned(), |b| format!("{} ({})", b.name, b.digest));
            changed(&place, hook, json!({"reverted": hook.as_str(), "bound": what})).await
        }
        Command::Unbind { hook, place } => {
            let gone = polylet_policy::unbind(&place.policy_dir, hook)?;
            changed(&place, hook, json!({"unbound": hook.as_str(), "was": gone.name})).await
        }
        Command::Log { follow, hook, limit, ask } => log(follow, hook, limit, &ask).await,
        Command::Ask { hook, input, policy, config } => question(hook, &input, policy.as_deref(), &config),
    }
}

fn check(path: &Path, hook: Option<Hook>, config: &str, output: Output) -> anyhow::Result<()> {
    let (report, bad) = if path.is_dir() {
        let found = scan(path).with_context(|| format!("read {}", path.display()))?;
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        let bindings: Vec<Value> = found
            .bindings
            .iter()
            .map(|b| json!({"name": b.name, "hook": b.hook.as_str(), "digest": b.digest.as_str()}))
            .collect();
        (json!({"bindings": bindings, "errors": errors}), !errors.is_empty())
    } else {
        let policy = loaded(&host()?, path, hook, config)?;
        let said = policy.description();
        let hooks: Vec<&str> = policy.hooks().iter().map(|h| h.as_str()).collect();
        let report = json!({
            "digest": policy.digest().as_str(), "name": said.name, "version": said.version,
            "summary": said.summary, "hooks": hooks,
        });
        (report, false)
    };
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Text => {
            for (key, value) in report.as_object().into_iter().flatten() {
                println!("{key}: {value}");
            }
        }
    }
    if bad { bail!("not everything in {} can be bound", path.display()) } else { Ok(()) }
}

async fn load(component: &Path, hook: Hook, name: Option<String>, config: &str, place: &Place) -> anyhow::Result<()> {
    // Whatever would be refused is refused here, with nothing changed.
    let bytes = std::fs::read(component).with_context(|| format!("read {}", component.display()))?;
    let source = Source::Bytes(bytes.as_slice().into());
    let policy =
        host()?.load(&spec("policy", source, Some(hook), json_of(config)?)).with_context(|| component.display().to_string())?;
    let name = name.unwrap_or_else(|| policy.description().name.clone());
    let config = json_of(config)?;
    let install = Install { name: &name, hook, component: &bytes, config, limits: LimitSpec::default() };
    let binding = polylet_policy::install(&place.policy_dir, &install)?;
    changed(place, hook, json!({"loaded": name, "hook": hook.as_str(), "digest": binding.digest.as_str()})).await
}

/// The directory has changed: an agent that runs is asked to read it now, and says what it thinks of it.
async fn changed(place: &Place, hook: Hook, mut report: Value) -> anyhow::Result<()> {
    let began = Instant::now();
    match AdminClient::new(&place.ask.socket).post("/v1/policies/reload").await {
        Ok(answer) => {
            report["generation"] = answer["generation"].clone();
            report["boundAfterMs"] = json!(began.elapsed().as_secs_f64() * 1000.0);
            let errors: Vec<&str> = answer["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if !errors.is_empty() {
                report["errors"] = json!(errors);
            }
        }
        Err(polylet_server::ClientError::NotThere { .. }) => {
            report["note"] = json!("no agent runs here: bound at its next start")
        }
        Err(error) => return Err(error).with_context(|| format!("{} was changed in the directory", hook.as_str())),
    }
    print(&place.ask, &report, |report| {
        report.as_object().into_iter().flatten().map(|(key, value)| format!("{key}: {value}\n")).collect()
    })
}

async fn log(follow: bool, hook: Option<Hook>, limit: usize, ask: &AskArgs) -> anyhow::Result<()> {
    let mut path = format!("/v1/decisions?limit={limit}&follow={follow}");
    if let Some(hook) = hook {
        path += &format!("&hook={}", hook.as_str());
    }
    let mut lines = AdminClient::new(&ask.socket).lines(&path).await?;
    while let Some(line) = lines.recv().await {
        let line = line?;
        match ask.output {
            Output::Json => println!("{line}"),
            Output::Text => println!("{}", show::decision(&line)),
        }
    }
    Ok(())
}

fn question(hook: Hook, input: &Path, policy: Option<&Path>, config: &str) -> anyhow::Result<()> {
    let text = match input.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()).context("read standard input")?,
        _ => std::fs::read_to_string(input).with_context(|| format!("read {}", input.display()))?,
    };
    let question: Question = serde_json::from_str(&text)
        .with_context(|| format!("{}: not a question; see `polylet policy log -o json` for the form", input.display()))?;
    if question.body.hook() != hook {
        bail!("{}: a question to {}, not to {}", input.display(), question.body.hook().as_str(), hook.as_str());
    }
    let host = host()?;
    let loaded = match policy {
        Some(path) => loaded(&host, path, Some(hook), config)?,
        None => {
            let bytes = default_component().context("built without the default component: name one with --policy")?;
            host.load(&spec("default", Source::Bytes(bytes.into()), Some(hook), json!({})))?
        }
    };
    let asked = host.ask_policy(&loaded, &Arc::new(question));
    println!("{}", serde_json::to_string_pretty(&asked.verdict)?);
    match asked.verdict.answer {
        Ok(_) => Ok(()),
        Err(failure) => bail!("{failure}"),
    }
}

/// A policy that could be bound: checked, compiled, tried.
fn loaded(host: &PolicyHost, component: &Path, hook: Option<Hook>, config: &str) -> anyhow::Result<LoadedPolicy> {
    host.load(&spec("policy", Source::File(component.to_owned()), hook, json_of(config)?))
        .with_context(|| component.display().to_string())
}

fn spec(name: &str, component: Source, hook: Option<Hook>, config: Value) -> LoadSpec {
    LoadSpec { name: name.to_owned(), component, digest: None, hook, config, limits: LimitSpec::default() }
}

fn json_of(text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text).with_context(|| format!("--config {text}: not JSON"))
}

/// A host of this command's own, with a cache where its user keeps such things.
fn host() -> anyhow::Result<PolicyHost> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    // Without a home, as services have none: told apart by user, since the host accepts only a directory of its own user.
    let user = rustix::process::geteuid().as_raw();
    let cache =
        caches.map_or_else(|| std::env::temp_dir().join(format!("polylet-policies-{user}")), |dir| dir.join("polylet/policies"));
    Ok(PolicyHost::new(Settings::new(cache))?)
}
