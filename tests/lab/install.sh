#!/usr/bin/env bash
# install.sh [--test] [--guest] [--all]: installs the Debian packages that the lab needs, and only those that are missing. Run as root.
# Nothing that runs now is touched, and nothing is started: a node of ours brings its own containerd.
set -euo pipefail

packages=(containerd runc containernetworking-plugins iptables busybox-static musl-tools iproute2 util-linux procps curl jq)
for option in "$@"; do
    case $option in
    # The test that makes the types of proto/ anew has a compiler of contracts, with the contracts that come with it; no build has.
    --test) packages+=(protobuf-compiler libprotobuf-dev) ;;
    # What guest.sh needs.
    --guest) packages+=(patchelf kmod crun) ;;
    # What containerd.sh needs too.
    --all) packages+=(patchelf kmod crun pkg-config libseccomp-dev) ;;
    *) echo "install: $option is no option: --test, --guest and --all are" >&2; exit 2 ;;
    esac
done

# Guests need the wasm target: where the pinned toolchain lacks it, Debian's compiler builds it (see wasm.sh).
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! sysroot=$(rustc --print sysroot) || [[ ! -d $sysroot/lib/rustlib/wasm32-unknown-unknown/lib ]]; then
    packages+=(rustc-web cargo-web rust-web-src)
fi

# What a user has from elsewhere (say, containerd.io with its own runc) serves as well, and would conflict.
declare -A command_of=([containerd]=containerd [runc]=runc [iptables]=iptables [curl]=curl [jq]=jq [protobuf-compiler]=protoc [kmod]=modprobe [crun]=crun [patchelf]=patchelf)
missing=()
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^installed //p') ||
    echo "install: not every package is there yet"
for package in "${packages[@]}"; do
    grep -qxF "$package" <<<"$installed" && continue
    name=${command_of[$package]:-}
    [[ -n $name ]] && command -v "$name" >/dev/null && continue
    missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
    echo "install: nothing to do"
    exit 0
fi

[[ $(id -u) -eq 0 ]] || { echo "install: must be root to install ${missing[*]}" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "install: no apt-get here; install by hand: ${missing[*]}" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive

# A package's scripts ask policy-rc.d before they start a service: 101 is "no". An existing policy stays.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
echo "install: apt-get update"
apt-get -qq update
for package in "${missing[@]}"; do echo "install: $package"; done
# Nothing of the user's is removed for it: a conflict is an error.
apt-get -qq install --yes --no-remove --no-install-recommends "${missing[@]}" >/dev/null
echo "install: done"
