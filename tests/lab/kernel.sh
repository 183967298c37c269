#!/usr/bin/env bash
# Fetches the user-mode Linux of Debian 13 with the C library that it wants, and prints the directory it is in, for guest.sh: `linux.uml`,
# `modules`. That of Debian 12 is several times slower, and maps no ids on tmpfs. It comes from the machine's own mirror; nothing is
# installed. Needs patchelf (`install.sh --guest` has it); some seconds once, nothing when nothing has changed.
set -euo pipefail

release=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
cache=${POLYLET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polylet}
die() { echo "kernel: $*" >&2; exit 1; }

mkdir -p "$cache"
exec 9>"$cache/kernel.lock"
flock 9
kernel=$cache/kernel-$(sha256sum <"${BASH_SOURCE[0]}" | cut -c1-16)
if [[ ! -d $kernel ]]; then
    command -v patchelf >/dev/null || die "patchelf is missing: run tests/lab/install.sh --guest"
    # shellcheck disable=SC1091
    codename=$(source /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(RELEASE) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$codename" '($1 == release || $2 == release) && $3 == "main" { print $4; exit }')
    [[ -n $mirror ]] || die "apt knows no mirror of Debian $codename"
    echo "kernel: user-mode Linux of Debian $release, from $mirror" >&2
    work=$(mktemp -d "$cache/.kernel.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work"/{lists,archives,debs,parts,unpacked}
    echo "deb [signed-by=$keyring] $mirror $release main" >"$work/sources.list"
    # Its own list of sources and packages: apt's are as they were.
    own() {
        apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts="$work/parts" -o Dir::State::Lists="$work/lists" \
            -o Dir::Cache="$work" -o Dir::Cache::Archives="$work/archives" -o APT::Sandbox::User=root "$@"
    }
    own update >&2
    (cd "$work/debs" && own download "user-mode-linux/$release" "libc6/$release" >&2)
    for package in "$work"/debs/*.deb; do dpkg-deb --extract "$package" "$work/unpacked"; done
    mkdir "$work/kernel"
    mv "$work/unpacked/usr/bin/linux.uml" "$work/unpacked/usr/lib/uml/modules" "$work/unpacked"/usr/lib/*/{ld-linux-*.so.2,libc.so.6} "$work/kernel/"
    patchelf --set-interpreter "$(echo "$work"/kernel/ld-linux-*.so.2 | sed "s|^$work/kernel|$kernel|")" --set-rpath "$kernel" "$work/kernel/linux.uml"
    # Those of earlier releases are of no use any more.
    rm -rf "$cache"/kernel-????????????????
    mv "$work/kernel" "$kernel"
fi
echo "$kernel"
