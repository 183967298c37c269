#!/usr/bin/env bash
# A node on a machine with cgroup v2 alone, inside tests/lab/guest.sh: prints on its last line, as JSON, how long a pod took to run, in
# milliseconds, or why the pod is not what it should be. Takes what lib.sh takes. Leaves the node to end with the guest.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

patience=${SMOKE_PATIENCE:-1}
no() { jq -cn --arg why "$*" '{$why}'; agent_tail; exit 1; }
# holds FILE VALUE: of the pod's cgroup.
holds() {
    local value
    value=$(cat "$pod/$1" 2>&1) || true
    [[ $value == "$2" ]] || no "$pod/$1: $value, not $2"
}

prepare
[[ $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]] || no "the guest has no cgroup v2"
node_up
start_agent
ready_within 30 || no "not ready: $("$bin" node 2>&1 | tr '\n' ' ')"
from=$(now_ms)
cp "$here/proofs/limits.yaml" "$node/manifests/"
until_true 30 says 'pod("limits").status.containerStatuses | any(.name == "main" and .state.running)' || no "$(pods)"
took=$(($(now_ms) - from))
pod=/sys/fs/cgroup$CGROUP_ROOT/kubepods/podlimits
holds memory.max $((48 * 1024 * 1024))
holds cpu.max "20000 100000"
# All of a container goes when its memory is at an end, and nothing of its neighbour.
until_true 30 says 'pod("limits").status.containerStatuses | any(.name == "glutton" and .state.terminated.reason == "OOMKilled")
    and any(.name == "main" and .state.running)' || no "$(pods | jq -c "$words pod(\"limits\").status")"
# The guest ends with all that is in it.
echo "$took"
