#!/usr/bin/env bash
# A private test node: containerd with runc and CNI in network and mount namespaces, cgroups and a directory of its own.
#
#   node.sh up DIR                  start a node in DIR, which must be empty or not exist
#   node.sh exec DIR CMD...         run a command inside the node's namespaces, with DIR/env in its environment
#   node.sh stop-containerd DIR [--kill]    end containerd (and only it); --kill: with SIGKILL
#   node.sh start-containerd DIR    start it again
#   node.sh link DIR OTHER          join the networks of two nodes of different numbers: each reaches the other and its pods
#   node.sh down DIR                end everything that belongs to the node, and remove it
#
# DIR/env holds what a client needs (CONTAINERD_SOCK, CGROUP_ROOT, NETNS, ...). Other binaries: CONTAINERD_BIN,
# CONTAINERD_SHIM_DIR, RUNC_BIN (crun will do), CNI_BIN_DIR. NODE_NUMBER (0–250; 0) tells its addresses from those of others.
# Several nodes live side by side; no setting of the machine is changed.
# Inside, /run and /var/log are empty tmpfs and /var/lib is copy-on-write, so that what is left there goes with the node.
set -euo pipefail

lab=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly number=${NODE_NUMBER:-0}
readonly pod_subnet=10.244.$number.0/24 node_ip=10.245.0.$((number + 2))

die() { echo "node: $*" >&2; exit 1; }

# wait_for SECONDS CMD...: until the command succeeds.
wait_for() {
    local end=$((${EPOCHREALTIME/./} + $1 * 1000000))
    shift
    until "$@"; do
        ((${EPOCHREALTIME/./} < end)) || return 1
        sleep 0.02
    done
}

alive() { [[ -e /proc/$1/stat ]] && [[ $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) != [ZX]* ]]; }

# inside CMD...: runs a command in the node's namespaces. The mark in its environment (and its children's) says whose it is.
inside() { POLYLET_LAB_INSIDE=$dir nsenter --target "$holder" --net --mount --wdns="$PWD" -- "$@"; }

# The mounted cgroup hierarchies: each v1 controller, and the unified one, whether beside them or alone.
hierarchies() { awk '$3 ~ /^cgroup2?$/ && $2 ~ "^/sys/fs/cgroup" { print $2 }' /proc/self/mounts; }

make_cgroups() {
    local mount controller file
    for mount in $(hierarchies); do
        mkdir "$mount$cgroup_root"
        # v1: a new cpuset is empty, and unusable, unless it starts as a copy.
        if [[ -e $mount$cgroup_root/cpuset.mems ]] && [[ -e $mount/cgroup.clone_children ]]; then
            cat "$mount/cpuset.cpus" >"$mount$cgroup_root/cpuset.cpus"
            cat "$mount/cpuset.mems" >"$mount$cgroup_root/cpuset.mems"
            echo 1 >"$mount$cgroup_root/cgroup.clone_children"
        fi
        # v2: what the machine hands down is handed on.
        file=$mount$cgroup_root/cgroup.controllers
        if [[ $mount == /sys/fs/cgroup ]] && [[ -e $file ]]; then
            for controller in $(<"$file"); do
                echo "+$controller" >"$mount$cgroup_root/cgroup.subtree_control"
            done
        fi
    done
}

node_cgroup_dirs() {
    local mount
    for mount in $(hierarchies); do
        if [[ -d $mount$cgroup_root ]]; then echo "$mount$cgroup_root"; fi
    done
}

