# The commands of this tree. `make run` and `make test` need root and Debian; CONTRIBUTING.md says what to use in between.
#
#   make run PROFILE=dev     a faster build, a slower agent
#   make run POLYLET_BIN=…   an agent that is built already; policies are built only where there are none
#   CARGO_TARGET_DIR=…       where the node is built: outside of the clone, so that clones share it

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: run smoke test bench build policies packages fmt lint clean

PROFILE ?= release
CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/polylet/target
export CARGO_TARGET_DIR
built := $(wildcard $(or $(POLYLET_POLICIES_DIR),target/policies)/gentle-restart.wasm)
agent := $(if $(POLYLET_BIN),$(if $(built),packages,policies),build)
export POLYLET_BIN ?= $(CARGO_TARGET_DIR)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/polylet

# A node on this machine with sample pods, until Ctrl-C.
run: $(agent)
	@tests/quickstart/run.sh

# The same without staying: a line of JSON for each check.
smoke: $(agent)
	@tests/lab/install.sh --guest
	@tests/lab/kernel.sh >/dev/null
	@tests/quickstart/smoke.sh

# Everything that CI runs. It builds for itself, and once.
test:
	@tests/quickstart/test.sh

# Figures, into target/bench/report.json: some five minutes beyond the build.
bench: policies
	cargo build --locked --profile $(PROFILE) --package polylet --package polylet-bench
	mkdir -p target/bench
	$(CARGO_TARGET_DIR)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/polylet-bench >target/bench/report.json.new
	mv target/bench/report.json.new target/bench/report.json
	@cat target/bench/report.json

build: policies
	cargo build --locked --profile $(PROFILE) --package polylet

# Components of the policies, into target/policies. The node embeds the default one.
policies: packages
	policies/build.sh

packages:
	@tests/lab/install.sh

fmt:
	cargo fmt --all
	cargo fmt --all --manifest-path policies/Cargo.toml

lint:
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path policies/Cargo.toml
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --manifest-path policies/Cargo.toml --workspace --all-targets -- -D warnings

clean:
	rm -rf target policies/target $(CARGO_TARGET_DIR)
