//! Ranges of ids for pods with a user namespace of their own: one for each pod, none that two pods share.
//!
//! A pod's range is written into its directory (`<pod>/userns`, upstream's form) before anything runs with it, and goes with that
//! directory. Which ranges are taken is read from there each time: nothing is kept that could differ from it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use polylet_core::paths::Paths;
use polylet_core::userns::IdRange;
use serde_json::{Value, json};

use crate::volume::{TearDownError, list_pods};

/// Ids that a pod gets, and the least that the API allows.
pub const IDS_PER_POD: u32 = 65_536;

/// Why a pod gets no range.
#[derive(Debug, thiserror::Error)]
pub enum UsernsError {
    /// The ids that may be given away are not enough, or not whole ranges.
    #[error("user namespaces: ids from {first}, {length} of them: {why}")]
    BadRange {
        /// The node's first id.
        first: u64,
        /// How many.
        length: u64,
        /// What would be right.
        why: String,
    },
    /// `getsubids` has more to say than the node can use.
    #[error("user namespaces: getsubids kubelet: {0:?}: must be one and the same range for users and groups")]
    SubIds(String),
    /// Every range is taken.
    #[error("could not find an empty slot to allocate a user namespace")]
    Full,
    /// The file of this pod or another one cannot be used, so that nobody knows what is taken.
    #[error("user namespaces: {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The pods' directory could not be read.
    #[error("user namespaces")]
    List(#[from] TearDownError),
}

/// Gives ranges of ids to pods.
#[derive(Debug)]
pub struct IdRanges {
    paths: Paths,
    /// Ids in each range.
    length: u32,
    /// First ids of the ranges: this one, and so many of them.
    first: u32,
    count: u32,
    /// Held while one is chosen.
    choosing: Mutex<()>,
}

impl IdRanges {
    /// Ranges of this length out of what the machine gives to the user `kubelet`, where it has one; else out of all ids beyond the
    /// first range.
    ///
    /// # Errors
    /// [`UsernsError::BadRange`] where there would not be one for each of so many pods.
    pub fn find(paths: &Paths, length: u32, pods: u32) -> Result<Self, UsernsError> {
        let (first, whole) = match sub_ids()? {
            Some(given) => given,
            None => {
                let each = u64::from(length.max(1));
                (each, ((1 << 32) / each - 1) * each)
            }
        };
        Self::of(paths, length, pods, first, whole)
    }

    fn of(paths: &Paths, length: u32, pods: u32, first: u64, whole: u64) -> Result<Self, UsernsError> {
        let bad = |why: String| UsernsError::BadRange { first, length: whole, why };
        let each = u64::from(length);
        if each == 0 || each % u64::from(IDS_PER_POD) != 0 {
            return Err(bad(format!("{length} ids for each pod: must be a multiple of {IDS_PER_POD}")));
        }
        if !first.is_multiple_of(each) || !whole.is_multiple_of(each) || first < each || first + whole > 1 << 32 {
            return Err(bad(format!("must be whole ranges of {length} ids, not the first of them")));
        }
        let fit = whole / each;
        if fit < u64::from(pods) {
            return Err(bad(format!("must be enough for {pods} pods of {length} ids each")));
        }
        // Both are below 2^32, as was checked above.
        let (first, count) = (u32::try_from(first).unwrap_or(u32::MAX), u32::try_from(fit).unwrap_or(u32::MAX));
        Ok(Self { paths: paths.clone(), length, first, count, choosing: Mutex::new(()) })
    }

    /// The range of a pod whose directory is there: the one that it has, or a free one, which is its from now on.
    pub fn of_pod(&self, uid: &str) -> Result<IdRange, UsernsError> {
        let _one_at_a_time = self.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = BTreeMap::new();
        for other in list_pods(&self.paths)? {
            if let Some(range) = self.read(&other)? {
                if other == uid {
                    return Ok(range);
                }
                taken.insert(range.first, range);
            }
        }
        let ends = |range: &IdRange| u64::from(range.first) + u64::from(range.length);
        let free = |range: &IdRange| {
            // Another length than today's may have been in use before.
            !taken.values().any(|other| u64::from(other.first) < ends(range) && u64::from(range.first) < ends(other))
        };
        let mut all = (0..self.count).map(|n| IdRange { first: self.first + n * self.length, length: self.length });
        let range = all.find(free).ok_or(UsernsError::Full)?;
        self.write(uid, range)?;
        Ok(range)
    }

