use serde_json::{Value, json};

use super::*;
use crate::effect::StopCause;
use crate::observed::Container as Attempt;
use crate::pod::{Deletion, Source};
use crate::record::{ContainerRecord, End, Ended, Stop};
use crate::testing::{self, attempt, pod_of, sandbox};

/// A pod and all that its status is drawn from.
#[derive(Clone)]
struct World {
    pod: Pod,
    have: Option<Observed>,
    record: PodRecord,
    waiting: BTreeMap<ContainerName, Waiting>,
    probes: BTreeMap<ContainerName, ProbeView>,
    previous: Option<v1::PodStatus>,
    config: Config,
    stopped: bool,
    now: Wall,
}

impl World {
    /// Containers are written `a`, `i:init`, `s:sidecar`, `e:ephemeral`; the runtime has nothing yet.
    fn new(policy: &str, containers: &str) -> Self {
        Self::with(policy, containers, json!({}), json!({}))
    }

    /// With further fields of the object and of each container that is not ephemeral.
    fn with(policy: &str, containers: &str, object: Value, fields: Value) -> Self {
        let (mut init, mut app, mut ephemeral) = (Vec::new(), Vec::new(), Vec::new());
        for word in containers.split_whitespace() {
            let (name, kind) = word.split_once(':').unwrap_or((word, "app"));
            let mut container = json!({"name": name, "image": "img:1"});
            match kind {
                "app" => {}
                "sidecar" => container["restartPolicy"] = json!("Always"),
                _ => assert!(matches!(kind, "init" | "ephemeral"), "{word}"),
            }
            if kind != "ephemeral" {
                merge(&mut container, &fields);
            }
            match kind {
                "app" => app.push(container),
                "ephemeral" => ephemeral.push(container),
                _ => init.push(container),
            }
        }
        let mut whole = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "generation": 3},
            "spec": {"restartPolicy": policy, "initContainers": init, "containers": app, "ephemeralContainers": ephemeral},
        });
        merge(&mut whole, &object);
        let record = PodRecord::new("u1".into(), "shop", "web", Wall(5_900));
        Self {
            pod: pod_of(whole),
            have: Some(Observed::default()),
            record,
            waiting: BTreeMap::new(),
            probes: BTreeMap::new(),
            previous: None,
            config: config(),
            stopped: false,
            now: Wall(100_500),
        }
    }

    /// What the runtime has, in a ready sandbox: `a=run`, `a#2=137`, `b=made`, `c=lost`.
    fn have(mut self, attempts: &str) -> Self {
        let mut list: Vec<Attempt> = attempts.split_whitespace().map(attempt).collect();
        list.sort_by(|a, b| (&a.name, b.attempt).cmp(&(&b.name, a.attempt)));
        self.have = Some(Observed { sandboxes: vec![sandbox("s1", true)], containers: list, ..Observed::default() });
        self
    }

    fn waits(mut self, name: &str, reason: &str) -> Self {
        self.waiting.insert(name.into(), Waiting { reason: reason.into(), message: "why".into() });
        self
    }

    fn probed(mut self, name: &str, started: bool, ready: bool) -> Self {
        self.probes.insert(name.into(), ProbeView { started, ready });
        self
    }

    fn stopped(mut self) -> Self {
        self.stopped = true;
        self
    }

    fn deleted(mut self) -> Self {
        self.pod.deletion = Some(Deletion { at: Wall(90_000), grace: None });
        self
    }

    fn of_file(mut self) -> Self {
        self.pod.source = Source::File;
        self
    }

    /// Everything so far is told, and what comes next begins from there.
    fn told(mut self) -> Self {
        self.previous = Some(self.status());
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn status(&self) -> v1::PodStatus {
        status(&Inputs {
            pod: &self.pod,
            observed: self.have.as_ref(),
            record: &self.record,
            waiting: &self.waiting,
            probes: &self.probes,
            previous: self.previous.as_ref(),
            config: &self.config,
            sandbox_ready: self.have.as_ref().is_some_and(|have| !have.sandboxes.is_empty()),
            stopped: self.stopped,
            not_given: None,
            now: self.now,
        })
    }

    /// The phase, and that a second look changes nothing.
    #[track_caller]
    fn phase(&self, expected: &str) {
        assert_eq!(self.settled().phase.as_deref(), Some(expected), "{}", self.tell());
    }

    /// The containers' statuses: `name state restarts`, state as `W(reason)`, `R`, `T<code>`, with `+` when ready, `~` when only
    /// started; `<` and the last state behind it.
    #[track_caller]
    fn containers(&self, expected: &str) {
        assert_eq!(tell(&self.settled()), expected);
    }

    #[track_caller]
    fn condition(&self, type_: &str, expected: &str) {
        let status = self.settled();
        let found = status.conditions.iter().flatten().find(|c| c.type_ == type_).map(|c| {
            let words = [Some(c.status.as_str()), c.reason.as_deref(), c.message.as_deref()];
            words.into_iter().flatten().collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found.as_deref(), Some(expected), "{type_} of {}", tell(&status));
    }

    #[track_caller]
    fn settled(&self) -> v1::PodStatus {
        let first = self.status();
        let mut again = self.clone();
        again.previous = Some(first.clone());
        again.now = Wall(self.now.0 + 60_000);
        assert_eq!(again.status(), first, "a second look differs");
        assert!(unchanged(&first, &again.status()));
        first
    }

    fn tell(&self) -> String {
        tell(&self.status())
    }
}

fn tell(status: &v1::PodStatus) -> String {
    let state = |state: &Option<v1::ContainerState>| match state {
        Some(v1::ContainerState { running: Some(_), .. }) => "R".to_owned(),
        Some(v1::ContainerState { terminated: Some(end), .. }) => match end.reason.as_deref() {
            Some("ContainerStatusUnknown") => format!("T{}?", end.exit_code),
            _ => format!("T{}", end.exit_code),
        },
        Some(v1::ContainerState { waiting: Some(w), .. }) => format!("W({})", w.reason.as_deref().unwrap_or("")),
        _ => String::new(),
    };
    let one = |c: &v1::ContainerStatus| {
        let last = state(&c.last_state);
        let mark = if c.ready {
            "+"
        } else if c.started == Some(true) {
            "~"
        } else {
            ""
        };
        let last = if last.is_empty() { last } else { format!("<{last}") };
        format!("{} {}{mark}{last} {}", c.name, state(&c.state), c.restart_count)
    };
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().map(one).collect::<Vec<_>>().join(", ")
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn config() -> Config {
    Config { node_ips: vec!["10.0.0.1".into(), "fd00::1".into()], runtime_name: "containerd".into(), ..testing::config() }
}

/// The phase of a pod of which nothing but this is known.
#[track_caller]
fn check_phase(policy: &str, containers: &str, attempts: &str, expected: &str) {
    let mut world = World::new(policy, containers).have(attempts);
    // Only the table is looked at: that a terminal phase waits for the sandbox's end is another test.
    world.have.as_mut().unwrap().sandboxes[0].state = SandboxState::NotReady;
    assert_eq!(world.status().phase.as_deref(), Some(expected), "{policy} {containers}: {attempts}");
}

#[test]
fn the_phase_follows_from_the_containers() {
    for policy in ["Always", "OnFailure", "Never"] {
        check_phase(policy, "a", "", "Pending");
        check_phase(policy, "a", "a=made", "Pending");
        check_phase(policy, "a", "a=run", "Running");
        check_phase(policy, "a b", "a=run", "Pending");
        check_phase(policy, "a b", "a=run b=0", "Running");
        check_phase(policy, "a b", "a=run b=1", "Running");
        check_phase(policy, "a", "a=lost", "Pending");
        // Ephemeral containers do not count.
        check_phase(policy, "a e:ephemeral", "a=run", "Running");
        // Init containers come first.
        check_phase(policy, "i:init a", "", "Pending");
        check_phase(policy, "i:init a", "i=run", "Pending");
        check_phase(policy, "i:init a", "i=0", "Pending");
        check_phase(policy, "i:init a", "i=0 a=run", "Running");
    }
    for (policy, well, badly) in
        [("Always", "Running", "Running"), ("OnFailure", "Succeeded", "Running"), ("Never", "Succeeded", "Failed")]
    {
        check_phase(policy, "a", "a=0", well);
        check_phase(policy, "a", "a=1", badly);
        check_phase(policy, "a b", "a=0 b=0", well);
        check_phase(policy, "a b", "a=0 b=1", badly);
        // The newest attempt speaks.
        check_phase(policy, "a", "a#0=1 a#1=0", well);
        check_phase(policy, "a", "a#0=1 a#1=run", "Running");
        // Made again, it goes on.
        check_phase(policy, "a", "a#0=1 a#1=made", "Running");
        // Sidecars that have ended do not count.
        check_phase(policy, "s:sidecar a", "s=1 a=0", well);
        check_phase(policy, "s:sidecar a", "s=run a=0", "Running");
    }
    check_phase("Never", "i:init a", "i=1", "Failed");
    check_phase("OnFailure", "i:init a", "i=1", "Pending");
    check_phase("Always", "i:init a", "i=1", "Pending");
    check_phase("Always", "i:init a", "i#0=1 i#1=run", "Pending");
    check_phase("Always", "s:sidecar a", "", "Pending");
    check_phase("Always", "s:sidecar a", "s=run", "Pending");
    check_phase("Always", "s:sidecar a", "s=made a=run", "Pending");
    check_phase("Always", "s:sidecar a", "s=run a=run", "Running");
    check_phase("Always", "s:sidecar a", "s#0=1 s#1=made a=run", "Running");
}

#[test]
fn a_container_of_its_own_policy_counts_by_it() {
    let own = |policy| World::with("Always", "a", json!({}), json!({"restartPolicy": policy})).have("a=1").stopped_sandbox();
    own("Never").phase("Failed");
    own("OnFailure").phase("Running");
    let rules = json!({
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
    });
    let ruled = |attempts| World::with("Always", "a", json!({}), rules.clone()).have(attempts).stopped_sandbox();
    ruled("a=42").phase("Running");
    ruled("a=1").phase("Failed");
    // What the node ended in order to start it anew is not over, whatever its policy.
    let owed = ContainerRecord {
        owed: Some(crate::record::Owed { id: "a-0".into(), cause: StopCause::Unhealthy }),
        ..ContainerRecord::default()
    };
    ruled("a=1").change(|w| _ = w.record.containers.insert("a".into(), owed)).phase("Running");
}

#[test]
fn a_pod_that_has_stopped_is_over() {
    for policy in ["Always", "OnFailure", "Never"] {
        let over = |containers, attempts| World::new(policy, containers).have(attempts).stopped();
        over("a", "a=0").phase("Succeeded");
        over("a b", "a=0 b=1").phase("Failed");
        over("a b", "a=0").phase("Failed");
        over("a", "").phase("Failed");
        over("i:init a", "i=0").phase("Failed");
        over("s:sidecar a", "s=137 a=0").phase("Succeeded");
    }
    // A static pod is over only by its own rules.
    let file = |policy, attempts| World::new(policy, "a").have(attempts).of_file().stopped();
    file("Always", "a=0").phase("Running");
    file("OnFailure", "a=0").phase("Succeeded");
    file("Never", "a=1").phase("Failed");
    file("Always", "").phase("Pending");
}

#[test]
fn a_terminal_phase_stays() {
    let end = |succeeded| End { succeeded, reason: Some("Evicted".into()), message: Some("low".into()) };
    let ended = World::new("Always", "a").have("a=run").stopped().change(|w| w.record.end = Some(end(false)));
    ended.phase("Failed");
    assert_eq!(ended.status().reason.as_deref(), Some("Evicted"));
    assert_eq!(ended.status().message.as_deref(), Some("low"));
    World::new("Always", "a").have("a=run").stopped().change(|w| w.record.end = Some(end(true))).phase("Succeeded");
    // As this node, or the API, showed it.
    let shown = World::new("Never", "a").have("a=0").stopped().told().change(|w| w.stopped = false).have("a#1=run");
    shown.phase("Succeeded");
    let status = json!({"status": {"phase": "Failed", "reason": "Gone", "message": "m"}});
    let api = World::with("Always", "a", status, json!({})).have("a=run");
    api.phase("Failed");
    assert_eq!(api.status().reason.as_deref(), Some("Gone"));
    api.told().condition("Ready", "False PodFailed");
}

#[test]
fn a_terminal_phase_is_told_once_nothing_runs() {
    let end = End { succeeded: false, reason: Some("DeadlineExceeded".into()), message: Some("late".into()) };
    let late = World::new("Always", "a").have("a=run").told().change(|w| w.record.end = Some(end));
    late.phase("Running");
    assert_eq!(late.status().reason, None);
    late.condition("Ready", "False PodFailed");
    let over = late.have("a=137").stopped();
    over.phase("Failed");
    assert_eq!(over.status().reason.as_deref(), Some("DeadlineExceeded"));
    // By its own rules a pod is over, and its sandbox is still there.
    let done = World::new("Never", "a").have("a=run").told().have("a=0");
    done.phase("Running");
    done.condition("Ready", "False PodCompleted");
    done.stopped().phase("Succeeded");
    // Rejected before anything ran.
    let end = End { succeeded: false, reason: Some("OutOfcpu".into()), message: None };
    World::new("Always", "a").change(|w| w.record.end = Some(end)).phase("Failed");
}

#[test]
fn a_container_is_where_its_newest_attempt_is() {
    let check =
        |containers: &str, attempts: &str, expected: &str| World::new("Always", containers).have(attempts).containers(expected);
    check("a", "", "a W(ContainerCreating) 0");
    check("i:init a", "", "i W(PodInitializing) 0, a W(PodInitializing) 0");
    check("a", "a=made", "a W() 0");
    check("a", "a=run", "a R+ 0");
    check("a", "a=137", "a T137 0");
    check("a", "a=lost", "a W() 0");
    check("a", "a#1=1 a#2=run", "a R+<T1 2");
    check("a", "a#1=1 a#2=made", "a W()<T1 2");
    check("a", "a#0=3 a#1=1 a#2=7", "a T7<T1 2");
    // Init containers in their order, others by name.
    check(
        "b:init a:init d:sidecar z y f:ephemeral e:ephemeral",
        "b=0 a=0 d=run z=run y=0 e=run",
        "b T0+ 0, a T0+ 0, d R+ 0, y T0 0, z R+ 0, e R 0, f W(PodInitializing) 0",
    );
}

#[test]
fn probes_say_started_and_ready() {
    let fields = json!({
        "startupProbe": {"exec": {"command": ["x"]}}, "readinessProbe": {"exec": {"command": ["x"]}},
    });
    for name in ["a", "s"] {
        let world =
            World::with("Always", &format!("{}a", if name == "s" { "s:sidecar " } else { "" }), json!({}), fields.clone());
        let world = world.have("s=run a=run");
        let find = |w: &World| {
            let status = w.settled();
            let lists = [status.init_container_statuses, status.container_statuses];
            let c = lists.into_iter().flatten().flatten().find(|c| c.name == name).unwrap();
            (c.started, c.ready)
        };
        // Nothing heard of the probes yet.
        assert_eq!(find(&world), (Some(false), false));
        assert_eq!(find(&world.clone().probed(name, false, true)), (Some(false), false));
        assert_eq!(find(&world.clone().probed(name, true, false)), (Some(true), false));
        assert_eq!(find(&world.clone().probed(name, true, true)), (Some(true), true));
        // Of an ended attempt probes say nothing.
        assert_eq!(find(&world.have("s=1 a=1").probed(name, true, true)), (Some(false), false));
    }
    World::new("Always", "i:init a").have("i=run").containers("i R~ 0, a W(PodInitializing) 0");
    World::new("Always", "i:init a").have("i=1").containers("i T1 0, a W(PodInitializing) 0");
}

#[test]
fn a_container_waits_for_a_reason() {
    let check = |policy: &str, attempts: &str, expected: &str| {
        World::new(policy, "a").have(attempts).waits("a", "Why").containers(expected);
    };
    check("Always", "", "a W(Why) 0");
    check("Always", "a=made", "a W(Why) 0");
    check("Always", "a=run", "a R+ 0");
    check("Always", "a=1", "a W(Why)<T1 0");
    check("Always", "a#0=1 a#1=2", "a W(Why)<T2 1");
    check("OnFailure", "a=0", "a T0 0");
    check("Never", "a=1", "a T1 0");
    // Whoever is going away waits for nothing.
    World::new("Always", "a").have("a=1").waits("a", "Why").deleted().containers("a T1 0");
    World::new("Always", "a").have("a=1").waits("a", "Why").stopped().containers("a T1 0");
    let stop = Stop { cause: StopCause::Evicted, grace_seconds: 1, since: Wall(0) };
    World::new("Always", "a").have("a=1").waits("a", "Why").change(|w| w.record.stop = Some(stop)).containers("a T1 0");
    // An init container that has done its work is not started again.
    World::new("Always", "i:init a").have("i=0").waits("i", "Why").containers("i T0+ 0, a W(PodInitializing) 0");
    World::new("Always", "i:init a").have("i=1").waits("i", "Why").containers("i W(Why)<T1 0, a W(PodInitializing) 0");
    World::new("Never", "s:sidecar a").have("s=0 a=run").waits("s", "Why").containers("s W(Why)<T0 0, a R+ 0");
}

#[test]
fn the_restart_count_never_falls() {
    let record = |attempt| ContainerRecord { attempt: Some(attempt), ..ContainerRecord::default() };
    let world = World::new("Always", "a").have("a#2=run");
    world.containers("a R+ 2");
    world.clone().change(|w| _ = w.record.containers.insert("a".into(), record(5))).containers("a R+ 5");
    world.told().have("a#1=run").containers("a R+ 2");
    World::new("Always", "a")
        .change(|w| _ = w.record.containers.insert("a".into(), record(5)))
        .containers("a W(ContainerCreating) 5");
}

#[test]
fn the_last_end_is_kept() {
    // The runtime has forgotten the attempt before.
    let once = World::new("Always", "a").have("a#0=3").told();
    once.clone().have("a#1=run").containers("a R+<T3 1");
    once.have("a#1=run").told().have("a#1=4").told().have("a#1=4").containers("a T4<T3 1");
    let ended = |id: &str, exit_code, finished| Ended {
        id: Some(id.into()),
        exit_code,
        reason: "Error".into(),
        message: String::new(),
        started: None,
        finished: Some(Wall(finished)),
    };
    let remember = |w: World, last| {
        w.change(|w| {
            _ = w.record.containers.insert("a".into(), ContainerRecord { last: Some(last), ..ContainerRecord::default() })
        })
    };
    // Nor has anybody shown it.
    remember(World::new("Always", "a").have("a#1=run"), ended("a-0", 9, 20_000)).containers("a R+<T9 1");
    remember(World::new("Always", "a").have("a#1=9"), ended("a-1", 9, 20_000)).containers("a T9 1");
    remember(World::new("Always", "a"), ended("a-0", 9, 20_000)).containers("a W(ContainerCreating)<T9 0");
    remember(World::new("Always", "a"), ended("a-0", 9, 20_000)).stopped().containers("a T9 0");
    // The later of the two.
    let shown = World::new("Always", "a").have("a#0=3 a#1=run").told().have("a#2=run");
    remember(shown.clone(), ended("a-1", 9, 90_000)).containers("a R+<T9 2");
    remember(shown, ended("a-x", 9, 1_000)).containers("a R+<T3 2");
}

#[test]
fn a_container_that_vanished_is_not_forgotten() {
    let ran = |policy: &str, containers: &str, attempts: &str| World::new(policy, containers).have(attempts).told();
    ran("Always", "a", "a=run").have("").containers("a W(ContainerCreating)<T137? 1");
    ran("Always", "a", "a=run").deleted().have("").containers("a W(ContainerCreating)<T137? 0");
    ran("Always", "a", "a#0=3 a#1=run").have("").containers("a W(ContainerCreating)<T3 1");
    ran("Always", "a", "a=0").have("").containers("a T0 0");
    ran("Always", "a", "a=made").have("").containers("a W(ContainerCreating) 0");
    ran("Always", "i:init a", "i=0 a=run").have("i=0").containers("i T0+ 0, a W(PodInitializing)<T137? 1");
    // Its phase does not fall back.
    ran("Always", "a", "a=run").have("").phase("Running");
    // Its end was seen.
    let last = Ended {
        id: Some("a-0".into()),
        exit_code: 5,
        reason: "Error".into(),
        message: String::new(),
        started: None,
        finished: None,
    };
    let record = ContainerRecord { last: Some(last), ..ContainerRecord::default() };
    let seen = ran("Always", "a", "a=run").have("").change(|w| _ = w.record.containers.insert("a".into(), record));
    seen.containers("a W(ContainerCreating)<T5 0");
    seen.deleted().containers("a T5 0");
    // The runtime cannot tell.
    ran("Always", "a", "a=run").have("a=lost").containers("a T137? 1");
    ran("Always", "a", "a=run").have("a=lost").told().have("a=lost").containers("a T137? 1");
    // An init container whose pod went on has done its work.
    World::new("Always", "i:init a").have("a=run").containers("i T0+ 0, a R+ 0");
    World::new("Always", "s:sidecar a").have("a=run").containers("s W(PodInitializing) 0, a R+ 0");
    // Before the first look, what was shown stays.
    let before = ran("Always", "i:init a b", "i=0 a#1=run b=1").change(|w| w.have = None);
    before.containers("i T0+ 0, a R+ 1, b T1 0");
    before.phase("Running");
    before.condition("PodReadyToStartContainers", "True");
}

#[test]
fn what_never_ended_is_said_to_have_ended() {
    let over = |containers, attempts| World::new("Always", containers).have(attempts).stopped();
    over("a b", "a=0").containers("a T0 0, b T137? 0");
    over("a", "a=lost").containers("a T137? 0");
    // Not initialised: only what began, and the first in any case.
    over("i:init j:init a", "").containers("i T137? 0, j W(PodInitializing) 0, a W(PodInitializing) 0");
    over("i:init j:init k:init a", "i=0 j=made").containers("i T0+ 0, j W() 0, k W(PodInitializing) 0, a W(PodInitializing) 0");
    over("i:init j:init k:init a", "i=0 j#0=1 j#1=made")
        .containers("i T0+ 0, j T137?<T1 1, k W(PodInitializing) 0, a W(PodInitializing) 0");
    over("i:init a", "i=0").containers("i T0+ 0, a T137? 0");
    over("i:init a b", "a=1").containers("i T0+ 0, a T1 0, b T137? 0");
}

#[test]
fn everything_started_over_is_told() {
    let rules = json!({
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}],
    });
    let world = World::with("Always", "a b", json!({}), rules).have("a=run b=run");
    world.condition("AllContainersRestarting", "False");
    let begun = world.told().have("a=run b=42");
    begun.condition("AllContainersRestarting", "True RestartAllContainersStarted container exited with restart policy rule");
    begun.phase("Running");
    let removed = begun.told().have("b=42");
    removed.containers("a W(RestartingAllContainers)<T137 1, b T42 0");
    removed.phase("Running");
    let gone = removed.told().have("");
    let status = gone.status();
    assert_eq!(tell(&status), "a W(RestartingAllContainers)<T137 1, b W(RestartingAllContainers)<T137 1");
    assert_eq!(status.phase.as_deref(), Some("Running"));
    gone.clone().told().have("").containers("a W(ContainerCreating)<T137 1, b W(ContainerCreating)<T137 1");
    gone.told().have("a#1=run b#1=run").containers("a R+<T137 1, b R+<T137 1");
    World::new("Always", "a").have("a=run").condition("Ready", "True");
    assert!(World::new("Always", "a").status().conditions.unwrap().iter().all(|c| c.type_ != "AllContainersRestarting"));
}

impl World {
    fn stopped_sandbox(mut self) -> Self {
        for sandbox in self.have.iter_mut().flat_map(|have| &mut have.sandboxes) {
            sandbox.state = SandboxState::NotReady;
        }
        self
    }
}

mod whole;
