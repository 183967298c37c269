//! What the operator wrote, as [`Settings`]: defaults → `--config` → `--config-dir` → flags, each layer checked strictly.
//!
//! [`load`] is all there is to call. Behind it: `schema` (fields as a table, one walk that finds all problems), the tables `kubelet` and
//! `polylet`, `layers` (files merged), `build` (tree → settings).
//!
//! **Invariant:** nothing that was written is ignored in silence. A field is honoured, or refused, or named in a warning that says why it has
//! no effect; an unknown one is an error.

mod build;
pub(crate) mod duration;
mod eviction;
mod gates;
mod kubelet;
mod layers;
mod polylet;
mod schema;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use polylet_core::config::DeadLimits;

use crate::document::field::{At, Findings};
use crate::flags::{self, Flags};
use crate::settings::Settings;

/// What the configuration comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Complete and checked.
    pub settings: Settings,
    /// What was accepted but has no effect: to be logged.
    pub warnings: Vec<Problem>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A configuration file.
    File(PathBuf),
    /// A flag, by its name.
    Flag(String),
    /// All layers together: nobody wrote it.
    Merged,
}

/// One thing that is wrong, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub layer: Layer,
    /// `<field>: <what is wrong>: <what would be right>`.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.layer {
            Layer::File(path) => write!(f, "{}: {}", path.display(), self.what),
            Layer::Flag(name) => write!(f, "flag --{name}: {}", self.what),
            Layer::Merged => write!(f, "configuration: {}", self.what),
        }
    }
}

/// Why the agent does not start: every problem, each on a line of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration is not usable:{}", .problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
pub struct ConfigError {
    /// All that was found.
    pub problems: Vec<Problem>,
}

/// Reads the files that the flags name, puts the flags on top and checks everything.
///
/// # Errors
/// All problems of all layers together.
pub fn load(flags: &Flags) -> Result<Loaded, ConfigError> {
    let mut found = layers::Found::default();
    let mut tree = layers::base(flags.config.as_deref(), &mut found);
    if let Some(dir) = &flags.config_dir {
        layers::drop_ins(dir, &mut tree, &mut found);
    }
    layers::flags(flags, &mut tree, &mut found);

    let by = |flag: &str, given: bool| if given { Layer::Flag(flag.to_owned()) } else { Layer::Merged };
    let mut errors = Findings::default();
    let node_name = node_name(flags, &mut errors);
    found.add(&by("hostname-override", flags.hostname_override.is_some()), errors, Findings::default());
    let mut errors = Findings::default();
    let node_ips = node_ips(flags, &mut errors);
    found.add(&by("node-ip", flags.node_ip.is_some()), errors, Findings::default());
    let dead = dead_limits(flags, &mut found);
    let (mut errors, mut warnings) = (Findings::default(), Findings::default());
    // What spans several fields is only worth saying of fields that are right.
    if found.errors.is_empty() {
        build::check(&tree, &mut errors, &mut warnings);
    }
    found.add_by_place(errors, warnings);

    if flags.root_dir.as_os_str().is_empty() {
        let mut errors = Findings::default();
        errors.invalid(&At::of("value"), "", "must be a directory, such as /var/lib/kubelet");
        found.add(&by("root-dir", true), errors, Findings::default());
    }
    // Runtimes and mounts are told paths below it.
    let root_dir = std::path::absolute(&flags.root_dir).unwrap_or_else(|_| flags.root_dir.clone());
    let mut settings = Settings::below(&root_dir, &node_name);
    settings.node_ips = node_ips;
    settings.dead = dead;
    if let Some(path) = &flags.polylet_config
        && let Some(mut map) = layers::read(path, polylet::KIND, polylet::FIELDS, &mut found)
    {
        let mut errors = Findings::default();
        polylet::check(&map, &mut errors);
        found.add(&Layer::File(path.clone()), errors, Findings::default());
        layers::rebase(&mut map, polylet::FIELDS, path);
        polylet::apply(&map, &mut settings);
    }
    let socket = settings.admin_socket.as_os_str();
    if socket.len() > SOCKET_MAX {
        let mut errors = Findings::default();
        let detail =
            "a socket's path has at most 107 bytes: set adminSocket in the file of --polylet-config, or a shorter --root-dir";
        errors.invalid(&At::of("adminSocket"), &*socket.to_string_lossy(), detail);
        found.add(&Layer::Merged, errors, Findings::default());
    }
    if !found.errors.is_empty() {
        return Err(ConfigError { problems: found.errors });
    }
    build::apply(&tree, &mut settings);
    Ok(Loaded { settings, warnings: found.warnings })
}

/// Bytes of a Unix socket's path, without the zero behind it.
const SOCKET_MAX: usize = 107;

/// The override, or the machine's name; trimmed and in lower case.
fn node_name(flags: &Flags, errors: &mut Findings) -> String {
    let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = flags.hostname_override.clone().filter(|name| !name.trim().is_empty()).unwrap_or_else(machine);
    let name = name.trim().to_lowercase();
    let label = |l: &str| {
        !l.is_empty() && !l.starts_with('-') && !l.ends_with('-') && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        let detail = "must be lower case letters, digits, '-' and '.', such as node-1.example.com: set --hostname-override";
        errors.invalid(&At::of("node name"), name.as_str(), detail);
    }
    name
}

/// How many dead containers are kept. Fewer than none of each counts as one, as upstream: the rest goes when the next one ends.
fn dead_limits(flags: &Flags, found: &mut layers::Found) -> DeadLimits {
    let mut limits = DeadLimits::default();
    let mut read = |name: &str, text: &Option<String>, take: &mut dyn FnMut(&str) -> Result<(), String>| {
        let mut errors = Findings::default();
        if let Some(text) = text
            && let Err(detail) = take(text)
        {
            errors.invalid(&At::of("value"), text.as_str(), detail);
        }
        found.add(&Layer::Flag(name.to_owned()), errors, Findings::default());
    };
    let number = |text: &str| text.parse::<i32>().map_err(|_| "must be a whole number such as 1, or -1".to_owned());
    read(flags::DEAD_PER_CONTAINER, &flags.dead_per_container, &mut |text| {
        limits.per_container = usize::try_from(number(text)?).unwrap_or(1);
        Ok(())
    });
    read(flags::DEAD_IN_TOTAL, &flags.dead_in_total, &mut |text| {
        limits.total = usize::try_from(number(text)?).ok();
        Ok(())
    });
    read(flags::DEAD_LEAST_AGE, &flags.dead_least_age, &mut |text| {
        limits.least_age = duration::parse(text)?;
        Ok(())
    });
    limits
}

/// At most one address of each family, the primary first.
fn node_ips(flags: &Flags, errors: &mut Findings) -> Vec<IpAddr> {
    let mut ips: Vec<IpAddr> = Vec::new();
    for text in flags.node_ip.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|text| !text.is_empty()) {
        let at = At::of("node IP");
        match text.parse::<IpAddr>() {
            Ok(ip) if ips.iter().any(|known| known.is_ipv4() == ip.is_ipv4()) => {
                errors.invalid(&at, text, "must be one address, or one of each family");
            }
            Ok(ip) if ip.is_multicast() || ip.is_loopback() => {
                errors.invalid(&at, text, "must be an address that others can reach")
            }
            // Unspecified: of this family, but found on the machine.
            Ok(ip) if ip.is_unspecified() => {}
            Ok(ip) => ips.push(ip),
            Err(_) => errors.invalid(&at, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        }
    }
    ips
}
