#!/usr/bin/env bash
# Builds the kubelet that kubelet/go.mod pins, and prints where it is: `KUBELET=$(tests/lab/kubelet.sh) cargo test -p polylet-e2e`.
# Needs Go; some ten minutes of CPU once, nothing when nothing has changed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/kubelet"
cache=${POLYLET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polylet}
command -v go >/dev/null || { echo "kubelet: there is no Go: https://go.dev/dl has it" >&2; exit 1; }

mkdir -p "$cache"
exec 9>"$cache/kubelet.lock"
flock 9
key=$(cat ../kubelet.sh go.mod go.sum <(go version) | sha256sum | cut -c1-16)
bin=$cache/kubelet-$key
if [[ ! -x $bin ]]; then
    version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
    echo "kubelet: building $version" >&2
    stamp=k8s.io/component-base/version
    IFS=. read -r major minor _ <<<"${version#v}"
    CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -buildvcs=false' go build -o "$bin.new" \
        -ldflags "-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor" \
        k8s.io/kubernetes/cmd/kubelet >&2
    # Those of earlier pins are of no use any more.
    rm -f "$cache"/kubelet-????????????????
    mv "$bin.new" "$bin"
fi
echo "$bin"
