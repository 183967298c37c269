//! Why the network is not ready: the runtime says only that it is not, the CNI configuration shows more. And the CNI configuration
//! that a node writes of a template, where it is asked to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value as Filled};
use polylet_machine::network::{self, configuration};
use polylet_runtime::Client;
use serde_json::Value;

use crate::perform::chain;
use crate::settings::{NetworkTemplate, Settings};

/// What the directory of CNI configurations shows, where the runtime tells which one it reads.
pub async fn why_not_ready(client: &Client) -> Option<String> {
    let dir = directory(client).await?;
    tokio::task::spawn_blocking(move || match configuration(&dir) {
        Ok(network) => {
            format!("{} declares the network {:?}, and the runtime has not taken it", network.file.display(), network.name)
        }
        Err(error) => chain(&error),
    })
    .await
    .ok()
}

/// The directory whose CNI configurations the runtime reads, where it tells.
async fn directory(client: &Client) -> Option<PathBuf> {
    let status = client.status(true).await.ok()?;
    let config: Value = serde_json::from_str(status.info.get("config")?).ok()?;
    Some(PathBuf::from(config.pointer("/cni/confDir")?.as_str()?))
}

/// The text of the CNI configuration that this node is asked to write; None: it is asked for none.
///
/// # Errors
/// The template cannot be read, or it is wrong: file, line and what is.
pub fn render(settings: &Settings) -> anyhow::Result<Option<String>> {
    let Some(NetworkTemplate { template, .. }) = &settings.network else { return Ok(None) };
    let read = || {
        if fs::metadata(template)?.len() > MAX_BYTES {
            return Err(std::io::Error::other(format!("larger than {MAX_BYTES} bytes")));
        }
        fs::read_to_string(template)
    };
    let text = read().with_context(|| format!("read {} (network.template)", template.display()))?;
    let filled = fill(&text, &settings.pod_cidr, &settings.node_name);
    filled.map(Some).with_context(|| format!("{} (network.template)", template.display()))
}

/// Far more than any configuration; a bound all the same.
const MAX_BYTES: u64 = 1 << 20;
/// Steps of a template: some thousand times what one with a range of each family takes.
const FUEL: u64 = 100_000;

/// A template's variables: `podCIDRs`, the ranges of the pods' addresses, and `nodeName`.
fn fill(template: &str, pod_cidr: &str, node_name: &str) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    let mut variables = BTreeMap::from([("nodeName", Filled::from(node_name))]);
    if !pod_cidr.is_empty() {
        variables.insert("podCIDRs", Filled::from_iter(pod_cidr.split(',').map(str::trim)));
    }
    environment.render_str(template, variables).map_err(|error| {
        let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
        let what = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        let known = match (error.kind(), pod_cidr.is_empty()) {
            (ErrorKind::UndefinedError, true) => "; nodeName is known, podCIDRs is not: the configuration sets no podCIDR",
            (ErrorKind::UndefinedError, false) => "; podCIDRs and nodeName are known",
            _ => "",
        };
        anyhow::anyhow!("{line}{}{what}{known}", error.kind())
    })
}

/// A CNI configuration that a runtime can read, and where it is to be written.
#[derive(Debug)]
pub struct Planned {
    template: PathBuf,
    text: String,
    file: PathBuf,
    /// The directory that the runtime reads, where it tells.
    read_from: Option<PathBuf>,
}

/// Where what [`render`] made is to be written. Changes nothing.
///
/// # Errors
/// The text is no CNI configuration, or it is not known where to.
pub async fn plan(settings: &Settings, text: Option<String>, client: &Client) -> anyhow::Result<Option<Planned>> {
    let Some((NetworkTemplate { template, file }, text)) = settings.network.clone().zip(text) else { return Ok(None) };
    let read_from = directory(client).await;
    let file = match (file, &read_from) {
        (Some(file), _) => file,
        (None, Some(dir)) => dir.join(NetworkTemplate::DEFAULT_NAME),
        (None, None) => bail!(
            "the runtime at {} does not say in which directory it reads CNI configurations: network.file must name a file there",
            client.endpoint()
        ),
    };
    network::check(&file, &text).with_context(|| format!("what {} (network.template) makes", template.display()))?;
    Ok(Some(Planned { template, text, file, read_from }))
}

