//! Kernel settings that pods may ask for: the safe ones, and those that the configuration allows (`allowedUnsafeSysctls`).

/// Settings of the kernel that are a namespace's own and harm nobody else, as upstream lists them.
const SAFE: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Names, or the beginnings of names, of settings that are a namespace's own. All others are the whole machine's.
const NAMESPACED: &[&str] = &["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net."];

/// Whether a pod may have this setting. `allowed` is the configuration's list, checked.
pub fn is_allowed(name: &str, allowed: &[String]) -> bool {
    let name = name.replace('/', ".");
    let fits = |pattern: &String| {
        let pattern = pattern.replace('/', ".");
        match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        }
    };
    SAFE.contains(&name.as_str()) || allowed.iter().any(fits)
}

/// Checks one entry of the list.
///
/// # Errors
/// What would be right.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    let dotted = pattern.replace('/', ".");
    let start = dotted.strip_suffix('*').unwrap_or(&dotted);
    let part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b));
    // After a dot, nothing needs to stand before the star.
    let name = if dotted.ends_with('*') { start.strip_suffix('.').unwrap_or(start) } else { start };
    if !name.split('.').all(part) || pattern.len() > 253 {
        let wanted = "must be the name of a sysctl, or the beginning of one with '*' after it: at most 253 lower case alphanumeric characters, \
                      '-' and '_', in parts separated by '.' or '/'";
        return Err(wanted.to_owned());
    }
    let exact = |known: &&str| known.ends_with('.') && start.starts_with(*known) || *known == "kernel.sem" && dotted == *known;
    let begins = |known: &&str| matches!(*known, "kernel.shm" | "kernel.msg") && start.starts_with(*known);
    if NAMESPACED.iter().any(|known| exact(known) || begins(known)) {
        return Ok(());
    }
    Err(format!(
        "the sysctls {dotted:?} are not known to be namespaced: only kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.* are"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings() {
        let list = ["kernel.msg*".to_owned(), "net/core/somaxconn".to_owned(), "net.ipv6.*".to_owned()];
        for (name, expected) in [
            ("net.ipv4.tcp_syncookies", true),
            ("net/ipv4/tcp_syncookies", true),
            ("kernel.msgmax", true),
            ("kernel/msgmnb", true),
            ("kernel.shmmax", false),
            ("net.core.somaxconn", true),
            ("net.core.somaxconn2", false),
            ("net.ipv6.conf.all.forwarding", true),
            ("net.ipv6", false),
            ("vm.swappiness", false),
        ] {
            assert_eq!(is_allowed(name, &list), expected, "{name}");
        }
        assert!(!is_allowed("kernel.msgmax", &[]));
    }

    #[test]
    fn only_what_a_namespace_has_of_its_own() {
        for pattern in [
            "kernel.msg*",
            "kernel.msgmax",
            "kernel.shm*",
            "kernel.sem",
            "fs.mqueue.*",
            "net.*",
            "net/ipv4/ip_forward",
            "net.core.somax*",
        ] {
            assert_eq!(check_pattern(pattern), Ok(()), "{pattern}");
        }
        let refused = ["vm.swappiness", "kernel.*", "kernel.sem*", "kernel.ms*", "fs.file-max", "net", "n*"];
        for pattern in refused {
            assert!(check_pattern(pattern).unwrap_err().contains("are not known to be namespaced"), "{pattern}");
        }
        for pattern in ["", "*", "net..x", "net.*.x", "Net.x", "net.x y", ".net", &format!("net.{}", "x".repeat(250))] {
            assert!(check_pattern(pattern).unwrap_err().starts_with("must be the name of a sysctl"), "{pattern}");
        }
    }
}
