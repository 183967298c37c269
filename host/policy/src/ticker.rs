//! The thread that moves the engine's epoch while calls are under way, and sleeps while there are none.
//!
//! The epoch is only a backstop: fuel decides. So the tick is coarse, and a node without decisions wakes up for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::Duration;

/// Time between two epochs.
const TICK: Duration = Duration::from_millis(2);
/// Ticks without a call before the thread goes to sleep: a burst of calls need not wake it for each, and a node that asks ten times
/// a second does not keep it awake.
const LINGER: u32 = 3;

#[derive(Clone)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Arc<OnDrop>,
}

struct Shared {
    calls: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

/// Ends the thread with the last handle.
struct OnDrop {
    shared: Arc<Shared>,
    thread: Thread,
}

/// The epoch moves while one of these lives.
pub(crate) struct Ticking<'a>(&'a Shared);

impl Ticker {
    pub(crate) fn new(engine: &wasmtime::Engine) -> Self {
        let shared =
            Arc::new(Shared { calls: AtomicUsize::new(0), asleep: AtomicBool::new(false), stop: AtomicBool::new(false) });
        let (engine, seen) = (engine.weak(), Arc::clone(&shared));
        let spawned = thread::Builder::new().name("policy-epoch".into()).spawn(move || {
            let mut idle = 0;
            while !seen.stop.load(SeqCst) {
                thread::sleep(TICK);
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
                idle = if seen.calls.load(SeqCst) == 0 { idle + 1 } else { 0 };
                if idle > LINGER {
                    seen.asleep.store(true, SeqCst);
                    // A call that began before the line above is seen here; a later one sees `asleep` and wakes us.
                    if seen.calls.load(SeqCst) == 0 && !seen.stop.load(SeqCst) {
                        thread::park();
                    }
                    seen.asleep.store(false, SeqCst);
                    idle = 0;
                }
            }
        });
        let thread = match spawned {
            Ok(handle) => handle.thread().clone(),
            // Without threads there is no backstop; the fuel budget still ends every call.
            Err(_) => thread::current(),
        };
        Self { thread: Arc::new(OnDrop { shared: Arc::clone(&shared), thread }), shared }
    }

    /// Epochs that a call of this length may see, counted up.
    pub(crate) fn ticks(timeout: Duration) -> u64 {
        u64::try_from(timeout.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX / 2) + 1
    }

    pub(crate) fn begin(&self) -> Ticking<'_> {
        self.shared.calls.fetch_add(1, SeqCst);
        if self.shared.asleep.load(SeqCst) {
            self.thread.thread.unpark();
        }
        Ticking(&self.shared)
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, SeqCst);
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.thread.unpark();
    }
}
