//! What policies remember: their own writes at once, everybody's after the answer was accepted.

mod common;

use std::sync::Arc;

use common::{answer, guest, host, load, questions};
use polylet_core::question::{Answer, Question, StoreRead};
use polylet_policy::store::BucketName;
use polylet_policy::{LoadedPolicy, PolicyHost};

const IMPORTS: &str = r#"
  (import "polylet:policy/store@0.1.0" "get" (func $get (param i32 i32 i32 i32 i32)))
  (import "polylet:policy/store@0.1.0" "set" (func $set (param i32 i32 i32 i32 i32 i32 i32)))
  (import "polylet:policy/store@0.1.0" "remove" (func $remove (param i32 i32 i32 i32)))"#;

/// Counts in the bucket of the pod, under the key "test", in one byte; answers with what it counted.
fn counter() -> Vec<u8> {
    guest::restart(
        IMPORTS,
        "",
        "(local $count i32)
        (call $get (i32.const 1) (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 700))
        (if (i32.load8_u (i32.const 700)) (then
          (local.set $count (i32.load8_u (i32.load (i32.const 704))))))
        (local.set $count (i32.add (local.get $count) (i32.const 1)))
        (i32.store8 (i32.const 800) (local.get $count))
        (call $set (i32.const 1) (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 800) (i32.const 1) (i32.const 900))
        ;; It sees its own write, which is no read of the store.
        (call $get (i32.const 1) (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 700))
        (call $wait (i64.load8_u (i32.load (i32.const 704))))",
    )
}

/// Sets a value of so many bytes under a key of so many, and answers with the refusal's number, 99 for none.
fn setter(key: u32, value: u32) -> Vec<u8> {
    guest::restart(
        IMPORTS,
        "",
        &format!(
            "(call $set (i32.const 0) (i32.const 0) (i32.const 0) (i32.const {key}) (i32.const 0) (i32.const {value}) (i32.const 900))
            (if (result i32) (i32.load8_u (i32.const 900))
              (then (call $wait (i64.load8_u (i32.const 901))))
              (else (call $wait (i64.const 99))))"
        ),
    )
}

#[track_caller]
fn delay(host: &PolicyHost, policy: &LoadedPolicy, question: &Arc<Question>, commit: bool) -> u64 {
    let asked = host.ask_policy(policy, question);
    if commit {
        let writes = asked.writes;
        host.commit(writes).unwrap();
        return delay_of(asked.verdict.answer.unwrap());
    }
    delay_of(answer(asked))
}

fn delay_of(answer: Option<Answer>) -> u64 {
    match answer {
        Some(Answer::Restart(answer)) => answer.delay,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_an_accepted_answer_is_remembered() {
    let host = host();
    let policy = load(&host, counter());
    let question = questions::restart();
    assert_eq!(delay(&host, &policy, &question, false), 1);
    assert_eq!(delay(&host, &policy, &question, true), 1);
    assert_eq!(delay(&host, &policy, &question, true), 2);
    let mut another = Question::clone(&question);
    another.words.pods[0].uid = "another".into();
    assert_eq!(delay(&host, &policy, &Arc::new(another), true), 1);
    host.store().forget_pod(&question.words.pods[0].uid.as_str().into());
    assert_eq!(delay(&host, &policy, &question, true), 1);
}

#[test]
fn reads_are_recorded_and_own_writes_are_not_reads() {
    let host = host();
    let policy = load(&host, counter());
    let question = questions::restart();
    delay(&host, &policy, &question, true);
    let reads = host.ask_policy(&policy, &question).verdict.store_reads;
    assert_eq!(reads, [StoreRead { pod: Some(0), key: "test".into(), value: Some(vec![1]) }]);
}

#[test]
fn the_slower_of_two_calls_loses_its_writes_and_not_its_answer() {
    let host = host();
    let policy = load(&host, counter());
    let question = questions::restart();
    let (first, second) = (host.ask_policy(&policy, &question), host.ask_policy(&policy, &question));
    host.commit(first.writes).unwrap();
    assert!(host.commit(second.writes).is_err());
    assert_eq!(delay(&host, &policy, &question, true), 2);
}

#[test]
fn memory_is_carried_across_a_swap_under_one_name() {
    let host = host();
    let question = questions::restart();
    delay(&host, &load(&host, counter()), &question, true);
    let mut heir = common::spec(guest::restart(
        IMPORTS,
        "",
        "(call $get (i32.const 1) (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 700))
        (call $wait (i64.load8_u (i32.load (i32.const 704))))",
    ));
    assert_eq!(delay(&host, &host.load(&heir).unwrap(), &question, false), 1);
    heir.name = "stranger".into();
    let stranger = host.load(&heir).unwrap();
    assert_eq!(host.ask_policy(&stranger, &question).verdict.store_reads[0].value, None);
}

#[test]
fn quotas_refuse_by_name() {
    let host = host();
    let check = |key, value, refusal| {
        let policy = load(&host, setter(key, value));
        assert_eq!(delay(&host, &policy, &questions::restart(), true), refusal, "key of {key}, value of {value} bytes");
    };
    check(128, 10, 99);
    check(129, 10, 0);
    check(8, 4097, 1);
    check(8, 4096, 2);
    check(8, 4096 - 8 - 138, 99);
    let kept = host.store().read(&BucketName { policy: "test".into(), pod: None });
    assert_eq!(kept.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>(), 4096);
}
