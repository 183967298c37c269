#!/usr/bin/env bash
# Runs a command on a true cgroup v2 machine: user-mode Linux on the machine's own root, read-only, with memory on top of what is written.
#
#   guest.sh DIR CMD...     run CMD as root in the guest; its status is this script's. DIR, which must exist, is writable there too
#
# What is written elsewhere is kept in memory and ends with the guest; `/run` begins empty; the environment, but for TMPDIR, and the
# working directory are the caller's. It has one processor, the controllers cpu, io, memory and pids, and no way to the network;
# GUEST_MEMORY (2500M) is what it may take. Nothing of the machine is changed. What it says of itself is in DIR/console.log.
set -euo pipefail

me=$(realpath "${BASH_SOURCE[0]}")

# The first process of the guest: the machine's root, with all that is written to it kept in memory.
stack_root() {
    mount -t proc proc /proc
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/modules/lib/modules /run/upper /run/work /run/root
    mount -t hostfs -o "$GUEST_KERNEL/modules" hostfs /run/modules/lib/modules
    local module
    for module in overlay veth bridge br_netfilter {ip,ip6}table_{nat,filter} xt_comment xt_conntrack xt_MASQUERADE xt_mark xt_multiport \
        xt_addrtype xt_tcpudp xt_nat; do
        modprobe -d /run/modules "$module"
    done
    mount -t overlay -o lowerdir=/,upperdir=/run/upper,workdir=/run/work overlay /run/root
    cd /run/root
    pivot_root . mnt
    GUEST_STACKED=1 exec chroot . "$me"
}
# From then on.
guest_main() {
    local status=0
    umount -l /mnt
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mount -t devtmpfs dev /dev
    mkdir -p /dev/pts /dev/shm
    mount -t devpts devpts /dev/pts
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/lock
    ln -s /proc/self/fd /dev/fd
    # What lies on the overlay cannot be the upper part of another one, as containers need it.
    mkdir -p /guest
    mount -t tmpfs -o mode=1777 tmpfs /guest
    mkdir -p "$GUEST_DIR"
    mount -t hostfs -o "$GUEST_DIR" hostfs "$GUEST_DIR"
    # Its kernel has no nftables. A node has a `/run` of its own, hence not there.
    mkdir /guest/bin
    ln -s /usr/sbin/iptables-legacy /guest/bin/iptables
    ln -s /usr/sbin/ip6tables-legacy /guest/bin/ip6tables
    ip link set lo up
    (
        # shellcheck disable=SC1091
        source "$GUEST_DIR/environment"
        export PATH=/guest/bin:$PATH TMPDIR=/guest
        cd "$GUEST_CWD"
        mapfile -d '' command <"$GUEST_DIR/command"
        exec "${command[@]}"
    ) >"$GUEST_DIR/output" 2>&1 || status=$?
    echo "$status" >"$GUEST_DIR/status"
    sync
}

if [[ $$ -eq 1 ]]; then
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    if [[ -z ${GUEST_STACKED:-} ]]; then
        stack_root || echo "guest: no root"
    fi
    guest_main || echo "guest: it is not what it should be"
    exec poweroff -f || halt -f
fi

[[ $# -ge 2 && -d $1 ]] || { sed -n '2,9s/^# \{0,1\}//p' "$me" >&2; exit 2; }
dir=$(realpath "$1")
shift
for tool in modprobe iptables-legacy; do
    command -v "$tool" >/dev/null || { echo "guest: $tool is missing: run tests/lab/install.sh --guest" >&2; exit 1; }
done
kernel=$("$(dirname "$me")/kernel.sh")
rm -f "$dir"/{status,output,command,environment,console.log}
printf '%s\0' "$@" >"$dir/command"
{ export -p | grep -v '^declare -x [A-Za-z_0-9]*$'; printf 'export GUEST_CWD=%q\n' "$PWD"; } >"$dir/environment"
: >"$dir/output"

# Its terminal is a file: whatever the caller's is.
"$kernel/linux.uml" "mem=${GUEST_MEMORY:-2500M}" root=/dev/root rootfstype=hostfs rootflags=/ ro "init=$me" "GUEST_DIR=$dir" \
    "GUEST_KERNEL=$kernel" con=null con0=null,fd:1 "uml_dir=$dir/uml" >"$dir/console.log" 2>&1 </dev/null &
guest=$!
trap 'kill "$guest"; wait "$guest"; exit 130' INT TERM
tail --follow --lines=+1 --pid="$guest" --sleep-interval=0.2 "$dir/output" 2>/dev/null &
shown=$!
wait "$guest" || true
wait "$shown" || true
[[ -s $dir/status ]] || { echo "guest: it ended without an answer; its last words:" >&2; tail -n 20 "$dir/console.log" >&2; exit 1; }
exit "$(<"$dir/status")"
