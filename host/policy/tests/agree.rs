//! The default component and the same code linked natively give the same answers, whatever they are asked.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{answer, built, host, load, questions};
use polylet_core::ask::native;
use polylet_core::question::eviction::Starved;
use polylet_core::question::probe::{Failure, Outcome};
use polylet_core::question::restart::Cause;
use polylet_core::question::{Body, Question};

/// A sequence that is the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (self.below(4) != 0).then_some(value)
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

fn restart(random: &mut Random) -> Question {
    let mut question = Question::clone(&questions::restart());
    let Body::Restart(body) = &mut question.body else { unreachable!() };
    body.last.cause = random.of(&[Cause::Exited, Cause::Lost, Cause::ImagePullFailed, Cause::SandboxFailed]);
    body.bounds.maximum = random.of(&[1_000, 300_000]);
    let at = body.last.at;
    let updated = at.saturating_sub(random.below(1_200_000)) as i64;
    let facts = [("backoff.current", random.below(400_000) as i64), ("backoff.updated", updated)];
    question.facts.numbers = facts.into_iter().filter_map(|(name, value)| random.maybe((name.to_owned(), value))).collect();
    question
}

fn probe(random: &mut Random) -> Question {
    let mut question = Question::clone(&questions::probe());
    let Body::Probe(body) = &mut question.body else { unreachable!() };
    let failures = [Failure::Timeout, Failure::Refused, Failure::Tls, Failure::Exec, Failure::Internal];
    body.outcome = match random.below(5) {
        0 => Outcome::TcpOpen,
        1 => Outcome::Grpc(random.below(5) as u32),
        2 => Outcome::Exec { exit_code: random.below(300) as i32 - 20, output_start: String::new() },
        3 => Outcome::Failed(random.of(&failures)),
        _ => Outcome::Http {
            status: random.below(700) as u16,
            retry_after: None,
            redirected_off_host: random.below(2) == 0,
            body_start: String::new(),
        },
    };
    question
}

fn qos(random: &mut Random) -> Question {
    let mut question = Question::clone(&questions::qos());
    let Body::Qos(body) = &mut question.body else { unreachable!() };
    body.pod.traits.node_critical = random.below(4) == 0;
    for container in &mut body.containers {
        (container.cpu_request, container.cpu_limit) = (random.maybe(100), random.maybe(100));
        (container.memory_request, container.memory_limit) = (random.maybe(random.0 % (1 << 33)), random.maybe(64 << 20));
    }
    if let Some(class) = random.maybe(random.0 as i64 % 3) {
        question.facts.numbers.insert("pod.class.reported".into(), class);
    }
    question
}

fn rank(random: &mut Random) -> Question {
    let pods = random.below(40);
    let mut question = Question::clone(&questions::rank(pods as u32));
    let Body::Rank(body) = &mut question.body else { unreachable!() };
    body.shortage.starved = random.of(&[
        Starved::Memory,
        Starved::Disk,
        Starved::Inodes,
        Starved::ImageDisk,
        Starved::ImageInodes,
        Starved::ContainerDisk,
        Starved::ContainerInodes,
        Starved::Pids,
    ]);
    for candidate in &mut body.candidates {
        candidate.disk_usage = random.maybe(random.0 % 1_000);
        candidate.disk_request = random.below(1_000);
        candidate.priority = random.of(&[0, 0, i32::MIN, i32::MAX]);
    }
    let names = ["disk.rootfs", "disk.logs", "disk.volumes", "inodes.rootfs", "inodes.logs", "inodes.volumes", "processes"];
    let column =
        |random: &mut Random| (0..pods).map(|_| random.maybe(random.0 as i64 % 1_000).unwrap_or(i64::MIN)).collect::<Vec<i64>>();
    let columns: BTreeMap<String, Vec<i64>> =
        names.iter().filter_map(|name| Some(((*name).to_owned(), random.maybe(()).map(|()| column(random))?))).collect();
    question.facts.tables.insert("candidates".into(), columns);
    question.facts.numbers.extend(random.maybe(("node.disk.layout".to_owned(), random.0 as i64 % 4)));
    question
}

#[test]
fn component_and_native_agree() {
    let host = host();
    let default = load(&host, built("default"));
    let mut random = Random(7);
    for round in 0..2_000 {
        let question = match round % 5 {
            0 => restart(&mut random),
            1 => probe(&mut random),
            2 => qos(&mut random),
            3 => Question::clone(&questions::assess()),
            _ => rank(&mut random),
        };
        let question = Arc::new(question);
        assert_eq!(answer(host.ask_policy(&default, &question)), Some(native(&question)), "{:#?}", question.body);
    }
}
