#!/usr/bin/env bash
# The quick start: a node of its own, the agent on four sample pods, a policy swapped while they run; then it stays until Ctrl-C or
# SIGTERM, which ends the agent and the node and leaves nothing behind. Needs root. See lib.sh for what it takes.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
hear_signals "$@"

patience=3
finish() {
    local status=$?
    trap '' INT TERM
    trap - EXIT
    echo
    echo "Ending the agent and the node …"
    node_down || status=1
    [[ $status -ne 0 ]] || echo "Nothing is left."
    exit "$status"
}
trap finish EXIT
trap 'exit 0' INT TERM

title() { printf '\n\033[1m%s\033[0m\n' "$*"; }
ago() { seconds $(($(now_ms) - $1)); }
fail() { echo "$*" >&2; agent_tail; exit 1; }

# appear SECONDS (WHAT EXPR)...: waits until all have come true, and says when each did.
declare -A awaited
appear() {
    local limit=$1
    shift
    while [[ $# -gt 0 ]]; do awaited[$1]=$2; shift 2; done
    # Late is not wrong: the machine may be busy, and whoever waits here can end it.
    until until_true "$limit" all_seen; do
        printf '  not yet after %s s: %s (see %s); waiting on\n' "$(ago "$written")" "${!awaited[*]}" "$node/agent.log"
    done
}
all_seen() {
    local what
    for what in "${!awaited[@]}"; do
        if says "${awaited[$what]}"; then
            printf '  %6s s  %s\n' "$(ago "$written")" "$what"
            unset "awaited[$what]"
        fi
    done
    [[ ${#awaited[@]} -eq 0 ]]
}
# The crasher's next delay, in words, once it waits: it may be running just now.
delay() {
    local said=''
    until_true 60 waits || fail "the crasher does not come to wait for its next start. The end of $node/agent.log:"
    echo "$said"
}
waits() {
    said=$(pods | jq -er "$words"'crasher | select(.restartDelay) | "\(.restartDelay / 1000) s\(if .restartReason then " (\(.restartReason))" else "" end)"')
}

prepare
title "A node in $node"
node_up
from=$(now_ms)
start_agent
ready_within 30 || fail "the agent is not ready after $(ago "$from") s. The end of $node/agent.log:"
echo "  the agent (pid $agent) is ready after $(ago "$from") s"

title "Four pods from $node/manifests"
written=$(now_ms)
write_manifests
appear 30 \
    "web: started, live and ready by its probes" 'pod("web") | is_ready' \
    "sidecar: the sidecar is up, then the application" 'pod("sidecar") | is_ready' \
    "crasher: has failed, and waits for its next start" 'crasher.restartDelay > 0' \
    "job: two init containers in order, then the main one; it has succeeded" 'pod("job").status.phase == "Succeeded"'
"$bin" pods

title "The restart policy, swapped while they run"
before=$(delay)
echo "  the default: the crasher's next start after $before"
from=$(now_ms)
load_gentle -o text >/dev/null || fail "the policy cannot be loaded"
echo "  loaded gentle-restart in $(ago "$from") s: exit code 1 is harmless, wait 3 s. The crasher's wait is judged anew …"
appear 60 "its next start after 3 s" 'crasher.restartDelay == 3000'
after=$(delay)
echo "  gentle-restart: the crasher's next start after $after"
"$bin" policy revert restart >/dev/null || fail "the policy cannot be reverted"
appear 60 "reverted: the default again" 'crasher.restartDelay > 3000'
after=$(delay)
echo "  the default: the crasher's next start after $after"

title "Where to look"
cat <<TEXT
  export POLYLET_SOCKET=$POLYLET_SOCKET POLYLET_POLICY_DIR=$POLYLET_POLICY_DIR
  $bin pods
  $bin node
  $bin policy list
  $bin policy log --follow
  $bin policy load --hook restart $policies/gentle-restart.wasm --config '{"gentleCodes":[1]}'
  $bin policy revert restart
  $bin explain --config $node/config.yaml --hostname-override quickstart $node/manifests/web.yaml

  rm $node/manifests/web.yaml             # and its pod ends
  cp $here/manifests/web.yaml $node/manifests    # and it starts
  tail -f $node/agent.log                 # what the agent says
  tail -f $node/logs/pods/*/*/*.log       # what the pods say
  $lab/node.sh exec $node curl -s http://127.0.0.1:10248/healthz
  $lab/node.sh exec $node curl -s http://127.0.0.1:10248/metrics

Ctrl-C ends the agent and the node.
TEXT

status=0
wait "$agent" || status=$?
agent=''
fail "the agent has ended by itself, with status $status. The end of $node/agent.log:"