/// Writes it. A runtime that watches its directory loads it by itself.
///
/// # Errors
/// The file cannot be written.
pub async fn write(planned: Planned) -> anyhow::Result<()> {
    let write = move || -> anyhow::Result<()> {
        let Planned { template, text, file, read_from } = planned;
        let what = if network::write(&file, &text)? { "written" } else { "as it was" };
        tracing::info!(file = %file.display(), template = %template.display(), "the CNI configuration is {what}");
        if let Some(dir) = read_from {
            warn_of_others(&file, &dir);
        }
        Ok(())
    };
    tokio::task::spawn_blocking(write).await?
}

/// A configuration that no runtime will take is of no use: the first one by name is the one.
fn warn_of_others(file: &Path, dir: &Path) {
    let same = |one: &Path| fs::canonicalize(one).ok().zip(fs::canonicalize(file).ok()).is_some_and(|(one, other)| one == other);
    match configuration(dir) {
        Ok(first) if same(&first.file) => {}
        Ok(first) => tracing::warn!(
            file = %file.display(),
            "the runtime takes another CNI configuration than the one written of network.template: {}, the first by name in {}",
            first.file.display(),
            dir.display()
        ),
        Err(error) => tracing::warn!(error = chain(&error), "the runtime does not read the CNI configuration that was written"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGES: &str = r#"{"name": "{{ nodeName }}", "plugins": [{"type": "bridge", "ipam": {"type": "host-local", "ranges": [
{%- for cidr in podCIDRs %}[{"subnet": "{{ cidr }}"}]{% if not loop.last %}, {% endif %}{% endfor %}]}}]}"#;

    #[test]
    fn a_template_gets_the_ranges_and_the_name() {
        let text = fill(RANGES, "10.9.0.0/24,fd00:9::/64", "n1").expect("fill");
        let expected = r#"{"name": "n1", "plugins": [{"type": "bridge", "ipam": {"type": "host-local", "ranges": "#.to_owned()
            + r#"[[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd00:9::/64"}]]}}]}"#;
        assert_eq!(text, expected);
        assert_eq!(fill("{{ podCIDRs[0] }} {{ podCIDRs | length }}", "10.9.0.0/24", "n1").expect("fill"), "10.9.0.0/24 1");
    }

    #[test]
    fn what_is_wrong_with_a_template_is_told_with_its_line() {
        let told = |text: &str, cidr: &str| fill(text, cidr, "n1").expect_err("wrong").to_string();
        let unset = "line 2: undefined value; nodeName is known, podCIDRs is not: the configuration sets no podCIDR";
        assert_eq!(told("{\n{{ podCIDRs }}", ""), unset);
        assert_eq!(told("{{ podCIDR }}", "10.9.0.0/24"), "line 1: undefined value; podCIDRs and nodeName are known");
        assert_eq!(
            told("{\n{% for x in podCIDRs %}", "10.9.0.0/24"),
            "line 2: syntax error: unexpected end of input, expected end of block"
        );
        assert_eq!(told("{{ nodeName | frob }}", ""), "line 1: unknown filter: filter frob is unknown");
        // Neither time nor memory is to be had without end.
        let loops = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}";
        assert_eq!(told(loops, ""), "line 1: engine ran out of fuel");
        assert_eq!(told("{{ 'a' * 100000000000 }}", ""), "line 1: engine ran out of fuel");
    }

    #[test]
    fn a_template_that_cannot_be_read_is_named() {
        let mut settings = Settings::below("/var/lib/kubelet", "n1");
        assert!(render(&settings).expect("none is asked for").is_none());
        settings.network = Some(NetworkTemplate { template: "/no/such/template".into(), file: None });
        let error = format!("{:#}", render(&settings).expect_err("absent"));
        assert_eq!(error, "read /no/such/template (network.template): No such file or directory (os error 2)");
    }
}
