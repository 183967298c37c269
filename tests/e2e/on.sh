#!/usr/bin/env bash
# Runs end-to-end tests on other ground than the machine's own:
#   on.sh containerd-2    all of them, on a current containerd and runc (lab/containerd.sh)
#   on.sh cgroup-v2       what a version of cgroups can change, in a guest with cgroup v2 (lab/guest.sh)
#   on.sh cgroup-v2-crun  the same with crun in runc's place
# Takes POLYLET_BIN, the agent, and POLYLET_E2E_ONLY; arguments after the first are for the tests.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
lab=$(realpath ../lab)
ground=${1:-}
shift || true
tests=$(cargo test --locked --workspace --no-run --message-format json 2>/dev/null |
    jq -rs '[.[] | select(.executable and .target.name == "node" and .target.kind == ["test"])][0].executable')
[[ -x $tests ]] || { echo "on.sh: the tests of polylet-e2e cannot be built" >&2; exit 1; }
export CARGO_MANIFEST_DIR=$PWD

case $ground in
containerd-2)
    where=$("$lab/containerd.sh")
    eval "$where"
    exec "$tests" "$@"
    ;;
cgroup-v2 | cgroup-v2-crun)
    if [[ $ground == cgroup-v2-crun ]]; then
        RUNC_BIN=$(command -v crun) || { echo "on.sh: crun is missing: run tests/lab/install.sh --guest" >&2; exit 1; }
        export RUNC_BIN
    fi
    dir=$(mktemp -d /tmp/polylet-guest.XXXXXX)
    trap 'rm -rf "$dir"' EXIT
    limits="basics:: restarts::out_of_memory restarts::sandbox_killed ending::removed_means_gone ending::hooks_by_http_and_sleep eviction::"
    limits+=" volumes::parts_of_volumes mounts::in_memory security::what_it_may probes::exec trouble::what_is_removed_comes_back"
    export POLYLET_E2E_ONLY=${POLYLET_E2E_ONLY:-$limits}
    # Its one processor is slow: more tests at once would wait for each other.
    "$lab/guest.sh" "$dir" "$tests" --test-threads 3 "$@"
    ;;
*)
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
