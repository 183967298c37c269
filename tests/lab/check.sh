#!/usr/bin/env bash
# Proves the lab: packages, images, guests, and two nodes at once with a pod made by raw CRI calls; then that nothing is left.
# Needs root. CRI is spoken by curl over HTTP/2, since Debian 12 has no crictl: without such a curl those checks are skipped.
set -euo pipefail

lab=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
passed=0 failed=0 skipped=0
work=$(mktemp -d /tmp/polylet-lab-check.XXXXXX)
one=$work/one two=$work/two
trap '"$lab/node.sh" down "$one" >&2; "$lab/node.sh" down "$two" >&2; rm -rf "$work"' EXIT

# check NAME CMD...: counts and prints; the output is shown only when it fails.
check() {
    local name=$1 started=${EPOCHREALTIME/./} result=ok
    shift
    if "$@" >"$work/output" 2>&1; then passed=$((passed + 1)); else result=FAILED failed=$((failed + 1)); fi
    echo "$result  $name ($(((${EPOCHREALTIME/./} - started) / 1000)) ms)"
    if [[ $result == FAILED ]]; then sed 's/^/        /' "$work/output"; fi
}
skip() { skipped=$((skipped + 1)); echo "skipped  $1: $2"; }

soon() { # soon CMD...: true within 5 s.
    local end=$((SECONDS + 5))
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.05
    done
}

# --- What the machine looks like, apart from what others do meanwhile.
machine() {
    echo "mounts: $(grep -F "$work" /proc/self/mounts)"
    echo "links: $(ip -o link | awk -F': ' '{ print $2 }' | grep -E '^(cni|node|veth)')"
    echo "namespaces: $(ip netns)"
    echo "forwarding: $(cat /proc/sys/net/ipv4/ip_forward)"
    echo "files: $(ls -d /run/containerd/* /run/netns/* /var/lib/cni /var/lib/containerd/* /opt/containerd)"
    echo "cgroups: $(find /sys/fs/cgroup -maxdepth 2 \( -name "polylet-*-$hash_one" -o -name "polylet-*-$hash_two" -o -name k8s.io -o -name default \))"
    echo "processes: $(grep -lszF "POLYLET_LAB_INSIDE=$work" /proc/[0-9]*/environ)"
} 2>/dev/null

