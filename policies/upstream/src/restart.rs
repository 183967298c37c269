//! Exponential backoff: of crashing containers (CrashLoopBackOff), of image pulls (ImagePullBackOff), of failing sandboxes.
//!
//! One mechanism serves all; what differs is when the node advances the entry. A container's is advanced when it is started
//! again, so that its first restart is immediate. A failed pull's is advanced when it fails, so that the first retry waits.

/// What is remembered between one try and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// How long to wait after the next failure, in milliseconds.
    pub backoff_ms: u64,
    /// When the entry was last advanced, in milliseconds since the epoch.
    pub updated_ms: u64,
}

/// The limits that an entry moves in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first backoff, in milliseconds.
    pub initial_ms: u64,
    /// The longest backoff, in milliseconds.
    pub maximum_ms: u64,
    /// So long after its last advance an entry is forgotten, in milliseconds.
    pub reset_after_ms: u64,
}

impl Bounds {
    /// Of containers, unless configured otherwise: 10 s doubling to 300 s. The 10 minutes after which all is forgiven are fixed
    /// upstream, and no multiple of the maximum.
    pub const CRASH: Self = Self { initial_ms: 10_000, maximum_ms: 300_000, reset_after_ms: 600_000 };

    /// Of image pulls: 10 s doubling to 300 s, forgotten after twice the maximum.
    pub const IMAGE_PULL: Self = Self { initial_ms: 10_000, maximum_ms: 300_000, reset_after_ms: 600_000 };

    /// Of a pod whose sandbox or container could not be made: upstream's pod worker comes back after 10 s, without doubling.
    pub const POD_RETRY: Self = Self { initial_ms: 10_000, maximum_ms: 10_000, reset_after_ms: 600_000 };

    /// The bounds for containers under `crashLoopBackOff.maxContainerRestartPeriod`: it sets the maximum, and lowers the first
    /// backoff to itself if it is the smaller.
    #[must_use]
    pub const fn crash_up_to(maximum_ms: u64) -> Self {
        let initial = Self::CRASH.initial_ms;
        let initial_ms = if maximum_ms < initial { maximum_ms } else { initial };
        Self { initial_ms, maximum_ms, ..Self::CRASH }
    }
}

/// How long to wait from `failed_at_ms`, the end of the container or the failure of the pull: not at all without an entry, else
/// its backoff, and no longer than until the reset period since its last advance is over: then it is forgotten, even while it
/// is being waited out. In milliseconds; there is no jitter.
///
/// A failure that seems to lie before the entry's last advance (the clock was set back) counts as recent.
#[must_use]
pub const fn delay(entry: Option<Entry>, failed_at_ms: u64, bounds: Bounds) -> u64 {
    match entry {
        Some(entry) => {
            let left = entry.updated_ms.saturating_add(bounds.reset_after_ms).saturating_sub(failed_at_ms);
            if entry.backoff_ms < left { entry.backoff_ms } else { left }
        }
        None => 0,
    }
}

/// The entry after the node decided at `now_ms` to try again (a container), or after it failed at `now_ms` (a pull: there
/// `failed_at_ms` is the same instant). It starts at the initial backoff where [`delay`] would forget the old entry, and
/// doubles otherwise, up to the maximum.
#[must_use]
pub const fn advance(entry: Option<Entry>, failed_at_ms: u64, now_ms: u64, bounds: Bounds) -> Entry {
    let latest_ms = if failed_at_ms > now_ms { failed_at_ms } else { now_ms };
    let next = match entry {
        Some(entry) if latest_ms.saturating_sub(entry.updated_ms) < bounds.reset_after_ms => entry.backoff_ms.saturating_mul(2),
        _ => bounds.initial_ms,
    };
    let backoff_ms = if next > bounds.maximum_ms { bounds.maximum_ms } else { next };
    Entry { backoff_ms, updated_ms: now_ms }
}
