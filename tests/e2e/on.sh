#!/usr/bin/env bash
# Runs the end-to-end tests on other ground than the machine's own:
#   on.sh containerd-2    a current containerd and runc (lab/containerd.sh)
#   on.sh cgroup-v2       the same in a guest with cgroup v2 (lab/guest.sh)
#   on.sh cgroup-v2-crun  Debian's containerd with crun in such a guest
#   on.sh guests          both guests side by side; what fails in one is tried there once more
# Where there is no Go, a guest has Debian's containerd and runc. Takes POLYLET_BIN, the agent, and POLYLET_E2E_ONLY; arguments
# after the first are for the tests.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
lab=$(realpath ../lab)
ground=${1:-}
shift || true
tests=$(cargo test --locked --workspace --no-run --message-format json 2>/dev/null |
    jq -rs '[.[] | select(.executable and .target.name == "node" and .target.kind == ["test"])][0].executable')
[[ -x $tests ]] || { echo "on.sh: the tests of polylet-e2e cannot be built" >&2; exit 1; }
export CARGO_MANIFEST_DIR=$PWD

# What a guest cannot do, and why.
NEVER='hostile::a_policy_that_is_costly_to_compile a process of a guest has as many pages as the machine grants one mappings, too few for it'
readonly NEVER

current_containerd() {
    local where
    where=$("$lab/containerd.sh")
    eval "$where"
}
crun() {
    RUNC_BIN=$(command -v crun) || { echo "on.sh: crun is missing: run tests/lab/install.sh --guest" >&2; exit 1; }
    export RUNC_BIN
}
# in_guest DIR THREADS ARGS...: becomes the tests in a guest.
in_guest() {
    mkdir -p "$1"
    export POLYLET_E2E_SKIP=$NEVER POLYLET_E2E_SECONDS=400
    exec "$lab/guest.sh" "$1" "$tests" --test-threads "$2" "${@:3}"
}
# patiently DIR ARGS...: the tests in a guest, said in DIR.log. What fails is tried once more, with less beside it, in DIR.again: a machine
# that is emulated can be too slow for a test, and not for the node. DIR.count gets how many passed, failed and were skipped.
patiently() {
    local dir=$1 status=0 ok bad none failed again
    shift
    (in_guest "$dir" 4 "$@") >"$dir.log" 2>&1 || status=$?
    read -r ok bad none < <(counted "$dir.log")
    if ((bad > 0)); then
        failed=$(awk '/^test .* \.\.\. FAILED$/ { print $(NF - 2) }' "$dir.log" | tr '\n' ' ')
        echo "on.sh: failed, and tried once more: $failed" >"$dir.again"
        status=0
        (export POLYLET_E2E_ONLY=$failed; in_guest "$dir" 2 "$@") >>"$dir.again" 2>&1 || status=$?
        read -r again bad _ < <(counted "$dir.again")
        ok=$((ok + again))
    fi
    if ((status != 0 && bad == 0)); then bad=1; fi
    echo "$ok $bad $none" >"$dir.count"
}
# counted LOG: how many tests passed, failed and were skipped by it.
counted() { awk '/^test result: / { ok = $4; bad = $6; none = $8 } END { print ok + 0, bad + 0, none + 0 }' "$1"; }

case $ground in
containerd-2)
    current_containerd
    exec "$tests" "$@"
    ;;
cgroup-v2 | cgroup-v2-crun | guests)
    dir=$(mktemp -d /tmp/polylet-guest.XXXXXX)
    trap 'rm -rf "$dir"' EXIT
    ;;&
cgroup-v2)
    (
        if command -v go >/dev/null; then current_containerd; fi
        in_guest "$dir" 4 "$@"
    )
    ;;
cgroup-v2-crun)
    (
        crun
        in_guest "$dir" 4 "$@"
    )
    ;;
guests)
    (
        crun
        patiently "$dir/crun" "$@"
    ) &
    guests=("$!")
    (
        if command -v go >/dev/null; then current_containerd; fi
        patiently "$dir/runc" "$@"
    ) &
    guests+=("$!")
    trap 'kill "${guests[@]}"; wait "${guests[@]}" || true; exit 130' INT TERM
    while sleep 30 && kill -0 "${guests[@]}" 2>/dev/null; do
        echo "on.sh: after $SECONDS s: $(grep -c '^test .* \.\.\. ' "$dir/crun.log") tests with crun, $(grep -c '^test .* \.\.\. ' "$dir/runc.log") with runc"
    done
    wait "${guests[@]}" || true
    passed=0 failed=0 skipped=0
    for guest in crun runc; do
        # Not at the beginning of a line, where each would be counted again.
        for log in "$dir/$guest.log" "$dir/$guest.again"; do
            [[ ! -e $log ]] || { echo "=== with $guest"; sed 's/^/  /' "$log"; }
        done
        read -r ok bad none <"$dir/$guest.count" || { ok=0 bad=1 none=0; }
        passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + none))
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    [[ $failed -eq 0 ]]
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