# --- Protobuf and gRPC, as far as needed here. Messages are hex.
varint() { if (($1 < 128)); then printf '%02x' "$1"; else printf '%02x' $(($1 % 128 + 128)) && varint $(($1 / 128)); fi; }
field() { varint $(($1 * 8 + 2)) && varint $((${#2} / 2)) && printf '%s' "$2"; }
text() { field "$1" "$(printf '%s' "$2" | od -An -v -tx1 | tr -d ' \n')"; }
number() { varint $(($1 * 8)) && varint "$2"; }
rpc() { # rpc METHOD MESSAGE: calls node one; the answer's bytes, strings readable, to stdout.
    # shellcheck disable=SC2059
    printf "$(printf '00%08x%s' $((${#2} / 2)) "$2" | sed 's/../\\x&/g')" >"$work/request"
    curl --silent --show-error --max-time 30 --http2-prior-knowledge --unix-socket "$one/containerd.sock" \
        --header 'content-type: application/grpc' --header 'te: trailers' --data-binary "@$work/request" \
        --dump-header "$work/headers" --output "$work/answer" "http://localhost/runtime.v1.RuntimeService/$1" || return 1
    grep -qi '^grpc-status: 0' "$work/headers" || { cat "$work/headers" >&2; return 1; }
    tr -c '[:print:]\n' '\n' <"$work/answer"
}
first_id() { grep -oE -m1 '[0-9a-f]{64}' <<<"$1"; }

run_pod() { # Sets $sandbox, $container and $ip.
    local config image answer
    config=$(field 1 "$(text 1 web; text 2 uid-1; text 3 default)"; text 2 web; text 3 "$work/logs"
        field 5 "$(number 2 8080; number 3 18080)"; field 8 "$(text 1 "$CGROUP_ROOT/pod1")")
    answer=$(rpc RunPodSandbox "$(field 1 "$config")") || return 1
    sandbox=$(first_id "$answer")
    image=$(text 1 polylet.local/busybox:1)
    answer=$(rpc CreateContainer "$(text 1 "$sandbox"
        field 2 "$(field 1 "$(text 1 httpd)"; field 2 "$image"; text 3 sh; text 3 -c
            text 3 'echo hello >/tmp/index.html; httpd -f -p 8080 -h /tmp')"; field 3 "$config")") || return 1
    container=$(first_id "$answer")
    rpc StartContainer "$(text 1 "$container")" || return 1
    ip=$(cd "$one/cni/ipam/polylet" && grep -lF "$sandbox" 10.*) # Where host-local notes whose an address is.
}

# answers NODE ADDRESS PORT: an HTTP request from inside the node is answered.
answers() {
    # shellcheck disable=SC2016
    "$lab/node.sh" exec "$1" timeout 1 bash -c \
        'exec 3<>"/dev/tcp/$0/$1" && printf "GET /index.html HTTP/1.0\r\n\r\n" >&3 && grep -q hello <&3' "$2" "$3"
}
silent() { ! answers "$@" 2>/dev/null; }
in_ctr() { local node=$1; shift; "$lab/node.sh" exec "$node" "$CTR" --address "$node/containerd.sock" --namespace k8s.io "$@"; }
user_of() { [[ $(in_ctr "$one" run --rm --cgroup "$CGROUP_ROOT/user" "polylet.local/busybox:$1" "user$1" id -u) == "$2" ]]; }
in_own_cgroup() { # Every process of the container, below the node's root in each hierarchy.
    local pid
    pid=$(in_ctr "$one" task ls | awk -v id="$container" '$1 == id { print $2 }')
    [[ -n $pid ]] && ! grep -v -e ":$CGROUP_ROOT/pod1/" -e '^0::/$' "/proc/$pid/cgroup"
}
pause_pid() { in_ctr "$one" task ls | awk -v id="$sandbox" '$1 == id { print $2 }'; }
childless() { [[ -z $(ps -o pid= --ppid "$1") ]]; }
pause_reaps() { # An orphan in the pod's process namespace becomes its child.
    local pid
    pid=$(pause_pid)
    nsenter --target "$pid" --pid sh -c '(sleep 0.2 &)' && ! childless "$pid" && soon childless "$pid"
}
ends() { in_ctr "$one" task ls | awk -v id="$1" '$1 == id && $3 == "STOPPED" { found = 1 } END { exit !found }'; }
pause_ends() { # pause_ends SIGNAL
    in_ctr "$one" run --detach --cgroup "$CGROUP_ROOT/pause" polylet.local/pause:1 "pause$1" &&
        in_ctr "$one" task kill --signal "$1" "pause$1" && soon ends "pause$1" && in_ctr "$one" container rm "pause$1"
}
same_images() {
    local dir=${POLYLET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polylet}/images
    "$lab/images.sh" && POLYLET_CACHE=$work/cache "$lab/images.sh" &&
        cmp "$dir/pause.tar" "$work/cache/images/pause.tar" && cmp "$dir/busybox.tar" "$work/cache/images/busybox.tar"
}
guest_builds() {
    mkdir -p "$work/guest"
    printf '[package]\nname = "tiny"\nedition = "2024"\n[lib]\npath = "lib.rs"\ncrate-type = ["cdylib"]\n[profile.release]\nlto = true\n' >"$work/guest/Cargo.toml"
    # shellcheck disable=SC2016
    echo '#[unsafe(no_mangle)] pub extern "C" fn f(n: u32) -> usize { (0..n).map(|i| i.to_string()).collect::<String>().len() }' >"$work/guest/lib.rs"
    (
        environment=$("$lab/wasm.sh") && eval "$environment" && cd "$work/guest" && CARGO_TARGET_DIR=$work/guest/target \
            "$CARGO" build --release --target wasm32-unknown-unknown &&
            [[ $(head -c4 target/wasm32-unknown-unknown/release/tiny.wasm | tail -c3) == asm ]]
    )
}
nothing_left() { machine >"$work/after" && diff "$work/before" "$work/after" && [[ ! -e $one && ! -e $two ]]; }

check "install: nothing is missing, or it is installed" "$lab/install.sh"
check "install: the second time there is nothing to do" grep -q 'nothing to do' <("$lab/install.sh")
check "images: the same inputs give the same bytes" same_images
check "guests: a crate with std builds for wasm32, with LTO" guest_builds

hash_one=$(sha256sum <<<"$one" | cut -c1-6) hash_two=$(sha256sum <<<"$two" | cut -c1-6)
machine >"$work/before"
check "node: up" "$lab/node.sh" up "$one"
check "node: a second one beside it" "$lab/node.sh" up "$two"
# shellcheck disable=SC1091
source "$one/env"
check "node: what is mounted in its directory reaches containers" \
    "$lab/node.sh" exec "$one" grep -qE " $one rw.* shared:" /proc/self/mountinfo
check "images: the user by number" user_of 1-user 1000
check "images: the user by name" user_of 1-named 65533
check "images: pause ends on SIGTERM" pause_ends SIGTERM
check "images: pause ends on SIGINT" pause_ends SIGINT
if [[ $(curl --version) == *HTTP2* ]]; then
    check "pod: sandbox, network and container by CRI calls" run_pod
    check "pod: its web server answers at the pod's address" soon answers "$one" "${ip:-}" 8080
    check "pod: the host port answers at the node's address" soon answers "$one" "$NODE_IP" 18080
    check "pod: the host port answers on loopback" soon answers "$one" 127.0.0.1 18080
    check "pod: the other node does not see it" silent "$two" "${ip:-}" 8080
    check "pod: its cgroups are below the node's own" in_own_cgroup
    check "pod: pause reaps orphans" pause_reaps
    check "containerd: killed" "$lab/node.sh" stop-containerd "$one" --kill
    check "containerd: the pod lives on without it" answers "$one" "${ip:-}" 8080
    check "containerd: started again" "$lab/node.sh" start-containerd "$one"
    check "containerd: knows the pod" rpc PodSandboxStatus "$(text 1 "${sandbox:-}")"
    check "containerd: ended in order" "$lab/node.sh" stop-containerd "$one"
else
    skip "pod and containerd (12 checks)" "curl with HTTP/2 is not here"
fi
check "node: down, with a pod running and containerd gone" "$lab/node.sh" down "$one"
check "node: down the other" "$lab/node.sh" down "$two"
check "machine: nothing is left" nothing_left

rm -rf "$work"
trap - EXIT
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
