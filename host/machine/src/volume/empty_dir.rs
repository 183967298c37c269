//! emptyDir: a directory for the pod's life, on disk, in memory or on huge pages.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use polylet_core::paths::Paths;
use polylet_core::pod::{HUGE_PAGES, Pod, QosClass};
use polylet_core::quantity;
use rustix::fs::Gid;
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::{VolumeCause, failed, fs_group, private_dir, set_mode};
use crate::mountinfo;

const PLUGIN: &str = "kubernetes.io~empty-dir";

pub(super) fn set_up(
    paths: &Paths,
    pod: &Pod,
    name: &str,
    source: &EmptyDirVolumeSource,
    memory_allocatable: u64,
) -> Result<(), VolumeCause> {
    set_up_at(paths, pod, &paths.empty_dir(pod.uid.as_str(), name), name, source, memory_allocatable)
}

/// The same at another place: volumes that the node fills lie in one, which is marked as `wrapped_<name>`.
pub(super) fn set_up_at(
    paths: &Paths,
    pod: &Pod,
    dir: &Path,
    name: &str,
    source: &EmptyDirVolumeSource,
    memory_allocatable: u64,
) -> Result<(), VolumeCause> {
    // Upstream's mark of a volume that is complete; after it, a pod's files are left alone.
    let ready_dir = paths.pod(pod.uid.as_str()).join("plugins").join(PLUGIN).join(name);
    let ready = ready_dir.join("ready");
    let mut was_ready = ready.exists();
    if was_ready && !dir.exists() {
        // Somebody removed the volume: it is made as a new one. The mark goes first, so that one made by half does not count as complete.
        fs::remove_file(&ready).map_err(failed("remove", &ready))?;
        was_ready = false;
    }
    let medium = source.medium.as_deref().unwrap_or_default();

    make_dir(dir)?;
    let mounted = match medium {
        "" => false,
        "Memory" => mount_once(dir, "tmpfs", || Ok(Options::tmpfs(size(pod, source, memory_allocatable))))?,
        _ if medium.starts_with("HugePages") => {
            mount_once(dir, "hugetlbfs", || Ok(Options::huge_pages(page_size(pod, medium)?)))?
        }
        other => return Err(VolumeCause::UnknownMedium(other.to_owned())),
    };
    if was_ready && !mounted {
        return Ok(());
    }
    // A tmpfs keeps its sticky bit, as upstream leaves it.
    let wanted = source.mode.and_then(|mode| u32::try_from(mode).ok());
    let mode = fs::metadata(dir).map_err(failed("stat", dir))?.permissions().mode();
    match wanted {
        Some(wanted) if mode & 0o7777 != wanted => set_mode(dir, wanted)?,
        None if mode & 0o777 != 0o777 => set_mode(dir, 0o777)?,
        _ => {}
    }
    if let Some(group) = fs_group(pod) {
        give_to_group(dir, group).map_err(failed("chown", dir))?;
    }
    private_dir(&ready_dir)?;
    fs::write(&ready, b"").map_err(failed("open", &ready))?;
    Ok(())
}

fn make_dir(dir: &Path) -> Result<(), VolumeCause> {
    if let Some(parent) = dir.parent() {
        private_dir(parent)?;
    }
    match fs::create_dir(dir) {
        Err(cause) if !dir.is_dir() => Err(failed("mkdir", dir)(cause).into()),
        _ => Ok(()),
    }
}

/// What `mount` is given besides type and place.
struct Options {
    data: String,
    /// To be tried without where the kernel does not know it.
    extra: Option<&'static str>,
}

impl Options {
    fn tmpfs(size: u64) -> Self {
        // Without `noswap` a volume in memory could end up on a disk that nobody erases.
        Self { data: format!("size={size}"), extra: Some("noswap") }
    }

    fn huge_pages(page: u64) -> Self {
        Self { data: format!("pagesize={page}"), extra: None }
    }
}

/// Mounts a file system of this type, unless one is there already; says whether it did.
fn mount_once(dir: &Path, fs_type: &str, options: impl Fn() -> Result<Options, VolumeCause>) -> Result<bool, VolumeCause> {
    let mounts = mountinfo::read().map_err(failed("read", Path::new(mountinfo::MOUNTINFO)))?;
    // Mountinfo has real paths; the root directory may be reached through a link.
    let real = fs::canonicalize(dir).map_err(failed("stat", dir))?;
    if mounts.iter().any(|mount| mount.point == real && mount.fs_type == fs_type) {
        return Ok(false);
    }
    let options = options()?;
    let with_extra = options.extra.map(|extra| format!("{},{extra}", options.data));
    for data in with_extra.into_iter().chain([options.data]) {
        let data = CString::new(data).unwrap_or_default();
        match rustix::mount::mount(fs_type, dir, fs_type, MountFlags::empty(), data.as_c_str()) {
            Err(Errno::INVAL) if options.extra.is_some() && data.to_bytes().ends_with(b"swap") => {}
            other => {
                other.map_err(failed("mount", dir))?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The least of what the node's pods may use, the pod's own memory limit and the volume's size limit.
fn size(pod: &Pod, source: &EmptyDirVolumeSource, memory_allocatable: u64) -> u64 {
    let pod_limit = if pod.qos == QosClass::BestEffort { None } else { pod.total().memory_limit };
    let own = source.size_limit.as_ref().and_then(|limit| quantity::whole(&limit.0).ok());
    [pod_limit, own].into_iter().flatten().filter(|limit| *limit > 0).fold(memory_allocatable, u64::min)
}

/// The medium's own (`HugePages-2Mi`), or else the only one that the pod requests.
pub(super) fn page_size(pod: &Pod, medium: &str) -> Result<u64, VolumeCause> {
    let own = match medium.strip_prefix("HugePages-") {
        Some(size) => Some(quantity::whole(size).map_err(|_| VolumeCause::UnknownMedium(medium.to_owned()))?),
        None if medium == "HugePages" => None,
        None => return Err(VolumeCause::UnknownMedium(medium.to_owned())),
    };
    let spec = pod.object.spec.as_ref();
    let containers = spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let all = containers.flat_map(|c| &c.resources).chain(spec.and_then(|spec| spec.resources.as_ref()));
    let requests = all.flat_map(|resources| resources.requests.iter().flatten());
    let mut sizes: Vec<u64> = requests.filter_map(|(name, _)| quantity::whole(name.strip_prefix(HUGE_PAGES)?).ok()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    match (own, sizes.as_slice()) {
        (Some(own), sizes) if sizes.contains(&own) => Ok(own),
        (None, [only]) => Ok(*only),
        (None, [_, ..]) => Err(VolumeCause::SeveralHugePages(medium.to_owned())),
        _ => Err(VolumeCause::NoHugePages(medium.to_owned())),
    }
}

/// Lets a group read and write here; new files are the group's too. The volume is empty still: nobody has written to it.
fn give_to_group(dir: &Path, group: Gid) -> std::io::Result<()> {
    rustix::fs::chown(dir, None, Some(group))?;
    let mode = fs::metadata(dir)?.permissions().mode();
    fs::set_permissions(dir, fs::Permissions::from_mode(mode | 0o2770))
}
