#!/usr/bin/env bash
# Builds a current containerd, its shim, `ctr` and runc from the versions that containerd/go.mod pins, and prints where they are, in
# shell syntax: `(eval "$(tests/lab/containerd.sh)" && tests/lab/node.sh up DIR)`. Needs Go, pkg-config and libseccomp (`install.sh --all` has
# them); some five minutes of CPU once, nothing when nothing has changed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/containerd"
cache=${POLYLET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polylet}
command -v go >/dev/null || { echo "containerd: there is no Go: https://go.dev/dl has it" >&2; exit 1; }
pkg-config --exists libseccomp || { echo "containerd: libseccomp-dev or pkg-config is missing: run tests/lab/install.sh --all" >&2; exit 1; }

mkdir -p "$cache"
exec 9>"$cache/containerd.lock"
flock 9
key=$(cat ../containerd.sh go.mod go.sum <(go version) | sha256sum | cut -c1-16)
bin=$cache/containerd-$key
if [[ ! -d $bin ]]; then
    echo "containerd: building $(go list -m github.com/containerd/containerd/v2 github.com/opencontainers/runc | tr '\n' ' ')" >&2
    work=$(mktemp -d "$cache/.containerd.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    export GOFLAGS='-mod=readonly -trimpath -buildvcs=false'
    containerd=github.com/containerd/containerd/v2/cmd
    CGO_ENABLED=0 go build -ldflags '-s -w' -tags no_btrfs,no_devmapper,no_zfs -o "$work/" \
        "$containerd/containerd" "$containerd/containerd-shim-runc-v2" "$containerd/ctr" >&2
    CGO_ENABLED=1 go build -ldflags '-s -w' -tags seccomp -o "$work/" github.com/opencontainers/runc >&2
    # Those of earlier pins are of no use any more.
    rm -rf "$cache"/containerd-????????????????
    chmod 755 "$work"
    mv "$work" "$bin"
    trap - EXIT
fi
printf 'export CONTAINERD_BIN=%q CONTAINERD_SHIM_DIR=%q RUNC_BIN=%q\n' "$bin/containerd" "$bin" "$bin/runc"
