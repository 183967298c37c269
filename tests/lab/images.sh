#!/usr/bin/env bash
# Builds the local images as OCI layouts, ready for `ctr images import`; needs no registry. Prints the files.
#   pause.tar    polylet.local/pause:1
#   busybox.tar  polylet.local/busybox:1, :1-user (image config says User 1000), :1-named (says User nobody-like)
# The same inputs give the same bytes; nothing is done when they have not changed.
set -euo pipefail

cache=${POLYLET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polylet}
images=$cache/images
busybox=${BUSYBOX_BIN:-$(command -v busybox || echo /bin/busybox)}
arch=$(dpkg --print-architecture)

if [[ ! -x $busybox ]] || ! command -v musl-gcc >/dev/null; then
    echo "images: busybox-static or musl-tools is missing: run tests/lab/install.sh" >&2
    exit 1
fi

mkdir -p "$images"
exec 9>"$images/.lock"
flock 9
key=$(cat "${BASH_SOURCE[0]}" "$busybox" | sha256sum | cut -c1-16)
if [[ -f $images/.key && $(<"$images/.key") == "$key" && -f $images/pause.tar && -f $images/busybox.tar ]]; then
    printf '%s\n' "$images/pause.tar" "$images/busybox.tar"
    exit 0
fi

work=$(mktemp -d "$images/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022

tar_of() { # tar_of DIR FILE: same content, same bytes
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -C "$1" -cf "$2" .
}

# blob LAYOUT FILE: moves the file among the blobs; sets $digest and $size.
blob() {
    digest=$(sha256sum "$2" | cut -d' ' -f1)
    size=$(stat -c %s "$2")
    mkdir -p "$1/blobs/sha256"
    mv "$2" "$1/blobs/sha256/$digest"
}

# add_image LAYOUT NAME CONFIG: an image of the layer in $layer_digest and $layer_size; remembers its manifest.
add_image() {
    local layout=$1 name=$2 config=$3
    printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$arch" "$config" "$layer_digest" >"$work/json"
    blob "$layout" "$work/json"
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%s}]}' \
        "$digest" "$size" "$layer_digest" "$layer_size" >"$work/json"
    blob "$layout" "$work/json"
    manifests+=("$(printf '{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"platform":{"architecture":"%s","os":"linux"},"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}' \
        "$digest" "$size" "$arch" "$name" "${name##*:}")")
}

# layout_of LAYOUT ROOTFS: begins a layout with the root file system as its one layer.
layout_of() {
    manifests=()
    mkdir -p "$1"
    echo '{"imageLayoutVersion":"1.0.0"}' >"$1/oci-layout"
    tar_of "$2" "$work/layer"
    blob "$1" "$work/layer"
    layer_digest=$digest layer_size=$size
}

# finish LAYOUT FILE: writes the index and the archive.
finish() {
    local IFS=,
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "${manifests[*]}" >"$1/index.json"
    tar_of "$1" "$work/tar"
    mv "$work/tar" "$2"
}

# The pod's first process: reaps what its children leave behind, and ends when it is told to.
mkdir -p "$work/pause"
cat >"$work/pause.c" <<'C'
#include <signal.h>
#include <sys/wait.h>
int main(void) {
    sigset_t set;
    int sig;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, 0);
    for (;;) {
        sigwait(&set, &sig);
        if (sig != SIGCHLD)
            return 0;
        while (waitpid(-1, 0, WNOHANG) > 0)
            ;
    }
}
C
(cd "$work" && musl-gcc -static -Os -s -o pause/pause pause.c)
layout_of "$work/pause-oci" "$work/pause"
add_image "$work/pause-oci" polylet.local/pause:1 '{"Entrypoint":["/pause"]}'
finish "$work/pause-oci" "$images/pause.tar"

root=$work/busybox
mkdir -p "$root"/{bin,etc,root,tmp,home/user,var/log,var/tmp,usr}
chmod 1777 "$root/tmp" "$root/var/tmp"
cp "$busybox" "$root/bin/busybox"
chmod 755 "$root/bin/busybox"
"$busybox" --list | while read -r applet; do
    [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
done
ln -s bin "$root/sbin"
ln -s ../bin "$root/usr/bin"
printf '%s\n' root:x:0:0:root:/root:/bin/sh user:x:1000:1000::/home/user:/bin/sh \
    nobody-like:x:65533:65533::/:/bin/sh nobody:x:65534:65534::/:/bin/sh >"$root/etc/passwd"
printf '%s\n' root:x:0: user:x:1000: extra:x:2000:user nobody-like:x:65533: nogroup:x:65534: >"$root/etc/group"
layout_of "$work/busybox-oci" "$root"
common='"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Cmd":["sh"]'
add_image "$work/busybox-oci" polylet.local/busybox:1 "{$common}"
add_image "$work/busybox-oci" polylet.local/busybox:1-user "{$common,\"User\":\"1000\"}"
add_image "$work/busybox-oci" polylet.local/busybox:1-named "{$common,\"User\":\"nobody-like\"}"
finish "$work/busybox-oci" "$images/busybox.tar"

echo "$key" >"$images/.key"
printf '%s\n' "$images/pause.tar" "$images/busybox.tar"
