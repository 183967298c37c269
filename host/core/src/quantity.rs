//! Amounts as the API writes them: `250m`, `1.5Gi`, `2e3`.
//!
//! The grammar is `<sign><digits>[.<digits>]<suffix>`; a suffix is decimal (`n u m k M G T P E`), binary (`Ki` … `Ei`) or an
//! exponent (`e3`, `E-2`). What does not fit the unit asked for is rounded up; what is beyond 2^63-1 is capped there, as the
//! API does it.

/// The text in thousandths, rounded up: what CPU is counted in.
pub fn milli(text: &str) -> Result<u64, QuantityError> {
    scaled(text, 3)
}

/// The text in whole units, rounded up: bytes, inodes, processes.
pub fn whole(text: &str) -> Result<u64, QuantityError> {
    scaled(text, 0)
}

/// An amount of bytes in the API's canonical form: the largest binary suffix that divides it, below 1024 and for what no
/// suffix divides the number itself (`100Mi`, `1025`); 1000 is `1k`, a quirk of upstream's that is kept.
pub fn binary(amount: u64) -> String {
    if amount < 1024 {
        return decimal(amount);
    }
    canonical(amount, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// A count in the API's canonical form: the largest decimal suffix that divides it (`12k`, `12345`).
pub fn decimal(amount: u64) -> String {
    canonical(amount, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

/// Millicores in the API's canonical form (`250m`, `2`).
pub fn cores(milli: u64) -> String {
    if milli.is_multiple_of(1000) { decimal(milli / 1000) } else { format!("{milli}m") }
}

/// How an amount is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// With `Ki`, `Mi`, …
    Binary,
    /// With `k`, `M`, …, or nothing.
    Decimal,
    /// With `e3`, `e6`, …
    Exponent,
}

impl Style {
    /// The style of a text, which keeps it whatever is reckoned with it.
    pub fn of(text: &str) -> Self {
        match text.trim_start_matches(|c: char| !c.is_ascii_alphabetic()) {
            suffix if suffix.ends_with('i') => Self::Binary,
            suffix if suffix.len() > 1 && suffix.starts_with(['e', 'E']) => Self::Exponent,
            _ => Self::Decimal,
        }
    }

    /// An amount in this style, in the API's canonical form.
    pub fn write(self, amount: u64) -> String {
        match self {
            Self::Binary => binary(amount),
            Self::Decimal => decimal(amount),
            Self::Exponent => canonical(amount, 1000, &["", "e3", "e6", "e9", "e12", "e15", "e18"]),
        }
    }
}

/// Why a text is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not of the grammar.
    #[error("not a quantity such as 250m, 1.5 or 64Mi")]
    Malformed,
    /// Below zero.
    #[error("must not be negative")]
    Negative,
}

/// The text times 10^`places`.
fn scaled(text: &str, places: i32) -> Result<u64, QuantityError> {
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    if integer.len() + fraction.len() == 0 || fraction.contains('.') {
        return Err(QuantityError::Malformed);
    }
    let (binary_places, decimal_places) = multiplier(suffix)?;

    // Beyond some length all that a fraction can do is to make the last digit round up.
    let fraction = fraction.trim_end_matches('0');
    let (fraction, tail) = fraction.split_at_checked(12).unwrap_or((fraction, ""));
    let fraction = if tail.is_empty() { fraction.to_owned() } else { format!("{fraction}1") };
    let digits = integer.bytes().chain(fraction.bytes()).map(|digit| digit - b'0');
    let exponent = decimal_places.saturating_add(places).saturating_sub(fraction.len() as i32);
    let value = product(digits, exponent, binary_places);
    if negative && value > 0 {
        return Err(QuantityError::Negative);
    }
    // The cap is 2^63-1 units, of whatever unit was asked for.
    Ok(value.min(i64::MAX as u128) as u64)
}

/// What a suffix multiplies with: a power of two and a power of ten.
fn multiplier(suffix: &str) -> Result<(u32, i32), QuantityError> {
    Ok(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Malformed)?;
            (0, exponent.parse().map_err(|_| QuantityError::Malformed)?)
        }
    })
}

