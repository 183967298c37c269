#!/usr/bin/env bash
# Proves the quick start: a node, four sample pods, a policy swapped and reverted, pods that prove what they are given, the agent killed,
# a clean end; and beside it a node in a guest with cgroup v2.
# One line of JSON for each check on stdout, {"check":…,"ok":…,"figure":…,"unit":…}, with "why" where it failed; what is left to say on
# stderr. Exits 0 only if all hold and the whole, clean end included, took at most SMOKE_SECONDS (60). Needs root. See lib.sh for what it
# takes.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
hear_signals "$@"

passed=0 failed=0 skipped=0
began=$(now_ms)
budget=$((${SMOKE_SECONDS:-60} * 1000))
# A fourth of the time is the clean end's: whatever fails before, the node goes down in time.
deadline=$((began + budget * 3 / 4))
patience=$(((${SMOKE_SECONDS:-60} + 59) / 60))
guest='' guest_dir=''
trap 'end_guest; node_down' EXIT
trap 'exit 130' INT TERM

# check NAME UNIT: runs check_NAME, which sets $figure, or $why when it fails.
check() {
    local ok=true name=$1 unit=$2
    figure=null why=''
    if "check_${name//-/_}"; then
        passed=$((passed + 1))
    else
        ok=false figure=null failed=$((failed + 1))
        if (($(now_ms) >= deadline)); then why+="${why:+; }the time is up"; fi
    fi
    jq -cn --arg check "$name" --argjson ok $ok --argjson figure "$figure" --arg unit "$unit" --arg why "$why" \
        '{$check, $ok, $figure, $unit} + if $ok then {} else {$why} end'
}
# not_reached NAME...
not_reached() {
    local name
    for name in "$@"; do
        skipped=$((skipped + 1))
        echo "{\"check\":\"$name\",\"ok\":false,\"figure\":null,\"why\":\"not reached\"}"
    done
}
no() { why=$1; return 1; }
since() { figure=$(($(now_ms) - $1)); }

# --- The checks

check_node() { # The figure: from the agent's start to Ready.
    local from
    from=$(now_ms)
    start_agent
    ready_within 20 || { no "not ready: $("$bin" node 2>&1 | tr '\n' ' ')"; return; }
    since "$from"
}

check_pods() { # From the manifests' writing to all four as they should be.
    local from
    from=$(now_ms)
    write_manifests
    until_true 25 says '(pod("web") | is_ready) and (pod("sidecar") | is_ready and .status.initContainerStatuses[0].started)
        and pod("job").status.phase == "Succeeded"
        and (pod("crasher") | .containers.main.restarts >= 1 and .status.containerStatuses[0].state.waiting.reason == "CrashLoopBackOff")' ||
        { no "$(pods | jq -c '[.[] | {name, phase: .status.phase, containers}]')"; return; }
    since "$from"
}

