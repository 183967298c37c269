//! `polylet policy …`: what is bound, and how to bind something else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Subcommand;
use polylet_core::question::Hook;
use polylet_policy::limits::{bytes_of, duration_of};
use polylet_policy::{
    Install, LimitSpec, LoadSpec, LoadedPolicy, PolicyHost, Settings, Source, check_limits, default_component, read_component,
    scan,
};
use polylet_server::AdminClient;
use serde_json::{Value, json};

use super::{AskArgs, Output, hook, out, print, question, show};

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
    Load(LoadArgs),
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
        /// File with the question, or with a decision record that holds one; `-` for standard input
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

/// What to bind.
#[derive(clap::Args)]
pub(crate) struct LoadArgs {
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
    // The last: whatever stands behind it would come under its heading.
    #[command(flatten)]
    limits: LimitArgs,
}

/// What one call may use. Where nothing is said, a binding of the same name keeps its limits, and another gets its hook's.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits of one call [default: those of the binding that is replaced, where it has the same name]")]
struct LimitArgs {
    /// Fuel: about one unit for each instruction
    #[arg(long)]
    fuel: Option<u64>,
    /// Time, such as 250ms or 1s
    #[arg(long, value_parser = |text: &str| duration_of(text).ok_or("not a duration such as 250ms or 1s"))]
    timeout: Option<Duration>,
    /// Memory in bytes, such as 8Mi
    #[arg(long, value_parser = |text: &str| {
        bytes_of(text).and_then(|n| usize::try_from(n).ok()).ok_or("not a number of bytes such as 65536, 64Ki or 8Mi")
    })]
    memory: Option<usize>,
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
        Command::Load(args) => load(args).await,
        Command::Revert { hook, place } => {
            check_place(&place).await?;
            let before = polylet_policy::revert(&place.policy_dir, hook)?;
            let what = before.map_or("nothing: the default answers".to_owned(), |b| format!("{} ({})", b.name, b.digest));
            changed(&place, hook, json!({"reverted": hook.as_str(), "bound": what})).await
        }
        Command::Unbind { hook, place } => {
            check_place(&place).await?;
            let gone = polylet_policy::unbind(&place.policy_dir, hook)?;
            changed(&place, hook, json!({"unbound": hook.as_str(), "was": gone.name})).await
        }
        Command::Log { follow, hook, limit, ask } => log(follow, hook, limit, &ask).await,
        Command::Ask { hook, input, policy, config } => ask(hook, &input, policy.as_deref(), &config),
    }
}

fn check(path: &Path, hook: Option<Hook>, config: &str, output: Output) -> anyhow::Result<()> {
    if path.is_dir() {
        return check_directory(path, output);
    }
    let policy = match loaded(&host()?, path, hook, config) {
        Ok(policy) => policy,
        Err(error) => {
            // People read it on standard error.
            if output == Output::Json {
                super::show(output, &json!({"ok": false, "error": format!("{error:#}")}), lines)?;
            }
            return Err(error);
        }
    };
    let said = policy.description();
    let hooks: Vec<&str> = policy.hooks().iter().map(|h| h.as_str()).collect();
    let report = json!({
        "ok": true, "digest": policy.digest().as_str(), "name": said.name, "version": said.version,
        "summary": said.summary, "hooks": hooks,
    });
    super::show(output, &report, lines)
}

/// Does with each binding what the agent would do, short of binding it.
fn check_directory(path: &Path, output: Output) -> anyhow::Result<()> {
    let found = scan(path).with_context(|| format!("read {}", path.display()))?;
    let tried = host()?.try_out(&found);
    let mut errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    let mut bindings = Vec::new();
    for (binding, tried) in found.bindings.iter().zip(tried) {
        let mut row = json!({"name": binding.name, "hook": binding.hook.as_str(), "digest": binding.digest.as_str()});
        match tried {
            Ok(policy) => {
                row["ok"] = json!(true);
                row["policy"] = json!(policy.description());
            }
            Err(error) => {
                row["ok"] = json!(false);
                errors.push(error.to_string());
            }
        }
        bindings.push(row);
    }
    let bad = !errors.is_empty();
    super::show(output, &json!({"bindings": bindings, "errors": errors}), show::checked)?;
    if bad { bail!("not everything in {} can be bound", path.display()) } else { Ok(()) }
}

