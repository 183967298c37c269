//! Durations as Go writes them: `1m30s`, `100ms`, `1.5h`.

use std::time::Duration;

/// Reads one. Zero needs no unit; a sign, an unknown unit or nothing at all is an error that says what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 30s, 1m30s or 100ms");
    let long = || format!("{text:?} is too long: at most 2562047h, some 292 years");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.starts_with('-') {
        return Err(format!("{text:?} is negative"));
    }
    let mut rest = text;
    let mut total: u128 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || fraction.len() > 18 {
            return Err(wrong());
        }
        let digits = |part: &str| if part.is_empty() { Ok(0) } else { part.parse::<u128>().map_err(|_| long()) };
        let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(18));
        let part = digits(whole)?.checked_mul(unit).and_then(|n| n.checked_add(digits(fraction).ok()? * unit / scale));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(long)?;
        rest = after;
    }
    // What Go can hold: some 292 years.
    match i64::try_from(total) {
        Ok(nanos) => Ok(Duration::from_nanos(nanos.unsigned_abs())),
        Err(_) => Err(long()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("1m", 60_000_000_000),
            ("1m30s", 90_000_000_000),
            ("100ms", 100_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1h0m0.000000001s", 3_600_000_000_001),
            ("2us", 2_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "1", "s", "1x", "-1s", "1 s", ".s", "1.2.3s", "1m30"] {
            assert!(parse(text).is_err_and(|error| !error.contains("too long")), "{text}");
        }
        assert_eq!(parse("2562047h"), Ok(Duration::from_secs(2_562_047 * 3600)));
        let digits = "9".repeat(50);
        for text in ["2562048h", "9999999999999h", "2562047h3600s", &format!("{digits}s"), &format!("{digits}h{digits}h")] {
            assert_eq!(parse(text), Err(format!("{text:?} is too long: at most 2562047h, some 292 years")));
        }
    }
}