write_config() {
    mkdir -p "$dir"/{root,state,tmp,opt,cni/net.d,cni/ipam}
    cat >"$dir/containerd.toml" <<EOF
version = 2
root = "$dir/root"
state = "$dir/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "$dir/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "$dir/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "polylet.local/pause:1"
restrict_oom_score_adj = true
disable_apparmor = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$cni_bin_dir"
conf_dir = "$dir/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "$runc"
SystemdCgroup = false
EOF
    cat >"$dir/cni/net.d/10-polylet.conflist" <<EOF
{"cniVersion": "0.4.0", "name": "polylet", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$dir/cni/ipam",
            "ranges": [[{"subnet": "$pod_subnet"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}]}
EOF
}

# Runs in the fresh namespaces, before anything else does.
setup_namespaces() {
    # The node's directory keeps its place above the copy-on-write /var/lib, and hands mounts on to containers.
    mount -t tmpfs -o mode=755 tmpfs /run
    # The kubelet's /var/log/containers cannot be put elsewhere by configuration.
    mount -t tmpfs -o mode=755 tmpfs /var/log
    mkdir -p /run/lock /run/lab/{dir,upper,work}
    mount --bind "$1" /run/lab/dir
    mount -t overlay -o lowerdir=/var/lib,upperdir=/run/lab/upper,workdir=/run/lab/work overlay /var/lib
    mount --bind /run/lab/dir "$1"
    umount /run/lab/dir
    mount --make-rshared "$1"
    # An address of the node other than loopback, and a default route, as a node has them.
    ip link set lo up
    ip link add node0 type veth peer name node0-peer
    ip link set node0-peer up
    ip link set node0 up
    ip address add "$node_ip/24" dev node0
    ip route add default dev node0
    echo 1 >/proc/sys/net/ipv4/ip_forward
}

# A cable between two nodes, in place of what stood for one, and the way to the other's pods.
link_to() {
    local other=$1 there other_ip other_subnet
    [[ -r $other/env ]] || die "no node in $other"
    # shellcheck disable=SC1091
    read -r there other_ip other_subnet < <(source "$other/env" && echo "$HOLDER $NODE_IP $POD_SUBNET")
    [[ $NODE_IP != "$other_ip" ]] || die "$dir and $other have the same number"
    nsenter --target "$holder" --net ip link delete node0
    nsenter --target "$there" --net ip link delete node0
    nsenter --target "$holder" --net ip link add node0 type veth peer name node0 netns "$there"
    connect "$holder" "$NODE_IP" "$other_ip" "$other_subnet"
    connect "$there" "$other_ip" "$NODE_IP" "$POD_SUBNET"
}
# connect PID IP OTHER_IP OTHER_SUBNET
connect() {
    nsenter --target "$1" --net ip link set node0 up
    nsenter --target "$1" --net ip address add "$2/24" dev node0
    nsenter --target "$1" --net ip route add default dev node0
    nsenter --target "$1" --net ip route add "$4" via "$3"
}

booted() { tail -c "+$1" "$dir/containerd.log" | grep -q 'containerd successfully booted'; }
serving_or_dead() { booted "$1" || ! alive "$pid"; }

start_containerd() {
    local from pid
    [[ ! -s $dir/containerd.pid ]] || ! alive "$(<"$dir/containerd.pid")" || die "containerd of $dir is running already"
    touch "$dir/containerd.log"
    from=$(($(stat -c %s "$dir/containerd.log") + 1))
    # No descriptor of the caller is handed down: a pipe of his would never end.
    (
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            if ((fd > 2)); then eval "exec $fd>&-"; fi
        done
        cd /
        export TMPDIR=$dir/tmp PATH=${CONTAINERD_SHIM_DIR:+$CONTAINERD_SHIM_DIR:}${containerd%/*}:$PATH
        POLYLET_LAB_INSIDE=$dir exec setsid nsenter --target "$holder" --net --mount -- \
            "$containerd" --config "$dir/containerd.toml" >>"$dir/containerd.log" 2>&1 </dev/null
    ) &
    pid=$!
    echo "$pid" >"$dir/containerd.pid"
    wait_for 60 serving_or_dead "$from" || die "containerd does not serve after 60 s: see $dir/containerd.log"
    alive "$pid" || { tail -n 5 "$dir/containerd.log" >&2; die "containerd did not start"; }
}

stop_containerd() {
    local pid signal=TERM
    [[ ${1:-} != --kill ]] || signal=KILL
    pid=$(<"$dir/containerd.pid")
    ! alive "$pid" || kill "-$signal" "$pid"
    gone() { ! alive "$pid"; }
    wait_for 10 gone || die "containerd ($pid) does not end"
    : >"$dir/containerd.pid"
}

import_images() {
    local file name jobs=()
    while read -r file; do
        name=$(basename "$file" .tar)
        inside "$ctr" --address "$dir/containerd.sock" --namespace k8s.io images import --digests \
            --base-name "polylet.local/$name" "$file" >>"$dir/import.log" 2>&1 &
        jobs+=($!)
    done <<<"$1"
    for file in "${jobs[@]}"; do
        wait "$file" || { cat "$dir/import.log" >&2; die "the images could not be imported"; }
    done
    # The CRI plugin learns of them by events, and marks what it knows.
    known() { [[ $(inside "$ctr" --address "$dir/containerd.sock" --namespace k8s.io images ls --quiet \
        'labels."io.cri-containerd.image"==managed' | grep -c '^polylet.local/[a-z]*:') -ge 4 ]]; }
    wait_for 10 known || die "the CRI plugin does not see the images: see $dir/containerd.log"
}

# Every process of the node: those in its mount namespace, those in its cgroups, and all that descend from them. Never
# the holder, this script or its callers. Shims are left out while there are others: they reap what they have started,
# where a machine's init may take seconds.
node_pids() {
    local inode=none marked='' file
    if [[ -n $holder ]] && alive "$holder"; then
        inode=$(stat -Lc %i "/proc/$holder/ns/mnt")
    else # The number may belong to another by now: go by the mark.
        for file in /proc/[0-9]*/environ; do
            if grep -qszxF "POLYLET_LAB_INSIDE=$dir" "$file"; then marked+=" ${file//[!0-9]/}"; fi
        done
    fi
    ps -e -o pid= -o ppid= -o stat= -o mntns= -o cgroup= -o comm= |
        awk -v inode="$inode" -v marked="$marked" -v root="$cgroup_root" -v holder="$holder" -v self=$$ '
        { parent[$1] = $2; state[$1] = $3; shim[$1] = $6 ~ /^containerd-shim/ }
        $4 == inode || index($5 ";", ":" root "/") || index($5 ";", ":" root ";") { ours[$1] = 1 }
        END {
            n = split(marked, list, " ")
            for (i = 1; i <= n; i++) ours[list[i]] = 1
            for (pid = self; pid in parent; pid = parent[pid]) caller[pid] = 1
            for (pid in parent) {
                for (up = pid; (up in parent) && !(up in ours) && !(up in caller); up = parent[up]) { }
                if (!(up in ours) || (up in caller) || pid == holder || state[pid] ~ /^[ZX]/) continue
                if (shim[pid]) shims = shims pid "\n"; else others = others pid "\n"
            }
            printf "%s", others ? others : shims
        }'
}

# Kills the node's processes; true when there were none. What is frozen cannot die, and is thawed first.
kill_node() {
    local pids dirs file
    pids=$(node_pids)
    [[ -n $pids ]] || return 0
    dirs=$(node_cgroup_dirs)
    # shellcheck disable=SC2086
    [[ -z $dirs ]] || find $dirs \( -name freezer.state -o -name cgroup.freeze \) 2>/dev/null | while read -r file; do
        if [[ $file == *.state ]]; then echo THAWED >"$file"; else echo 0 >"$file"; fi
    done
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null
    return 1
}

# Removes the node's cgroups, and those of containers that were started outside of its root.
remove_cgroups() {
    local mount path dirs
    grep -hos '"cgroupsPath":"/[^":]*"' "$dir"/state/io.containerd.runtime.v2.task/*/*/config.json | cut -d'"' -f4 |
        while read -r path; do
            for mount in $(hierarchies); do
                if [[ -d $mount$path ]]; then (cd "$mount" && rmdir -p ".$path" 2>/dev/null); fi
            done
        done
    dirs=$(node_cgroup_dirs)
    # shellcheck disable=SC2086
    [[ -z $dirs ]] || find $dirs -depth -type d -exec rmdir {} + 2>/dev/null
}

up() {
    local images started=${EPOCHREALTIME/./} made=0
    [[ $(id -u) -eq 0 ]] || die "must be root"
    ((${#dir} <= 80)) || die "$dir: too long a path for a Unix socket in it"
    [[ ! -e $dir ]] || [[ -z $(ls -A "$dir") ]] || die "$dir is not empty"
    containerd=$(command -v "${CONTAINERD_BIN:-containerd}") || die "containerd is missing: run tests/lab/install.sh"
    runc=$(command -v "${RUNC_BIN:-runc}") || die "runc is missing: run tests/lab/install.sh"
    ctr=$(command -v "$(dirname "$containerd")/ctr" || command -v ctr)
    cni_bin_dir=${CNI_BIN_DIR:-/usr/lib/cni}
    [[ -x $cni_bin_dir/bridge ]] || cni_bin_dir=/opt/cni/bin
    [[ -x $cni_bin_dir/bridge ]] || die "the CNI plugins are missing: run tests/lab/install.sh"
    images=$("$lab/images.sh")

    [[ -d $dir ]] || made=1
    mkdir -p "$dir"
    cgroup_root=/polylet-$(basename "$dir" | tr -c 'a-zA-Z0-9\n' -)-$(sha256sum <<<"$dir" | cut -c1-6)
    holder=''
    trap 'tail -n 3 "$dir"/*.log >&2; down' EXIT
    # First, so that a node that was cut short can be taken down.
    {
        for name in containerd ctr runc cni_bin_dir cgroup_root; do
            declare -n value=$name
            printf '%s=%q\n' "${name^^}" "$value"
        done
        printf '%s=%q\n' NODE_DIR "$dir" NODE_DIR_MADE "$made" CONTAINERD_SHIM_DIR "${CONTAINERD_SHIM_DIR:-}" \
            CONTAINERD_SOCK "$dir/containerd.sock" CNI_CONF_DIR "$dir/cni/net.d" NODE_IP "$node_ip" POD_SUBNET "$pod_subnet"
    } >"$dir/env"
    make_cgroups
    write_config

    # One process holds the namespaces, and does nothing.
    mkfifo "$dir/ready"
    exec 8<>"$dir/ready"
    export -f setup_namespaces
    export node_ip
    # shellcheck disable=SC2016
    POLYLET_LAB_INSIDE=$dir setsid unshare --net --mount --propagation private -- \
        bash -euc 'setup_namespaces "$0"; echo ok >"$0/ready"; exec -a polylet-lab-node sleep infinity' "$dir" \
        >"$dir/holder.log" 2>&1 </dev/null 8>&- &
    holder=$!
    echo "$holder" >"$dir/holder.pid"
    read -r -t 60 -u 8 _ || die "the namespaces are not ready after 60 s"
    exec 8>&-
    rm "$dir/ready"

    printf '%s=%q\n' HOLDER "$holder" NETNS "/proc/$holder/ns/net" MNTNS "/proc/$holder/ns/mnt" >>"$dir/env"
    start_containerd
    import_images "$images"
    trap - EXIT
    echo "node $dir: $("$containerd" --version | cut -d' ' -f3), pid $(<"$dir/containerd.pid"), namespaces of pid $holder," \
        "cgroups below $cgroup_root, ready after $(((${EPOCHREALTIME/./} - started) / 1000)) ms"
}

load() {
    [[ -r $dir/env ]] || die "no node in $dir"
    # shellcheck disable=SC1091
    source "$dir/env"
    # shellcheck disable=SC2153
    containerd=$CONTAINERD ctr=$CTR cgroup_root=$CGROUP_ROOT holder=${HOLDER:-}
    [[ $NODE_DIR == "$dir" ]] || die "$dir/env describes the node $NODE_DIR"
}

down() {
    trap - EXIT
    wait_for 10 kill_node || die "processes of $dir do not end: $(node_pids | tr '\n' ' ')"
    wait_for 10 remove_cgroups || die "cgroups below $cgroup_root are still in use"
    if [[ -n $holder ]] && alive "$holder"; then kill -KILL "$holder"; fi
    find "$dir" -mindepth 1 -xdev -delete
    [[ ${NODE_DIR_MADE:-${made:-0}} -eq 0 ]] || rmdir "$dir"
}

[[ $# -ge 2 ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
command=$1
dir=$(realpath -m "$2")
shift 2
case $command in
up) up ;;
exec)
    load
    set -a
    # shellcheck disable=SC1091
    source "$dir/env"
    set +a
    alive "$holder" || die "the node in $dir is gone"
    POLYLET_LAB_INSIDE=$dir exec nsenter --target "$holder" --net --mount --wdns="$PWD" -- "$@"
    ;;
stop-containerd) load && stop_containerd "$@" ;;
start-containerd) load && start_containerd ;;
link) load && link_to "$(realpath -m "${1:?}")" ;;
down)
    [[ -e $dir/env ]] || { echo "node: nothing in $dir"; exit 0; }
    load && down
    ;;
*) die "unknown command $command" ;;
esac