/// `digits` × 10^`exponent` × 2^`shift`, rounded up, saturating.
fn product(digits: impl Iterator<Item = u8>, exponent: i32, shift: u32) -> u128 {
    let grown =
        digits.skip_while(|digit| *digit == 0).try_fold(0u128, |sum, digit| sum.checked_mul(10)?.checked_add(u128::from(digit)));
    let Some(mantissa) = grown else {
        // More than 38 digits, of which at most 13 are a fraction.
        return u128::MAX;
    };
    if mantissa == 0 {
        return 0;
    }
    let shifted = match mantissa.checked_mul(1 << shift) {
        Some(shifted) => shifted,
        None => return u128::MAX,
    };
    match u32::try_from(exponent) {
        Ok(up) => 10u128.checked_pow(up).and_then(|factor| shifted.checked_mul(factor)).unwrap_or(u128::MAX),
        Err(_) => 10u128.checked_pow(exponent.unsigned_abs()).map_or(1, |divisor| shifted.div_ceil(divisor)),
    }
}

fn canonical(amount: u64, base: u64, suffixes: &[&str]) -> String {
    let (mut amount, mut place) = (amount, 0);
    while amount != 0 && amount.is_multiple_of(base) && place + 1 < suffixes.len() {
        amount /= base;
        place += 1;
    }
    format!("{amount}{}", suffixes[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, in_milli: Result<u64, QuantityError>, in_whole: Result<u64, QuantityError>) {
        assert_eq!((milli(text), whole(text)), (in_milli, in_whole), "{text:?}");
    }

    #[test]
    fn amounts_are_read_and_rounded_up() {
        for (text, in_milli, in_whole) in [
            ("0", 0, 0),
            ("-0", 0, 0),
            ("1", 1000, 1),
            ("+1", 1000, 1),
            ("100m", 100, 1),
            ("0.1m", 1, 1),
            ("1n", 1, 1),
            ("1500u", 2, 1),
            (".5", 500, 1),
            ("2.", 2000, 2),
            ("1.0005", 1001, 2),
            ("0.000", 0, 0),
            ("1k", 1_000_000, 1000),
            ("1Ki", 1_024_000, 1024),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("1024Mi", 1_073_741_824_000, 1 << 30),
            ("128974848000m", 128_974_848_000, 128_974_848),
            ("2e3", 2_000_000, 2000),
            ("12E-1", 1200, 2),
            ("1E+2", 100_000, 100),
            ("1E", 1_000_000_000_000_000_000 * 8 + 1_223_372_036_854_775_807, 1_000_000_000_000_000_000),
            ("7Ei", i64::MAX as u64, 7 << 60),
            ("8Ei", i64::MAX as u64, i64::MAX as u64),
            ("1e100", i64::MAX as u64, i64::MAX as u64),
            ("1e-100", 1, 1),
            ("000000000000000000000000000000000000000000000000001", 1000, 1),
            ("0.10000000000000000000000000000000000000000000000000", 100, 1),
            ("0.10000000000000000000000000000000000000000000000001", 101, 1),
            ("1000000000000000000000000000000000000000000000000000", i64::MAX as u64, i64::MAX as u64),
        ] {
            check(text, Ok(in_milli), Ok(in_whole));
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "-", ".", "Gi", "1 Gi", "1gb", "1e", "1ki", "1.2.3", "0x10", "1,5", "١", "--1", "1e1.5"] {
            check(text, Err(QuantityError::Malformed), Err(QuantityError::Malformed));
        }
        check("-1m", Err(QuantityError::Negative), Err(QuantityError::Negative));
    }

    #[test]
    fn amounts_are_written_in_canonical_form() {
        for (amount, in_binary, in_decimal) in [
            (0, "0", "0"),
            (1000, "1k", "1k"),
            (1024, "1Ki", "1024"),
            (1025, "1025", "1025"),
            (100 << 20, "100Mi", "104857600"),
            (12_000, "12000", "12k"),
            (1 << 60, "1Ei", "1152921504606846976"),
        ] {
            assert_eq!((binary(amount).as_str(), decimal(amount).as_str()), (in_binary, in_decimal));
        }
        assert_eq!((cores(250).as_str(), cores(2000).as_str()), ("250m", "2"));
    }

    #[test]
    fn an_amount_keeps_the_style_that_it_was_written_in() {
        for (text, shown) in [
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1000000", "1M"),
            ("1500M", "1500M"),
            ("1048576", "1048576"),
            ("+2.5k", "2500"),
            ("1E", "1E"),
            ("2e3", "2e3"),
            ("12E2", "1200"),
            ("0", "0"),
        ] {
            assert_eq!(Style::of(text).write(whole(text).unwrap()), shown, "{text}");
        }
    }
}
