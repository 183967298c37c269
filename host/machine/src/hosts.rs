//! `/etc/hosts` of a pod's containers: one file for each pod, bound into every container that does not mount its own.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::HostAlias;
use polylet_core::paths::Paths;
use polylet_core::pod::Pod;

/// The file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write hosts file {path}")]
pub struct HostsError {
    /// Which file: the pod's, or the node's that was to be copied.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// The name that a pod's containers know themselves by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hostname<'a> {
    /// The host's name.
    pub host: &'a str,
    /// `<subdomain>.<namespace>.svc.<cluster domain>`, where the spec has a subdomain.
    pub domain: Option<&'a str>,
}

/// Writes a pod's file, in place so that containers which have it bound see it too. Returns its path.
///
/// To be called at each container start, once the pod's IPs are known (or for a pod on the host's network, whose file is the
/// node's with the aliases added).
pub fn write(paths: &Paths, pod: &Pod, name: Hostname<'_>, ips: &[String]) -> Result<PathBuf, HostsError> {
    let path = paths.etc_hosts(pod.uid.as_str());
    let aliases = pod.object.spec.as_ref().and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
    let content = if pod.host_network {
        let node = Path::new("/etc/hosts");
        let of_node = fs::read(node).map_err(|cause| HostsError { path: node.to_owned(), cause })?;
        of_host_network(&of_node, aliases)
    } else {
        of_pod_network(name, ips, aliases).into_bytes()
    };
    put(&path, &content).map_err(|cause| HostsError { path: path.clone(), cause })?;
    Ok(path)
}

/// For a pod with a network of its own.
pub fn of_pod_network(name: Hostname<'_>, ips: &[String], aliases: &[HostAlias]) -> String {
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n",
    );
    for ip in ips {
        let host = name.host;
        let _ = match name.domain.filter(|domain| !domain.is_empty()) {
            Some(domain) => writeln!(text, "{ip}\t{host}.{domain}\t{host}"),
            None => writeln!(text, "{ip}\t{host}"),
        };
    }
    text + &of_aliases(aliases)
}

/// For a pod on the host's network: what the node has, and the aliases.
pub fn of_host_network(of_node: &[u8], aliases: &[HostAlias]) -> Vec<u8> {
    [b"# Kubernetes-managed hosts file (host network).\n", of_node, of_aliases(aliases).as_bytes()].concat()
}

fn of_aliases(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n# Entries added by HostAliases.\n");
    for alias in aliases {
        let _ = writeln!(text, "{}\t{}", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t"));
    }
    text
}

fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    // Running containers never see it half written when there is nothing new to write.
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) && fs::read(path)? == content {
        return Ok(());
    }
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).custom_flags(no_follow).open(path)?;
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    const HEAD: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
                        fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

    fn alias(ip: &str, names: &[&str]) -> HostAlias {
        HostAlias { ip: ip.into(), hostnames: Some(names.iter().map(|name| (*name).into()).collect()) }
    }

    #[test]
    fn pod_network() {
        let plain = Hostname { host: "web", domain: None };
        let ips = ["10.0.0.7".to_owned(), "fd00::7".to_owned()];
        assert_eq!(of_pod_network(plain, &ips, &[]), format!("{HEAD}10.0.0.7\tweb\nfd00::7\tweb\n"));
        let full = Hostname { host: "web", domain: Some("sub.ns.svc.cluster.local") };
        let aliases = [alias("1.2.3.4", &["a", "b"]), alias("5.6.7.8", &["c"])];
        let tail = "10.0.0.7\tweb.sub.ns.svc.cluster.local\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n5.6.7.8\tc\n";
        assert_eq!(of_pod_network(full, &ips[..1], &aliases), format!("{HEAD}{tail}"));
    }

    #[test]
    fn host_network() {
        let text = of_host_network(b"127.0.0.1 localhost\n", &[alias("1.2.3.4", &["a"])]);
        let expected = "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\n\
                        # Entries added by HostAliases.\n1.2.3.4\ta\n";
        assert_eq!(String::from_utf8(text).expect("utf-8"), expected);
    }

    #[test]
    fn is_written_in_place() {
        let dir = tempfile::tempdir().expect("make a directory");
        let paths = Paths { root: dir.path().into(), pod_logs: "/x".into(), container_logs: "/x".into() };
        fs::create_dir_all(paths.pod("uid-1")).expect("mkdir");
        let pod = pod(r#"{"containers":[{"name":"c","image":"i"}],"hostAliases":[{"ip":"1.2.3.4","hostnames":["a"]}]}"#);
        let name = Hostname { host: "web", domain: None };
        let path = write(&paths, &pod, name, &["10.0.0.7".into()]).expect("write");
        let bound = fs::File::open(&path).expect("open, as a container has it bound");
        write(&paths, &pod, name, &["10.0.0.8".into()]).expect("again");
        let text = io::read_to_string(bound).expect("read");
        assert!(text.contains("10.0.0.8\tweb\n") && text.ends_with("1.2.3.4\ta\n"), "{text}");
        assert_eq!(fs::metadata(&path).expect("stat").permissions().mode() & 0o777, 0o644);
    }
}
