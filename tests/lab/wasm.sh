#!/usr/bin/env bash
# Makes guests (wasm32-unknown-unknown) buildable, and says with which environment.
#
#   (eval "$(tests/lab/wasm.sh)" && "$CARGO" build --release --target wasm32-unknown-unknown)
#
# Use a subshell, as above: the environment is for guests, and would rebuild the host crates with another compiler.
# Where the pinned toolchain has the target, that is used. Elsewhere Debian's rustc-web compiles the standard library,
# once, into a sysroot of our own in the cache. Only the `export` lines go to stdout.
set -euo pipefail

readonly TARGET=wasm32-unknown-unknown
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${POLYLET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/polylet}
# A caller that is itself run by cargo (a test, a build script) hands down settings of another compiler.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER

say() { echo "wasm: $*" >&2; }
die() { say "$*"; exit 1; }

# The toolchain that rust-toolchain.toml pins: "$rustup_sysroot", "$host".
cd "$repo"
rustc_v=$(rustc -vV)
host=$(sed -n 's/^host: //p' <<<"$rustc_v")
pinned_sysroot=$(rustc --print sysroot)
cargo=$pinned_sysroot/bin/cargo
[[ -x $cargo ]] || cargo=$(command -v cargo)

# Debian's compiler does not bring a linker for wasm: the pinned toolchain does.
find_linker() {
    local candidate
    for candidate in "$pinned_sysroot/lib/rustlib/$host/bin/rust-lld" "$(compgen -c wasm-ld | head -n1)"; do
        if [[ -n $candidate ]] && command -v "$candidate"; then return; fi
    done
    die "no linker for wasm: expected $pinned_sysroot/lib/rustlib/$host/bin/rust-lld, or wasm-ld of Debian's lld"
}

# build_std RUSTC SYSROOT: compiles std for the target, and puts it in place in one move.
build_std() {
    local rustc=$1 sysroot=$2 work lib
    say "building std for $TARGET with $("$rustc" -V): once, about two minutes"
    work=$(mktemp -d "$cache/wasm-std.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    printf '[package]\nname = "std-for-guests"\nedition = "2021"\n[lib]\npath = "lib.rs"\n' >"$work/Cargo.toml"
    echo '#![no_std]' >"$work/lib.rs"
    # Debian's own cargo: its unstable interface to std is of the same release as the compiler.
    # Bitcode, as in an official std: without it a guest cannot be linked with `lto = true`.
    (cd "$work" && RUSTC_BOOTSTRAP=1 RUSTC=$rustc RUSTFLAGS=-Cembed-bitcode=yes CARGO_TARGET_DIR=$work/target \
        /usr/bin/cargo build --release \
        --manifest-path "$work/Cargo.toml" --target $TARGET -Zbuild-std=std,panic_abort -Zbuild-std-features=) >&2
    lib=$work/sysroot/lib/rustlib/$TARGET/lib
    mkdir -p "$lib"
    cp "$work/target/$TARGET"/release/deps/*.rlib "$lib"
    rm "$lib"/libstd_for_guests-*.rlib
    # Build scripts and procedural macros, if a caller builds them against this sysroot, need the host's std as well.
    ln -s "$("$rustc" --print sysroot)/lib/rustlib/$host" "$work/sysroot/lib/rustlib/$host"
    rm -rf "$sysroot"
    mv "$work/sysroot" "$sysroot"
}

if [[ -d $pinned_sysroot/lib/rustlib/$TARGET/lib ]]; then
    rustc=$pinned_sysroot/bin/rustc
    [[ -x $rustc ]] || rustc=$(command -v rustc)
    flags='' linker=''
else
    rustc=/usr/bin/rustc
    [[ -x $rustc && -d /usr/lib/rustlib/src/rust/library/std ]] ||
        die "the toolchain has no $TARGET and rustc-web is not there: 'rustup target add $TARGET', or run tests/lab/install.sh"
    mkdir -p "$cache"
    # Keyed on the compiler and on how it is used.
    sysroot=$cache/wasm-sysroot-$({ "$rustc" -vV; declare -f build_std; } | sha256sum | cut -c1-16)
    if [[ ! -d $sysroot ]]; then
        exec 9>"$cache/wasm-sysroot.lock"
        flock 9
        [[ -d $sysroot ]] || build_std "$rustc" "$sysroot" 9>&-
        exec 9>&-
    fi
    flags="--sysroot=$sysroot"
    linker=$(find_linker)
fi

echo "unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTDOC"
export_line() { printf 'export %s=%q\n' "$1" "$2"; }
export_line CARGO "$cargo"
export_line RUSTC "$rustc"
export_line CARGO_TARGET_DIR "$repo/policies/target"
export_line CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS "$flags"
if [[ -n $linker ]]; then export_line CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER "$linker"; fi
