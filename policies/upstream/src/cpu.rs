//! Millicores as cgroup values, and back. Divisions truncate unless stated, as upstream's do.

/// The least that cpu.shares may be; what an empty request gets.
pub const MIN_SHARES: u64 = 2;
/// The most that cpu.shares may be.
pub const MAX_SHARES: u64 = 262_144;
/// The usual CFS period, in microseconds.
pub const DEFAULT_PERIOD_US: u64 = 100_000;

const MAX_WEIGHT: u64 = 10_000;
const MIN_QUOTA_US: u64 = 1000;

/// `cpu.shares` for a request in millicores.
#[must_use]
pub const fn shares(millicores: u64) -> u64 {
    let shares = millicores.saturating_mul(1024) / 1000;
    if shares < MIN_SHARES {
        MIN_SHARES
    } else if shares > MAX_SHARES {
        MAX_SHARES
    } else {
        shares
    }
}

/// `cpu.weight` of cgroup v2 for the cgroups that the agent itself writes: tiers and pods. Runtimes convert a container's shares
/// along another curve (1024 shares are 39 here, 100 there).
#[must_use]
pub const fn weight(shares: u64) -> u64 {
    if shares >= MAX_SHARES {
        return MAX_WEIGHT;
    }
    1 + shares.saturating_sub(MIN_SHARES) * (MAX_WEIGHT - 1) / (MAX_SHARES - MIN_SHARES)
}

/// `cpu.shares` that a weight written by the agent stands for. It does not return the very shares that were written.
#[must_use]
pub const fn shares_of_weight(weight: u64) -> u64 {
    weight.saturating_sub(1).saturating_mul(MAX_SHARES - MIN_SHARES) / (MAX_WEIGHT - 1) + MIN_SHARES
}

/// The CFS quota in microseconds for a limit in millicores; `None` without one. The least is 1000, which is 10 millicores at
/// the usual period.
#[must_use]
pub const fn quota_us(millicores: u64, period_us: u64) -> Option<u64> {
    if millicores == 0 {
        return None;
    }
    let quota = millicores.saturating_mul(period_us) / 1000;
    Some(if quota < MIN_QUOTA_US { MIN_QUOTA_US } else { quota })
}