    fn file(&self, uid: &str) -> PathBuf {
        self.paths.pod(uid).join("userns")
    }

    fn read(&self, uid: &str) -> Result<Option<IdRange>, UsernsError> {
        let path = self.file(uid);
        let bad = |why: String| UsernsError::File { path: path.clone(), why };
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| bad(error.to_string()))?,
        };
        let tree: Value = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        let number = |map: &str, field: &str| {
            let number = tree[map][0][field].as_u64().and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| bad(format!("{map}[0].{field} must be an id, not {}", tree[map][0][field])))
        };
        let range = IdRange { first: number("uidMappings", "hostId")?, length: number("uidMappings", "length")? };
        if tree["uidMappings"] != tree["gidMappings"] || tree != of_range(range) || range.length == 0 {
            return Err(bad("must map the ids from zero on to one range, for users and groups alike".to_owned()));
        }
        Ok(Some(range))
    }

    /// Written aside, so that a crash leaves no half of it.
    fn write(&self, uid: &str, range: IdRange) -> Result<(), UsernsError> {
        let path = self.file(uid);
        let aside = path.with_extension("new");
        let written = fs::write(&aside, of_range(range).to_string()).and_then(|()| fs::rename(&aside, &path));
        written.map_err(|error| UsernsError::File { path, why: error.to_string() })
    }
}

fn of_range(range: IdRange) -> Value {
    let mapping = json!([{"hostId": range.first, "containerId": 0, "length": range.length}]);
    json!({"uidMappings": mapping, "gidMappings": mapping})
}

/// First id and number of what the machine gives to the user `kubelet`; None where there is no such user, or nothing that tells.
fn sub_ids() -> Result<Option<(u64, u64)>, UsernsError> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    if !users.lines().any(|line| line.starts_with("kubelet:")) {
        return Ok(None);
    }
    let ask = |options: &[&str]| Command::new("getsubids").args(options).arg("kubelet").output();
    let (Ok(users), Ok(groups)) = (ask(&[]), ask(&["-g"])) else { return Ok(None) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    parse_sub_ids(&text(&users.stdout), &text(&groups.stdout)).map(Some)
}

