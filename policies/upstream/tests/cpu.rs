//! CPU formulas against upstream's table.
#![allow(missing_docs)]

use polylet_upstream::cpu;

#[test]
fn millicores_become_shares_weights_and_quotas() {
    let table: [(u64, u64, u64, Option<u64>); 10] = [
        (0, 2, 1, None),
        (1, 2, 1, Some(1000)),
        (10, 10, 1, Some(1000)),
        (100, 102, 4, Some(10_000)),
        (250, 256, 10, Some(25_000)),
        (500, 512, 20, Some(50_000)),
        (1000, 1024, 39, Some(100_000)),
        (1500, 1536, 59, Some(150_000)),
        (4000, 4096, 157, Some(400_000)),
        (256_000, 262_144, 10_000, Some(25_600_000)),
    ];
    for (millicores, shares, weight, quota) in table {
        assert_eq!(cpu::shares(millicores), shares, "shares of {millicores}m");
        assert_eq!(cpu::weight(shares), weight, "weight of {millicores}m");
        assert_eq!(cpu::quota_us(millicores, cpu::DEFAULT_PERIOD_US), quota, "quota of {millicores}m");
    }
}

#[test]
fn values_stay_in_the_kernels_range() {
    assert_eq!(cpu::shares(u64::MAX), cpu::MAX_SHARES);
    assert_eq!(cpu::weight(0), 1);
    assert_eq!(cpu::weight(262_143), 9_999);
    assert_eq!(cpu::weight(u64::MAX), 10_000);
}

#[test]
fn the_way_back_is_upstreams() {
    assert_eq!(cpu::shares_of_weight(1), 2);
    assert_eq!(cpu::shares_of_weight(39), 998);
    assert_eq!(cpu::shares_of_weight(10_000), 262_144);
}
