#!/usr/bin/env bash
# Builds the policies: guests as modules for wasm32, then components of them, checked to import nothing but the contract.
#
#   policies/build.sh            writes DIR/NAME.wasm, and those that tests use against the node as DIR/hostile/NAME.wasm
#
# DIR is $POLYLET_POLICIES_DIR, or else target/policies; the node's build embeds DIR/default.wasm. Run it before building the
# node; with nothing changed it takes about a second and touches no file.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$repo"
out=${POLYLET_POLICIES_DIR:-$repo/target/policies}

# The guests' environment stays in a subshell: their compiler may not be the node's.
modules=$(
    eval "$(tests/lab/wasm.sh)"
    # Panic messages name source files: as paths in the tree, the same on every machine. A stack of 64 KiB instead of 1 MiB
    # keeps the memory small that the node clears after every call.
    registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
    flags="--remap-path-prefix=$registry=registry --remap-path-prefix=$repo/= -Clink-arg=-zstack-size=65536"
    export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS+=" $flags"
    "$CARGO" build --release --target wasm32-unknown-unknown --manifest-path policies/Cargo.toml \
        --workspace --lib --examples >&2
    echo "$CARGO_TARGET_DIR/wasm32-unknown-unknown/release"
)

cargo build -p polylet-policy-build
make_components() { "${CARGO_TARGET_DIR:-target}/debug/polylet-policy-build" "$@"; }

make_components --out "$out" "$modules"/polylet_{default,gentle_restart,tenant_eviction}.wasm
make_components --out "$out/hostile" --unchecked \
    "$modules"/examples/{absurd,forbidden_import,huge,loop,memory,panic,recursion,wrong_type}.wasm
make_components --out "$out/hostile" --costly "$out/default.wasm"
