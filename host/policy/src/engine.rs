//! One engine configuration for every policy of the node.
//!
//! **Invariant:** nothing that a guest computes depends on the machine: no threads, no clock, canonical NaNs, deterministic
//! relaxed SIMD, and fuel rather than time that decides. The same question costs the same fuel wherever it is asked.

use std::hash::{Hash, Hasher};

use sha2::{Digest as _, Sha256};
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::limits::MEMORY_MAX;
use crate::ticker::Ticker;

/// Guest stack of one call.
const STACK: usize = 256 << 10;
/// Memory of a slot that is cleared by writing zeros when the call ends, instead of being given back to the kernel.
const KEEP_RESIDENT: usize = 1 << 20;
/// Address space of a memory slot: a little more than any policy may use. Bounds are checked, which costs a ranking a few
/// percent; slots of 4 GiB would save that, and would not fit where the address space is small (user-mode Linux, a limit).
const SLOT: u64 = MEMORY_MAX as u64;
/// Instances of core modules within one policy: a component of one language has one to four.
const CORE_INSTANCES: u32 = 16;

/// The engine, with the thread that moves its epoch.
#[derive(Clone)]
pub(crate) struct Engine {
    wasmtime: wasmtime::Engine,
    ticker: Ticker,
    digest: String,
}

impl Engine {
    /// An engine that can hold so many calls at once.
    pub(crate) fn new(calls: u32) -> wasmtime::Result<Self> {
        let mut config = configuration();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(calls)));
        let wasmtime = wasmtime::Engine::new(&config)?;
        let digest = digest(&wasmtime);
        Ok(Self { ticker: Ticker::new(&wasmtime), wasmtime, digest })
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    pub(crate) fn ticker(&self) -> &Ticker {
        &self.ticker
    }

    /// Digest of everything that an artifact depends on beside the component: wasmtime's version and the configuration.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

/// An engine that only compiles: the same code generation, and no memory set aside for instances.
pub(crate) fn compiling() -> wasmtime::Result<wasmtime::Engine> {
    wasmtime::Engine::new(&configuration())
}

fn configuration() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(true)
        .relaxed_simd_deterministic(true)
        .cranelift_nan_canonicalization(true)
        .cranelift_opt_level(OptLevel::Speed)
        // The child that compiles stays on one core: the node has better uses for the others.
        .parallel_compilation(false)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK)
        .memory_reservation(SLOT)
        .memory_reservation_for_growth(0)
        .memory_may_move(false)
        .memory_init_cow(true)
        // A trap is told by its kind and the guest's own message; positions in machine code help nobody.
        .generate_address_map(false)
        .native_unwind_info(false);
    config
}

fn pool(calls: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(calls * CORE_INSTANCES)
        .max_core_instances_per_component(CORE_INSTANCES)
        .total_memories(calls)
        .max_memories_per_component(2)
        .total_tables(calls * 4)
        .max_tables_per_component(4)
        .table_elements(20_000)
        .total_stacks(0)
        .max_memory_size(MEMORY_MAX)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        // Where the kernel can tell which pages a call has touched, only those are cleared.
        .pagemap_scan(Enabled::Auto)
        .table_keep_resident(64 << 10)
        .max_unused_warm_slots(calls);
    pool
}

fn digest(engine: &wasmtime::Engine) -> String {
    struct Feed(Sha256);
    impl Hasher for Feed {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut feed = Feed(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut feed);
    crate::digest::hex(&feed.0.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_child_compiles_fits_the_engine_that_runs_it() {
        assert_eq!(Engine::new(2).unwrap().digest(), digest(&compiling().unwrap()));
    }
}
