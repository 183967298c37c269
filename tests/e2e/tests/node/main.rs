//! The node end to end: manifests in, containers of a real containerd out. `cargo test -p polylet-e2e`, as root; see CONTRIBUTING.md.
//!
//! Most tests put their pods on one node, side by side, and wait: hence more threads than cores. Those that kill something, or
//! bind policies, have a node of their own. Each test tells what it saw instead, with the end of the agent's log. `POLYLET_E2E_ONLY`
//! names the tests to run by the beginnings of their names, `POLYLET_E2E_SKIP` those to be counted as skipped, each with the reason
//! (`swap:: too slow here; images:: no registry`); `KUBELET` names a kubelet for the test that needs one (tests/lab/kubelet.sh).

mod agent;
mod basics;
mod calls;
mod containerd;
mod ending;
mod eviction;
mod hostile;
mod images;
mod mounts;
mod names;
mod network;
mod probes;
mod restarts;
mod rotation;
mod security;
mod seeing;
mod sources;
mod swap;
mod switch;
mod trouble;
mod url;
mod volumes;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Trial};
use polylet_e2e::Node;

/// Tests at once; they wait most of the time.
const THREADS: usize = 10;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    polylet_e2e::down_on_signals();
    let mut tests = tests();
    if let Ok(only) = std::env::var("POLYLET_E2E_ONLY") {
        tests.retain(|test| is_named(test, &only));
    }
    if let Ok(skipped) = std::env::var("POLYLET_E2E_SKIP") {
        tests = tests.into_iter().map(|test| skipped_for_its_reason(test, &skipped)).collect();
    }
    let conclusion = libtest_mimic::run(&arguments, tests);
    // Nobody uses it any more: the node goes with the last reference.
    drop(shared().take());
    conclusion.exit_code()
}

/// Whether a test is among those whose beginnings these are.
fn is_named(test: &Trial, beginnings: &str) -> bool {
    beginnings.split_whitespace().any(|beginning| test.name().starts_with(beginning))
}

/// The reason stands in front of the test's name.
fn skipped_for_its_reason(test: Trial, skipped: &str) -> Trial {
    let mut all = skipped.split(';').filter_map(|one| one.trim().split_once(' '));
    match all.find(|(beginning, _)| test.name().starts_with(beginning)) {
        Some((_, reason)) => test.with_kind(reason).with_ignored_flag(true),
        None => test,
    }
}

/// Tests with a node of their own, and tests that share one.
macro_rules! tests {
    (alone { $($alone:ident: $($own:ident)*;)* } together { $($group:ident: $($test:ident)*;)* }) => {
        mixed(
            vec![$($(Trial::test(concat!(stringify!($alone), "::", stringify!($own)), || Ok($alone::$own())),)*)*],
            vec![$($(Trial::test(concat!(stringify!($group), "::", stringify!($test)), || Ok($group::$test(&node()))),)*)*],
        )
    };
}

/// One that works, then two that wait, and so on: they begin in this order.
fn mixed(alone: Vec<Trial>, together: Vec<Trial>) -> Vec<Trial> {
    let mut mixed = Vec::with_capacity(alone.len() + together.len());
    let mut together = together.into_iter();
    for one in alone {
        mixed.push(one);
        mixed.extend(together.by_ref().take(2));
    }
    mixed.extend(together);
    mixed.into_iter().map(skipped_without_a_kubelet).collect()
}

fn skipped_without_a_kubelet(test: Trial) -> Trial {
    let skipped = test.name() == "switch::from_a_kubelet_and_back" && polylet_e2e::kubelet().is_none();
    if skipped { test.with_kind("KUBELET names no kubelet").with_ignored_flag(true) } else { test }
}

fn tests() -> Vec<Trial> {
    tests! {
        alone {
            agent: killed_while_pods_run_and_one_waits killed_during_a_graceful_end killed_during_init
                   killed_and_what_runs_still_counts told_to_stop_while_pods_start
                   manifests_that_change_while_no_agent_runs told_to_stop a_second_one_is_refused
                   a_damaged_store_is_set_aside a_store_of_a_later_agent_is_set_aside;
            containerd: killed_and_started_again;
            calls: a_pod_lives_and_dies an_ephemeral_container_sees_its_target;
            eviction: a_policy_weighs_tenants limits_of_local_storage;
            rotation: no_line_is_lost;
            url: pods_of_a_url;
            images: pulled_from_a_registry;
            network: both_families_and_a_failure the_runtime_is_told_the_range written_of_a_template two_nodes;
            switch: static_pods_of_a_kubelet_run_on from_a_kubelet_and_back;
            trouble: the_runtime_is_silent no_network_is_configured what_is_removed_comes_back;
            volumes: fields_in_files behind_gates;
            security: seccomp_by_default;
            names: resolv_conf;
            seeing: anybody_may_read_where_that_is_configured;
            hostile: policies_that_are_refused a_policy_that_is_costly_to_compile policies_that_fail_when_asked;
            ending: no_dead_container_is_kept;
            restarts: a_shorter_backoff;
            sources: a_single_file all_that_is_broken_at_once;
            // Last, when little runs beside it: it is the one that works rather than waits.
            swap: ten_thousand_decisions_while_policies_are_swapped;
        }
        together {
            basics: a_pod_is_what_its_manifest_says host_network shared_process_namespace termination_messages
                    broken_manifests_stand_beside_good_ones;
            ending: grace_is_given_and_hooks_run_first hooks_by_http_and_sleep grace_ends removed_means_gone
                    changed_means_replaced deadline;
            restarts: always_and_its_backoff on_failure never rules init_in_order init_fails_for_good
                      sidecars_before_and_after a_sidecar_that_fails post_start images names_of_images too_much_is_asked_for
                      sandbox_killed out_of_memory;
            volumes: parts_of_volumes variables_from_a_file user_namespaces images_as_volumes;
            mounts: propagation recursively_read_only kinds_of_host_paths in_memory;
            security: who_runs strict_groups what_it_may seccomp host_namespaces;
            names: hosts_and_names;
            network: host_ports;
            seeing: logs_and_their_options logs_are_followed_over_a_rotation_until_the_end commands_in_containers
                    a_terminal_in_a_container all_that_is_known_of_a_pod a_table_of_pods;
            sources: a_reference_to_a_secret;
            probes: exec http http_headers_and_redirects tcp grpc startup_that_never_succeeds probes_time_out
                    a_probe_with_its_own_grace;
        }
    }
}

type Shared = Option<Result<Arc<Node>, String>>;

fn shared() -> std::sync::MutexGuard<'static, Shared> {
    static SHARED: Mutex<Shared> = Mutex::new(None);
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The node that tests share, brought up by the first that wants it. One that does not come up is not tried again.
fn node() -> Arc<Node> {
    let mut shared = shared();
    let made = shared.get_or_insert_with(|| {
        std::panic::catch_unwind(|| Arc::new(Node::up())).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.unwrap_or_else(|| "the node that tests share does not come up".to_owned())
        })
    });
    made.clone().unwrap_or_else(|why| panic!("{why}"))
}
