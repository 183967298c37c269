use super::*;
use crate::source::identity::SEEN_ANNOTATION;

/// A directory of manifests that is written to and looked at.
struct World {
    dir: tempfile::TempDir,
    pods: Directory,
    now: i64,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pods = Directory::new(dir.path(), "n1");
        Self { dir, pods, now: 1_000_000 }
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.dir.path().join(name), content).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.dir.path().join(name)).unwrap();
    }

    /// Names of the pods (`=` where they are as before) and the problems, with the directory's name taken out.
    fn look(&mut self, scope: &Scope) -> (String, Vec<String>) {
        self.now += 1;
        let Some(report) = self.pods.refresh(scope, Timestamp::from_second(self.now).unwrap()) else {
            return ("=".to_owned(), Vec::new());
        };
        let names = |pods: Vec<Arc<Pod>>| pods.iter().map(|p| p.name.clone()).collect::<Vec<_>>().join(" ");
        let place = format!("{}/", self.dir.path().display());
        let problems = report.problems.iter().map(|p| p.to_string().replace(&place, "")).collect();
        (report.pods.map_or("=".to_owned(), names), problems)
    }

    #[track_caller]
    fn check(&mut self, pods: &str, problems: &[&str]) {
        let found = self.look(&Scope::All);
        assert_eq!((found.0.as_str(), found.1.iter().map(String::as_str).collect::<Vec<_>>()), (pods, problems.to_vec()));
    }
}

fn pod(name: &str, image: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: {image}}}]}}\n")
}

#[test]
fn the_first_look_tells_even_of_nothing() {
    let mut world = World::new();
    world.check("", &[]);
    world.check("=", &[]);
}

#[test]
fn a_path_that_is_not_there_is_told_whenever_it_is_not() {
    let mut world = World::new();
    let (path, spare) = (world.dir.path().join("web.yaml"), world.dir.path().join("spare"));
    world.pods = Directory::new(&path, "n1");
    let absent =
        "manifests at web.yaml: there is no such file or directory: no pods are declared, those of files that run are ended";
    world.check("", &[absent]);
    world.check("=", &[]);
    world.write("web.yaml", &pod("web", "i"));
    world.check("web-n1", &[]);
    fs::rename(&path, &spare).unwrap();
    world.check("", &[absent]);
    world.check("=", &[]);
    fs::rename(&spare, &path).unwrap();
    world.check("web-n1", &[]);
}

/// Moved away by mistake, or on a file system that was unmounted: nobody said that its pods are not wanted any more.
#[test]
fn a_directory_that_is_gone_keeps_its_pods() {
    let mut world = World::new();
    let dir = world.dir.path().join("manifests");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("a.yaml"), pod("a", "x")).unwrap();
    world.pods = Directory::new(&dir, "n1");
    world.check("a-n1", &[]);
    let away = world.dir.path().join("away");
    fs::rename(&dir, &away).unwrap();
    let found = world.look(&Scope::All);
    assert_eq!(found.0, "=");
    let why = "No such file or directory (os error 2); the pods that were declared there stay until the agent is restarted";
    let wanted = format!("manifests at {}: {why}", dir.display());
    assert_eq!(found.1, [wanted.replace(&format!("{}/", world.dir.path().display()), "")]);
    world.check("=", &[]);
    // An agent that is restarted meanwhile knows of none of them, and says so.
    world.pods = Directory::new(&dir, "n1");
    let absent =
        "manifests at manifests: there is no such file or directory: no pods are declared, those of files that run are ended";
    world.check("", &[absent]);
    fs::rename(&away, &dir).unwrap();
    world.check("a-n1", &[]);
    fs::rename(&dir, &away).unwrap();
    assert_eq!(world.look(&Scope::All).0, "=");
    fs::remove_file(away.join("a.yaml")).unwrap();
    fs::rename(&away, &dir).unwrap();
    world.check("", &[]);
}

#[test]
fn what_is_wrong_stands_until_it_is_right() {
    let mut world = World::new();
    let standing = |world: &mut World| {
        world.now += 1;
        let place = format!("{}/", world.dir.path().display());
        let report = world.pods.refresh(&Scope::All, Timestamp::from_second(world.now).unwrap());
        report.map(|report| report.standing.iter().map(|told| told.replace(&place, "")).collect::<Vec<_>>())
    };
    world.write("a.yaml", &pod("a", "i"));
    world.write("b.yaml", &pod("A_", "i"));
    world.write("c.yaml", &pod("a", "i"));
    let bad = |world: &World| {
        let told = world.pods.standing.iter().find(|told| told.contains("b.yaml")).cloned().unwrap();
        told.replace(&format!("{}/", world.dir.path().display()), "")
    };
    let taken = "manifest c.yaml: metadata.name \"default/a-n1\" is declared by a.yaml already; each pod needs its own";
    let first = standing(&mut world).unwrap();
    assert_eq!(first, [bad(&world), taken.to_owned()]);
    assert!(first[0].starts_with("manifest b.yaml: metadata.name: "), "{first:?}");
    // Told once, and true all the time: what comes beside it does not make it less so.
    assert_eq!(standing(&mut world), None);
    world.write("d.yaml", &pod("d", "i"));
    assert_eq!(standing(&mut world).unwrap(), first);
    // A file that goes changes no pod, and is news all the same.
    world.remove("b.yaml");
    assert_eq!(standing(&mut world).unwrap(), [taken]);
    world.write("c.yaml", &pod("c", "i"));
    assert_eq!(standing(&mut world).unwrap(), [""; 0]);
}