/// `0: kubelet 65536 7208960`, the same for users and groups.
fn parse_sub_ids(users: &str, groups: &str) -> Result<(u64, u64), UsernsError> {
    let bad = || UsernsError::SubIds(format!("{}{}", users, if users == groups { "" } else { groups }));
    let mut words = users.split_whitespace().skip(2).map(str::parse);
    match (words.next(), words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(length)), None) if users == groups => Ok((first, length)),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    struct Node {
        dir: tempfile::TempDir,
    }

    impl Node {
        fn make(pods: &[&str]) -> Self {
            let node = Self { dir: tempfile::tempdir().expect("make a directory") };
            for uid in pods {
                fs::create_dir_all(node.paths().pod(uid)).expect("mkdir");
            }
            node
        }

        fn paths(&self) -> Paths {
            let at = |name: &str| self.dir.path().join(name);
            Paths { root: at("kubelet"), pod_logs: at("pods"), container_logs: at("containers") }
        }

        fn ranges(&self, count: u64) -> IdRanges {
            let each = u64::from(IDS_PER_POD);
            IdRanges::of(&self.paths(), IDS_PER_POD, 1, each, count * each).expect("ranges")
        }

        fn set(&self, uid: &str, text: &str) {
            fs::write(self.paths().pod(uid).join("userns"), text).expect("write");
        }
    }

    #[test]
    fn each_pod_has_its_own() {
        let node = Node::make(&["a", "b", "c"]);
        let ranges = node.ranges(2);
        assert_eq!(ranges.of_pod("a").expect("a"), IdRange { first: 65_536, length: 65_536 });
        assert_eq!(ranges.of_pod("b").expect("b").first, 131_072);
        assert_eq!(node.ranges(2).of_pod("a").expect("the agent starts anew").first, 65_536);
        let text = fs::read(node.paths().pod("b").join("userns")).expect("read");
        let mapping = json!([{"hostId": 131_072, "containerId": 0, "length": 65_536}]);
        let written: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(written, json!({"uidMappings": mapping, "gidMappings": mapping}));
        let error = ranges.of_pod("c").expect_err("two ranges, three pods");
        assert_eq!(error.to_string(), "could not find an empty slot to allocate a user namespace");
        fs::remove_dir_all(node.paths().pod("a")).expect("the first pod is gone");
        assert_eq!(ranges.of_pod("c").expect("c").first, 65_536);
    }

    #[test]
    fn many_at_once_share_none() {
        let names: Vec<String> = (0..16).map(|n| format!("pod-{n}")).collect();
        let node = Node::make(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let ranges = node.ranges(16);
        let firsts: BTreeSet<u32> = std::thread::scope(|scope| {
            let threads: Vec<_> = names.iter().map(|name| scope.spawn(|| ranges.of_pod(name).expect("a range").first)).collect();
            threads.into_iter().map(|thread| thread.join().expect("thread")).collect()
        });
        assert_eq!(firsts.len(), 16);
    }

    #[test]
    fn what_is_taken_must_be_known() {
        let node = Node::make(&["a", "b"]);
        let path = node.paths().pod("b").join("userns");
        for (text, why) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("{}", "uidMappings[0].hostId must be an id, not null"),
            (r#"{"uidMappings":[{"hostId":-1}]}"#, "uidMappings[0].hostId must be an id, not -1"),
            (
                r#"{"uidMappings":[{"hostId":65536,"containerId":1,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":1,"length":65536}]}"#,
                "must map the ids from zero on to one range, for users and groups alike",
            ),
            (
                r#"{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[]}"#,
                "must map the ids from zero on to one range, for users and groups alike",
            ),
        ] {
            node.set("b", text);
            let error = node.ranges(4).of_pod("a").expect_err(text).to_string();
            assert_eq!(error, format!("user namespaces: {}: {why}", path.display()));
        }
        // One of twice the length, from other times: neither half of it is free.
        node.set("b", &of_range(IdRange { first: 131_072, length: 131_072 }).to_string());
        fs::create_dir_all(node.paths().pod("c")).expect("mkdir");
        let firsts = ["a", "c"].map(|uid| node.ranges(4).of_pod(uid).expect("a range").first);
        assert_eq!(firsts, [65_536, 262_144]);
    }

    #[test]
    fn what_may_be_given_away() {
        let of = |length, pods, first, whole| {
            let node = Node::make(&[]);
            IdRanges::of(&node.paths(), length, pods, first, whole).map(|ranges| ranges.count).map_err(|error| error.to_string())
        };
        assert_eq!(of(65_536, 110, 65_536, (1 << 32) - 65_536), Ok(65_535));
        let bad = |first: u64, whole: u64, why: &str| Err(format!("user namespaces: ids from {first}, {whole} of them: {why}"));
        assert_eq!(of(65_537, 1, 65_537, 65_537), bad(65_537, 65_537, "65537 ids for each pod: must be a multiple of 65536"));
        let whole = "must be whole ranges of 65536 ids, not the first of them";
        assert_eq!(of(65_536, 1, 0, 131_072), bad(0, 131_072, whole));
        assert_eq!(of(65_536, 1, 100_000, 65_536), bad(100_000, 65_536, whole));
        assert_eq!(of(65_536, 1, 65_536, 1 << 32), bad(65_536, 1 << 32, whole));
        assert_eq!(of(65_536, 3, 65_536, 131_072), bad(65_536, 131_072, "must be enough for 3 pods of 65536 ids each"));

        let line = "0: kubelet 65536 7208960\n";
        assert_eq!(parse_sub_ids(line, line).expect("a range"), (65_536, 7_208_960));
        for (users, groups) in
            [("", ""), (line, ""), ("0: kubelet x 1\n", "0: kubelet x 1\n"), ("0: kubelet 1 2\n1: kubelet 5 6\n", line)]
        {
            parse_sub_ids(users, groups).expect_err(users);
        }
    }
}
