#!/usr/bin/env bash
# Everything that CI holds to be true: what is missing is installed, all is built, all tests run, the style is checked.
# Each step is bounded, none hides a later one, and all together end within TEST_SECONDS (5100). The last line sums up:
# N passed, N failed, N skipped. A step that counts nothing itself counts as one. Fails if anything failed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/polylet/target}
export POLYLET_BIN=$CARGO_TARGET_DIR/debug/polylet CARGO_INCREMENTAL=0
# The profile is not the product's, and the machine may be busy with other jobs.
export SMOKE_SECONDS=${SMOKE_SECONDS:-240}
deadline=$((SECONDS + ${TEST_SECONDS:-5100}))
passed=0 failed=0 skipped=0 verdicts=()
log=$(mktemp)
running=''
trap 'rm -f "$log"' EXIT
trap 'if [[ -n $running ]]; then kill "$running"; wait "$running" || exit 130; fi; exit 130' INT TERM

# step NAME SECONDS CMD...: runs it, shows it, counts what it counted.
step() {
    local name=$1 limit=$2 began=$SECONDS status=0 left=$((deadline - SECONDS)) ok bad none tee verdict
    shift 2
    echo "=== $name"
    if ((left < limit)); then limit=$((left > 0 ? left : 1)); fi
    exec 3> >(exec tee "$log")
    tee=$!
    timeout --kill-after=60 "$limit" "$@" >&3 2>&1 3>&- &
    running=$!
    exec 3>&-
    wait "$running" || status=$?
    running=''
    # What a step has left running may hold its output open.
    for _ in {1..100}; do runs "$tee" || break; sleep 0.1; done
    if runs "$tee"; then kill "$tee"; fi
    read -r ok bad none < <(awk '
        /^test result: /                                  { ok += $4; bad += $6; none += $8 }
        /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/  { ok += $1; bad += $3; none += $5 }
        END                                               { print ok + 0, bad + 0, none + 0 }' "$log")
    if ((status == 0 && ok + bad + none == 0)); then ok=1; fi
    if ((status != 0 && bad == 0)); then bad=1; fi
    verdict=ok
    if ((status != 0 || bad > 0)); then verdict=FAILED; fi
    if ((status == 124 || status == 137)); then verdict="FAILED (ended after $limit s)"; fi
    verdicts+=("$(printf '%-28s %5d s  %5d passed %4d failed %4d skipped  %s' \
        "$name" $((SECONDS - began)) "$ok" "$bad" "$none" "$verdict")")
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + none))
}
runs() { grep -qs '^State:.[^ZX]' "/proc/$1/status"; }
# without TOOL NAME...: the steps that need what is not here.
without() {
    local tool=$1 name
    shift
    for name in "$@"; do
        skipped=$((skipped + 1))
        verdicts+=("$(printf '%-28s %52s' "$name" "skipped: there is no $tool")")
    done
}

step "packages" 900 tests/lab/install.sh --test
step "policies" 1800 policies/build.sh
step "build" 2700 cargo build --locked --workspace --lib --bins --tests
step "tests of the node" 2400 cargo test --locked --workspace --no-fail-fast
# Where the cgroups are v2, they stay among the skipped of the step before.
if [[ ! -e /sys/fs/cgroup/cgroup.controllers ]]; then
    step "cgroup v1" 600 cargo test --locked --workspace --lib -- --ignored v1_
fi
step "tests of guests and SDK" 900 cargo test --locked --manifest-path policies/Cargo.toml --workspace --no-fail-fast
# The node again, on other ground than the machine's own.
step "packages for other ground" 900 tests/lab/install.sh --all
if command -v go >/dev/null; then
    step "current containerd" 1500 tests/lab/containerd.sh
    step "node on a current containerd" 1200 tests/e2e/on.sh containerd-2
else
    without go "current containerd" "node on a current containerd"
fi
step "node on cgroup v2" 2400 tests/e2e/on.sh guests
step "lab" 300 tests/lab/check.sh
step "smoke" 400 tests/quickstart/smoke.sh
if cargo fmt --version >/dev/null 2>&1; then
    step "format of the node" 60 cargo fmt --all --check
    step "format of guests and SDK" 60 cargo fmt --manifest-path policies/Cargo.toml --all --check
else
    without rustfmt "format of the node" "format of guests and SDK"
fi
if cargo clippy --version >/dev/null 2>&1; then
    step "clippy of the node" 1200 cargo clippy --locked --workspace --all-targets -- -D warnings
    step "clippy of guests and SDK" 600 cargo clippy --locked --manifest-path policies/Cargo.toml --workspace --all-targets -- -D warnings
else
    without clippy "clippy of the node" "clippy of guests and SDK"
fi
if command -v shellcheck >/dev/null; then
    step "shellcheck" 60 shellcheck --external-sources --severity=warning .ci/run policies/*.sh tests/*/*.sh
else
    without shellcheck "shellcheck"
fi

printf '\n'
printf '%s\n' "${verdicts[@]}" ''
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