#[test]
fn files_come_change_and_go() {
    let mut world = World::new();
    world.write("b.yaml", &pod("web", "i"));
    world.write("a.yaml", &pod("db", "i"));
    world.write(".hidden", "junk");
    fs::create_dir(world.dir.path().join("sub")).unwrap();
    world.check("db-n1 web-n1", &[]);
    world.check("=", &[]);
    let first = world.pods.told.clone().unwrap();
    world.write("b.yaml", &pod("web", "j"));
    world.check("db-n1 web-n1", &[]);
    let second = world.pods.told.clone().unwrap();
    assert!(Arc::ptr_eq(&first[0], &second[0]), "an untouched pod is the same value");
    assert_ne!(first[1].uid, second[1].uid, "another content is another pod");
    world.remove("a.yaml");
    world.check("web-n1", &[]);
    world.remove("b.yaml");
    world.check("", &[]);
}

#[test]
fn layout_is_not_content() {
    let mut world = World::new();
    world.write("a.yaml", &pod("web", "i"));
    world.check("web-n1", &[]);
    world.write("a.yaml", &format!("# now with a comment\n{}", pod("web", "i")));
    world.check("=", &[]);
}

#[test]
fn a_bad_file_is_told_once_and_harms_no_other() {
    let mut world = World::new();
    world.write("a.yaml", "kind: Nonsense");
    world.write("b.yaml", &pod("web", "i"));
    let problem = "manifest a.yaml: apiVersion: Required value: must be \"v1\"; kind: Unsupported value: \"Nonsense\": \
                   supported values: \"Pod\"";
    world.check("web-n1", &[problem]);
    world.check("=", &[]);
    world.write("a.yaml", "kind: Nonsense2");
    world.check("=", &[&problem.replace("Nonsense", "Nonsense2")]);
    world.write("a.yaml", &pod("db", "i"));
    world.check("db-n1 web-n1", &[]);
}

#[test]
fn a_file_that_changes_and_stays_bad_is_told_again() {
    let mut world = World::new();
    let told = "manifest a.yaml: kind: Required value: a static manifest holds one \"Pod\"";
    for content in ["apiVersion: v1", "apiVersion: v1\n", "apiVersion: v1\nspec: {}"] {
        world.write("a.yaml", content);
        let pods = if content.len() == 14 { "" } else { "=" };
        world.check(pods, &[told]);
        world.check("=", &[]);
    }
    // Unreadable for one reason, and then for another.
    world.remove("a.yaml");
    let link = world.dir.path().join("a.yaml");
    let gone = "read manifest a.yaml: No such file or directory (os error 2)";
    for (target, told) in [
        ("nowhere", gone),
        ("nowhere-else", gone),
        ("a.yaml", "read manifest a.yaml: Too many levels of symbolic links (os error 40)"),
    ] {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(target, &link).unwrap();
        world.check("=", &[told]);
        world.check("=", &[]);
    }
    fs::remove_file(&link).unwrap();
    world.write("a.yaml", &pod("web", "i"));
    world.check("web-n1", &[]);
}

#[test]
fn a_slip_while_editing_ends_nothing() {
    let mut world = World::new();
    world.write("a.yaml", &pod("web", "i"));
    world.check("web-n1", &[]);
    world.write("a.yaml", "a: [");
    let stays = "pod web-n1 of its last good content stays until the agent is restarted";
    world.check("=", &[&format!("manifest a.yaml: line 1, column 4: unclosed bracket '['; {stays}")]);
    world.check("=", &[]);
    world.write("a.yaml", &pod("web", "i"));
    world.check("=", &[]);
    world.write("a.yaml", "");
    world.check("=", &[&format!("manifest a.yaml: empty: expected one YAML or JSON document; {stays}")]);
    // For that is all that is known of it.
    world.pods = Directory::new(world.dir.path(), "n1");
    world.check("", &["manifest a.yaml: empty: expected one YAML or JSON document"]);
    world.write("a.yaml", &pod("web", "i"));
    world.check("web-n1", &[]);
    world.remove("a.yaml");
    world.check("", &[]);
}

