# Sourced by run.sh and smoke.sh: a node of its own, with the agent on the sample manifests, and ways to look at it.
#
# Takes POLYLET_BIN (the agent), POLYLET_POLICIES_DIR (built policies) and POLYLET_NODE_DIR (where the node lives; a fresh
# directory under /tmp where nothing is said). Gives $node, $bin, $agent (pid), and the functions below.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
lab=$repo/tests/lab
bin=${POLYLET_BIN:-${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/polylet/target}/release/polylet}
policies=${POLYLET_POLICIES_DIR:-$repo/target/policies}
node='' agent='' made_dir=0

die() { echo "quickstart: $*" >&2; exit 1; }
now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }
seconds() { printf '%d.%02d' $(($1 / 1000)) $(($1 % 1000 / 10)); } # of milliseconds

# What a script starts in its background ignores Ctrl-C, and a shell cannot take that back: begun anew, it hears it.
hear_signals() {
    [[ -n ${SIGNALS_ARE_HEARD:-} ]] || SIGNALS_ARE_HEARD=1 exec env --default-signal=INT,QUIT,TERM "$0" "$@"
    unset SIGNALS_ARE_HEARD
}

# until_true SECONDS CMD...: true as soon as the command is; false when it has not been within that time, which $patience
# stretches on a slow machine, or before $deadline.
until_true() {
    local end=$(($(now_ms) + $1 * ${patience:-1} * 1000))
    shift
    if [[ -n ${deadline:-} ]] && ((end > deadline)); then end=$deadline; fi
    until "$@"; do
        (($(now_ms) < end)) || return 1
        sleep 0.05
    done
}

alive() { kill -0 "$1" 2>/dev/null; }
in_node() { "$lab/node.sh" exec "$node" "$@"; }

# --- The node

prepare() {
    [[ $(id -u) -eq 0 ]] || die "must be root"
    [[ -x $bin ]] || die "$bin is not there: make build, or set POLYLET_BIN"
    [[ -r $policies/gentle-restart.wasm ]] || die "$policies/gentle-restart.wasm is not there: policies/build.sh"
    command -v jq >/dev/null || die "jq is missing: run tests/lab/install.sh"
    node=${POLYLET_NODE_DIR:-}
    if [[ -z $node ]]; then
        node=$(mktemp -d "${TMPDIR:-/tmp}/polylet.XXXXXX")
        made_dir=1
    fi
    node=$(realpath -m "$node")
}

node_up() {
    "$lab/node.sh" up "$node" >&2
    # shellcheck disable=SC1091
    source "$node/env"
    # Where the command line looks for the agent; what it caches goes with the node.
    export POLYLET_SOCKET=$node/polylet.sock POLYLET_POLICY_DIR=$node/policies XDG_CACHE_HOME=$node/cache
    mkdir -p "$node"/{manifests,policies,kubelet,logs/pods}
    cat >"$node/config.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: $node/manifests
podLogsDir: $node/logs/pods
containerRuntimeEndpoint: unix://$CONTAINERD_SOCK
cgroupRoot: $CGROUP_ROOT
clusterDomain: cluster.local
healthzBindAddress: 127.0.0.1
healthzPort: 10248
failCgroupV1: false
failSwapOn: false
evictionHard: {memory.available: 50Mi}
YAML
    cat >"$node/polylet.yaml" <<YAML
apiVersion: polylet.io/v1alpha1
kind: PolyletConfiguration
policyDirectory: $node/policies
cacheDirectory: $node/policy-cache
stateDirectory: $node/polylet-state
adminSocket: $node/polylet.sock
kernelTunables: leave
YAML
}

# The agent becomes this script's child, in a session of its own: Ctrl-C is for the script, which then ends the agent.
start_agent() {
    setsid "$lab/node.sh" exec "$node" "$bin" run --config "$node/config.yaml" --polylet-config "$node/polylet.yaml" \
        --root-dir "$node/kubelet" --hostname-override quickstart >>"$node/agent.log" 2>&1 </dev/null &
    agent=$!
}

# stop_agent [SIGNAL]: waits for its end, at most ten seconds, which $patience stretches and $deadline does not shorten; its exit status.
stop_agent() {
    local pid=$agent limit=10
    [[ -n $pid ]] || return 0
    agent=''
    if alive "$pid"; then kill "-${1:-TERM}" "$pid"; fi
    if ! deadline='' until_true $limit ended "$pid" 2>/dev/null; then # Where the shell would say that it was killed.
        echo "quickstart: the agent does not end within $((limit * ${patience:-1})) s of SIG${1:-TERM}" >&2
        kill -KILL "$pid"
    fi
    wait "$pid" 2>/dev/null
}
ended() { ! alive "$1"; }

write_manifests() { # Each appears whole, under its name, in one move.
    local file
    for file in "$here"/manifests/*.yaml; do
        cp "$file" "$node/manifests/.${file##*/}"
        mv "$node/manifests/.${file##*/}" "$node/manifests/${file##*/}"
    done
}

# Ends the agent and the node, whatever state they are in.
node_down() {
    local failed=0
    stop_agent TERM || echo "quickstart: the agent ended with status $?" >&2
    unset XDG_CACHE_HOME
    if [[ -n $node ]]; then
        "$lab/node.sh" down "$node" >&2 || failed=1
        if [[ $made_dir -eq 1 && -d $node ]]; then rmdir "$node" || failed=1; fi
        node=''
    fi
    return $failed
}

# --- What the agent says

pods() { "$bin" pods -o json 2>/dev/null; }
# says EXPR: whether the jq expression, about the list of pods, holds. A pod that is not there makes it false.
says() { pods | jq -e "$words $1" >/dev/null; }
# shellcheck disable=SC2016
words='
def pod($name): .[] | select(.name == $name + "-quickstart");
def is_ready: any(.status.conditions[]?; .type == "Ready" and .status == "True");
def crasher: pod("crasher").containers.main;
'
node_ready() { "$bin" node -o json 2>/dev/null | jq -e .ready >/dev/null; }
# ready_within SECONDS: false at once when the agent has ended.
ready_within() { until_true "$1" ready_or_ended && alive "$agent"; }
ready_or_ended() { node_ready || ! alive "$agent"; }
agent_tail() { tail -n "${1:-30}" "$node/agent.log" | sed 's/^/    /' >&2; }

load_gentle() {
    "$bin" policy load --hook restart --name gentle-restart "$policies/gentle-restart.wasm" \
        --config '{"gentleCodes": [1], "delayMs": 3000}' "$@"
}
# The policy that a restart question goes to first.
restart_policy() { "$bin" policy list -o json | jq -r '[.rungs[] | select(.hook == "restart")][0].rung | if type == "object" then .bound.name else . end'; }