check_probes() { # From the loss of what readiness looks at to a pod that is not ready.
    local from
    says 'pod("web").containers.httpd.probes | length == 3 and all' ||
        { no "not all three have passed: $(pods | jq -c "$words pod(\"web\").containers")"; return; }
    in_web rm /www/ready || { no "cannot execute in the container"; return; }
    from=$(now_ms)
    until_true 10 says 'pod("web") | is_ready | not' || { no "readiness failed, and the pod is ready"; return; }
    since "$from"
    in_web touch /www/ready || { no "cannot execute in the container"; return; }
    until_true 10 says 'pod("web") | is_ready and .status.containerStatuses[0].restartCount == 0' ||
        { no "readiness passes, and the pod is not ready, or was restarted"; return; }
}
in_web() {
    local id
    id=$(pods | jq -r "$words"'pod("web").status.containerStatuses[0].containerID | ltrimstr("containerd://")')
    in_node "$CTR" --address "$CONTAINERD_SOCK" --namespace k8s.io task exec --exec-id "smoke-$RANDOM" "$id" "$@"
}

check_init() { # From the first init container's start to the main one's end. That fails unless they ran in order.
    says 'pod("job").status | .phase == "Succeeded" and ([.initContainerStatuses[], .containerStatuses[]]
        | length == 3 and all(.restartCount == 0 and .state.terminated.exitCode == 0)
        and (map(.state.terminated) | .[0].finishedAt <= .[1].startedAt and .[1].finishedAt <= .[2].startedAt))' ||
        { no "$(pods | jq -c "$words pod(\"job\").status")"; return; }
    figure=$(pods | jq "$words"'pod("job").status | (.containerStatuses[0].state.terminated.finishedAt | fromdate) * 1000
        - (.initContainerStatuses[0].state.terminated.startedAt | fromdate) * 1000')
}

check_swap() { # From the command to the policy bound.
    local from answer
    from=$(now_ms)
    answer=$(load_gentle -o json 2>&1) || { no "$answer"; return; }
    since "$from"
    [[ $(restart_policy) == gentle-restart ]] || { no "bound is $(restart_policy): $answer"; return; }
    until_true 25 says 'crasher | .restartDelay == 3000 and (.restartReason | test("gentle"))' ||
        { no "the crasher's next delay is not the policy's: $(pods | jq -c "$words crasher")"; return; }
}

check_revert() { # From the command to the default bound again.
    local from answer
    from=$(now_ms)
    answer=$("$bin" policy revert restart -o json 2>&1) || { no "$answer"; return; }
    since "$from"
    [[ $(restart_policy) != gentle-restart ]] || { no "the policy is still bound: $answer"; return; }
    until_true 15 says 'crasher | .restartDelay >= 10000 and (.restartReason // "" | test("gentle") | not)' ||
        { no "the crasher's next delay is not the default's: $(pods | jq -c "$words crasher")"; return; }
}

# proof NAME: puts a pod of proofs/ where the agent finds it.
proof() { sed "s#OUT#$node/out#" "$here/proofs/$1.yaml" >"$node/out/$1" && mv "$node/out/$1" "$node/manifests/proof-$1.yaml"; }
dismiss() { rm -f "$node/manifests/proof-$1.yaml" && until_true 25 says "all(.name != \"$1-quickstart\")"; }
# succeeded NAME: the figure is from its manifest to its end.
succeeded() {
    local from
    from=$(now_ms)
    proof "$1"
    until_true 25 says "pod(\"$1\").status.phase | IN(\"Succeeded\", \"Failed\")" && says "pod(\"$1\").status.phase == \"Succeeded\"" ||
        { no "$(pods | jq -c "$words pod(\"$1\").status | [.reason, .message, (.containerStatuses[]?.state)]")"; return; }
    since "$from"
}

check_hooks() { # From the manifest's removal to the pod gone, its last words said in order.
    local from
    proof hooks
    until_true 25 says 'pod("hooks") | is_ready' || { no "$(pods | jq -c "$words pod(\"hooks\").status")"; return; }
    # Its container runs before its hook has.
    until_true 10 hooks_said started || { no "postStart: $(written_by_hooks)"; return; }
    from=$(now_ms)
    dismiss hooks || { no "the pod does not go"; return; }
    since "$from"
    hooks_said $'started\nstopping\nterminated' || { no "not in order: $(written_by_hooks)"; return; }
}
written_by_hooks() { if [[ -e $node/out/written-hooks ]]; then cat "$node/out/written-hooks"; fi; }
hooks_said() { [[ $(written_by_hooks) == "$1" ]]; }

check_volumes() {
    local uid
    succeeded volumes || return
    uid=$(pods | jq -r "$words pod(\"volumes\").uid")
    [[ -e $node/out/written-volumes ]] || { no "nothing was written to the hostPath"; return; }
    dismiss volumes || { no "the pod does not go"; return; }
    ! in_node grep -F "$node/kubelet/pods/$uid" /proc/self/mounts || { no "mounts are left"; return; }
}

check_security() { # One that may do nothing more than it should; one that must not run.
    succeeded security || return
    proof root
    until_true 15 says 'pod("root").status.containerStatuses[0].state.waiting | .reason == "CreateContainerConfigError"
        and (.message | test("runAsNonRoot"))' || { no "$(pods | jq -c "$words pod(\"root\").status")"; return; }
    dismiss security && dismiss root || { no "the pods do not go"; return; }
}

check_cgroup_v2() { # In the guest, from a manifest to its container running.
    until_true 60 ended "$guest" || { no "the guest is not done: $(tail -n 5 "$guest_dir/output" | tr '\n' ' ')"; return; }
    if ! wait "$guest"; then
        no "$(grep '^{"why"' "$guest_dir/output" | jq -r .why) $(tail -n 1 "$guest_dir/console.log")"
        tail -n 40 "$guest_dir/output" >&2
        return 1
    fi
    figure=$(tail -n 1 "$guest_dir/output")
}
begin_guest() {
    guest_dir=$(mktemp -d /tmp/polylet-guest.XXXXXX)
    POLYLET_NODE_DIR='' SMOKE_PATIENCE=$patience setsid "$lab/guest.sh" "$guest_dir" "$here/cgroup-v2.sh" >/dev/null 2>&1 </dev/null &
    guest=$!
}
end_guest() {
    if [[ -n $guest ]] && alive "$guest"; then kill "$guest"; wait "$guest" || true; fi
    if [[ -n $guest_dir ]]; then rm -rf "$guest_dir"; fi
    guest='' guest_dir=''
}

check_restart_agent() { # From kill -9 to the next agent seeing the same pods.
    local from before tasks
    until_true 15 says 'crasher.nextRestartIn > 5000' || { no "the crasher does not wait"; return; }
    before=$(picture) tasks=$(tasks) flapped=''
    from=$(now_ms)
    stop_agent KILL && { no "kill -9 ended it with status 0"; return; }
    start_agent
    until_true 10 same_and_ready "$before" || { no "$(diff <(echo "$before") <(picture))"; return; }
    [[ -z $flapped ]] || { no "web was not ready for a while: $flapped"; return; }
    since "$from"
    sleep 1
    same "$before" || { no "later: $(diff <(echo "$before") <(picture))"; return; }
    [[ $(tasks) == "$tasks" ]] || { no "processes: $(diff <(echo "$tasks") <(tasks))"; return; }
}
# What an agent's restart must not change: containers, their starts, counts and delays, what their probes said.
picture() {
    pods | jq '[.[] | {name, uid, life, phase: .status.phase,
        conditions: (.status.conditions // [] | map({type, status})),
        containers: [(.status.initContainerStatuses, .status.containerStatuses) | .[]? | {name, containerID, restartCount, started, state}],
        own: (.containers | map_values({restarts, restartDelay, restartReason, probes}))}]'
}
same() { [[ $(picture) == "$1" ]]; }
same_and_ready() {
    # Nothing is said of a pod before the runtime has been asked; from then on it is what it was.
    if says 'pod("web") | .status.conditions and (is_ready | not)'; then flapped=$(pods | jq -c "$words"'pod("web") | .containers'); fi
    same "$1"
}
tasks() { in_node "$CTR" --address "$CONTAINERD_SOCK" --namespace k8s.io task ls | grep RUNNING | sort; }

# shellcheck disable=SC2153 # NETNS comes from the node
check_clean_exit() { # From SIGTERM to the agent's end.
    local from tasks status=0 dir=$node root=$CGROUP_ROOT netns left
    deadline=$((began + budget))
    tasks=$(tasks)
    netns=$(stat -Lc %i "$NETNS")
    from=$(now_ms)
    stop_agent TERM || status=$?
    since "$from"
    [[ $status -eq 0 ]] || { no "the agent ended with status $status"; return; }
    [[ $(tasks) == "$tasks" && -n $tasks ]] || { no "pods did not go on: $(diff <(echo "$tasks") <(tasks))"; return; }
    node_down || { no "the node does not go down"; return; }
    left=$(leftovers "$dir" "$root" "$netns")
    [[ -z $left && $(machine) == "$machine_before" ]] || { no "left: $left $(diff <(echo "$machine_before") <(machine))"; return; }
}
check_total() { # From the beginning of this script.
    since "$began"
    ((figure <= budget)) || { no "it took $(seconds "$figure") s, $(seconds "$budget") s are the most"; return; }
}
# leftovers DIR CGROUP_ROOT NETNS: what is left of the node.
leftovers() {
    if [[ -e $1 && -z ${POLYLET_NODE_DIR:-} ]]; then echo "$1"; fi
    grep -F "$1" /proc/self/mounts
    find /sys/fs/cgroup -maxdepth 2 -path "*$2"
    grep -lszF "POLYLET_LAB_INSIDE=$1" /proc/[0-9]*/environ
    find /proc/[0-9]*/ns -maxdepth 1 -name net -printf '%p %l\n' 2>/dev/null | grep -F "net:[$3]"
}
# What is the machine's, and must stay as it was.
machine() {
    local path
    for path in /var/lib/{kubelet,polylet,cni} /var/log/{pods,containers} /run/{containerd,netns,polylet} /opt/{cni,containerd}; do
        if [[ -e $path ]]; then stat -c '%n %Y' "$path"; fi
    done
    ip -o link | awk -F': ' '$2 ~ /^(cni|node0)/ { print $2 }'
    cat /proc/sys/net/ipv4/ip_forward
}

# --- In order

prepare
machine_before=$(machine)
begin_guest
node_up
mkdir "$node/out"
check node ms
if [[ $failed -eq 0 ]]; then
    check pods ms
    check probes ms
    check init ms
    check swap ms
    check revert ms
    check hooks ms
    check volumes ms
    check security ms
    check restart-agent ms
    check cgroup-v2 ms
    if [[ $failed -gt 0 ]]; then agent_tail 80; fi
    check clean-exit ms
else
    agent_tail
    not_reached pods probes init swap revert hooks volumes security restart-agent cgroup-v2 clean-exit
fi
end_guest
node_down
trap - EXIT
check total ms
echo "smoke: $(seconds $(($(now_ms) - began))) s" >&2
echo "$passed passed, $failed failed, $skipped skipped" >&2
[[ $failed -eq 0 && $skipped -eq 0 ]]