#[test]
fn one_pod_is_declared_once() {
    let mut world = World::new();
    world.write("a.yaml", &pod("web", "i"));
    world.write("b.yaml", &pod("web", "j"));
    world.check(
        "web-n1",
        &["manifest b.yaml: metadata.name \"default/web-n1\" is declared by a.yaml already; each pod needs its own"],
    );
    world.check("=", &[]);
    world.write("c.yaml", &pod("x", "i").replace("name: x", "name: x, uid: u"));
    world.write("d.yaml", &pod("z", "i").replace("name: z", "name: z, uid: u"));
    world.check("web-n1 x-n1", &["manifest d.yaml: metadata.uid \"u\" is declared by c.yaml already; each pod needs its own"]);
    world.remove("a.yaml");
    world.check("web-n1 x-n1", &[]);
}

#[test]
fn a_second_pod_of_a_name_is_an_event() {
    let mut world = World::new();
    world.write("a.yaml", &pod("web", "i"));
    world.write("b.yaml", &pod("web", "j").replace("name: web", "name: web, uid: u"));
    world.write("c.yaml", &pod("other", "i").replace("name: other", "name: other, uid: u"));
    world.write("d.yaml", "none");
    let report = world.pods.refresh(&Scope::All, Timestamp::UNIX_EPOCH).unwrap();
    let events: Vec<_> = report.problems.iter().filter_map(SourceError::event).collect();
    assert_eq!(report.problems.len(), 2, "{report:?}");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((events[0].warning, events[0].reason), (true, "FailedValidation"));
    let message = "Error validating pod web-n1_default(u) from file due to duplicate pod name \"web-n1\", ignoring";
    assert_eq!(events[0].message, message);
}

#[test]
fn a_copy_beside_a_manifest_ends_nothing() {
    let mut world = World::new();
    world.write("web.yaml", &pod("web", "i"));
    world.check("web-n1", &[]);
    world.write("backup-of-web.yaml", &pod("web", "i"));
    let told =
        "manifest backup-of-web.yaml: metadata.name \"default/web-n1\" is declared by web.yaml already; each pod needs its own";
    world.check("=", &[told]);
    world.write("web.yaml", &pod("web", "j"));
    world.check("web-n1", &[]);
    world.remove("backup-of-web.yaml");
    world.check("=", &[]);
}

#[test]
fn only_named_files_are_read_while_others_may_be_half_written() {
    let mut world = World::new();
    world.check("", &[]);
    world.write("a.yaml", &pod("web", "i"));
    world.write("b.yaml", "apiVersion: v1\nki");
    assert_eq!(world.look(&Scope::Names(["a.yaml".into()].into())), ("web-n1".to_owned(), Vec::new()));
    world.write("b.yaml", &pod("db", "i"));
    assert_eq!(world.look(&Scope::Names(["b.yaml".into()].into())), ("web-n1 db-n1".to_owned(), Vec::new()));
}

#[test]
fn a_single_file_is_a_source_too() {
    let world = World::new();
    world.write("web.yaml", &pod("web", "i"));
    world.write("other.yaml", &pod("other", "i"));
    let path = world.dir.path().join("web.yaml");
    let mut file = Directory::new(&path, "n1");
    let report = file.refresh(&Scope::All, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(report.pods.unwrap().len(), 1);
    world.remove("web.yaml");
    assert_eq!(file.refresh(&Scope::All, Timestamp::UNIX_EPOCH).unwrap().pods.unwrap().len(), 0);
}

#[test]
fn what_is_no_file_is_named_and_blocks_nobody() {
    let mut world = World::new();
    let pipe = world.dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    world.write("big.yaml", &" ".repeat(MAX_BYTES + 1));
    world.check("", &["manifest big.yaml: larger than 10 MiB", "read manifest pipe: not a regular file"]);
    world.check("=", &[]);
}

#[test]
fn a_stated_uid_keeps_the_pod_through_an_edit() {
    let mut world = World::new();
    world.write("a.yaml", &pod("web", "i").replace("name: web", "name: web, uid: u"));
    world.check("web-n1", &[]);
    let first = world.pods.told.clone().unwrap()[0].clone();
    world.write("a.yaml", &pod("web", "j").replace("name: web", "name: web, uid: u"));
    world.check("web-n1", &[]);
    let second = world.pods.told.clone().unwrap()[0].clone();
    assert_eq!(
        (&first.uid, first.created, &first.annotations[SEEN_ANNOTATION]),
        (&second.uid, second.created, &second.annotations[SEEN_ANNOTATION])
    );
    assert_ne!(first.object.spec, second.object.spec);
}

#[test]
fn a_link_to_nothing_is_told_once() {
    let mut world = World::new();
    world.check("", &[]);
    std::os::unix::fs::symlink("nowhere", world.dir.path().join("a.yaml")).unwrap();
    let (pods, problems) = world.look(&Scope::All);
    assert_eq!(pods, "=");
    assert!(problems.len() == 1 && problems[0].contains("a.yaml"), "{problems:?}");
    world.check("=", &[]);
}
