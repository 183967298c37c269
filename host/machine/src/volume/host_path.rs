//! hostPath: a path of the node as it is; only its type is checked, and made where the spec asks for that.

use std::fs::{self, FileType, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::{VolumeCause, failed, set_mode};

pub(super) fn check(source: &HostPathVolumeSource) -> Result<(), VolumeCause> {
    let path = Path::new(&source.path);
    // Links are followed, as upstream follows them.
    let found = fs::metadata(path).ok().map(|metadata| metadata.file_type());
    let is = |matches: fn(&FileType) -> bool, wanted| match found.as_ref().is_some_and(matches) {
        true => Ok(()),
        false => Err(VolumeCause::HostPathType { path: source.path.clone(), wanted }),
    };
    match source.type_.as_deref().unwrap_or_default() {
        "" => Ok(()),
        "DirectoryOrCreate" if found.is_none() => make_dir(path),
        "DirectoryOrCreate" | "Directory" => is(FileType::is_dir, "a directory"),
        "FileOrCreate" if found.is_none() => make_file(path),
        "FileOrCreate" | "File" => is(FileType::is_file, "a file"),
        "Socket" => is(FileTypeExt::is_socket, "a socket file"),
        "CharDevice" => is(FileTypeExt::is_char_device, "a character device"),
        "BlockDevice" => is(FileTypeExt::is_block_device, "a block device"),
        other => Err(VolumeCause::InvalidHostPathType(other.to_owned())),
    }
}

fn make_dir(path: &Path) -> Result<(), VolumeCause> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(failed("mkdir", path))?;
    Ok(set_mode(path, 0o755)?)
}

/// Its parents are not made.
fn make_file(path: &Path) -> Result<(), VolumeCause> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o644).open(path).map_err(failed("open", path))?;
    Ok(set_mode(path, 0o644)?)
}