async fn load(args: LoadArgs) -> anyhow::Result<()> {
    let LoadArgs { component, hook, name, config, limits, place } = args;
    let given = LimitSpec { fuel: limits.fuel, timeout: limits.timeout, memory: limits.memory, ..LimitSpec::default() };
    let config = json_of(&config)?;
    check_limits(&given, hook)?;
    // Whatever would be refused is refused here, with nothing changed.
    let bytes = read_component(&component)?;
    let source = Source::Bytes(bytes.as_slice().into());
    let spec = LoadSpec { limits: given, ..spec("policy", source, Some(hook), config.clone()) };
    let policy = host()?.load(&spec).with_context(|| component.display().to_string())?;
    check_place(&place).await?;
    let name = name.unwrap_or_else(|| policy.description().name.clone());
    let install = Install { name: &name, hook, component: &bytes, config, limits: given };
    let binding = polylet_policy::install(&place.policy_dir, &install)?;
    let mut report = json!({"loaded": name, "hook": hook.as_str(), "digest": binding.digest.as_str()});
    if binding.limits != LimitSpec::default() {
        report["limits"] = Value::Object(binding.limits.written());
    }
    if binding.limits != given {
        report["note"] = json!("limits that were not given are kept from the binding of this name");
    }
    changed(&place, hook, report).await
}

/// What is written into a directory that the agent does not read would count for nothing, and look as if it did.
async fn check_place(place: &Place) -> anyhow::Result<()> {
    let Ok(policies) = AdminClient::new(&place.ask.socket).get("/v1/policies").await else { return Ok(()) };
    let Some(read) = policies["directory"].as_str().map(Path::new) else { return Ok(()) };
    let same = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if same(read) != same(&place.policy_dir) {
        bail!(
            "the agent at {} reads its bindings from {}, not from {}: name that with --policy-dir or POLYLET_POLICY_DIR",
            place.ask.socket.display(),
            read.display(),
            place.policy_dir.display()
        );
    }
    Ok(())
}

/// The directory has changed: an agent that runs is asked to read it now, and says what it thinks of it.
async fn changed(place: &Place, hook: Hook, mut report: Value) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut refused = false;
    match AdminClient::new(&place.ask.socket).post(&format!("/v1/policies/reload?hook={}", hook.as_str())).await {
        Ok(answer) => {
            let concerns = |refused: &Value| refused["hooks"].as_array().is_some_and(|hooks| hooks.contains(&json!(hook)));
            let of_name = |refused: &Value| !report["loaded"].is_null() && refused["binding"] == report["loaded"];
            refused = answer["refused"].as_array().into_iter().flatten().any(|one| concerns(one) || of_name(one));
            report["generation"] = answer["generation"].clone();
            report["boundAfterMs"] = json!((began.elapsed().as_secs_f64() * 1e5).round() / 100.0);
            let errors: Vec<&str> = answer["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if !errors.is_empty() {
                report["errors"] = json!(errors);
            }
        }
        Err(polylet_server::ClientError::NotThere { .. }) => {
            report["agent"] = json!("none runs here: this counts from its next start")
        }
        Err(error) => return Err(error).with_context(|| format!("{} was changed in the directory", hook.as_str())),
    }
    print(&place.ask, &report, lines)?;
    if refused { bail!("the agent refuses a binding for {}; what it had bound stays", hook.as_str()) } else { Ok(()) }
}

/// The fields of a report, one a line.
fn lines(report: &Value) -> String {
    report.as_object().into_iter().flatten().map(|(key, value)| format!("{key}: {value}\n")).collect()
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
            Output::Json => out(&(line + "\n"))?,
            Output::Text | Output::Wide => out(&(show::decision(&line) + "\n"))?,
        }
    }
    Ok(())
}

fn ask(hook: Hook, input: &Path, policy: Option<&Path>, config: &str) -> anyhow::Result<()> {
    let question = question::read(input, hook)?;
    let host = host()?;
    let loaded = match policy {
        Some(path) => loaded(&host, path, Some(hook), config)?,
        None => {
            let bytes = default_component().context("built without the default component: name one with --policy")?;
            host.load(&spec("default", Source::Bytes(bytes.into()), Some(hook), json!({})))?
        }
    };
    let asked = host.ask_policy(&loaded, &Arc::new(question));
    out(&(serde_json::to_string_pretty(&asked.verdict)? + "\n"))?;
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
