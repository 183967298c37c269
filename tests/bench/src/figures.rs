//! The report: one flat JSON object, with the spread of each figure beside it.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// Figures by name.
#[derive(Debug, Default)]
pub(crate) struct Figures(Map<String, Value>);

impl Figures {
    /// A figure without a spread, or a fact.
    pub(crate) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The median as `name`; beside it `_p10`, `_p90`, `_min`, `_max` and how many there were, `_n`. Nothing where there are none.
    pub(crate) fn spread(&mut self, name: &str, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return };
        self.put(name, rounded(at(&values, 50)));
        for (suffix, value) in [("p10", at(&values, 10)), ("p90", at(&values, 90)), ("min", *first), ("max", *last)] {
            self.put(&format!("{name}_{suffix}"), rounded(value));
        }
        self.put(&format!("{name}_n"), values.len());
    }

    /// [`Figures::spread`] in microseconds.
    pub(crate) fn micros(&mut self, name: &str, times: &[Duration]) {
        self.spread(name, times.iter().map(|t| t.as_secs_f64() * 1e6).collect());
    }

    /// As JSON.
    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.0)
    }
}

/// The value below which this share of sorted ones lies, in percent. There must be one.
fn at(sorted: &[f64], share: usize) -> f64 {
    sorted[(sorted.len() - 1) * share / 100]
}

/// Four significant digits: more is noise.
fn rounded(value: f64) -> Value {
    let digits = 3 - value.abs().max(1e-9).log10().floor() as i32;
    let scale = 10f64.powi(digits);
    json!((value * scale).round() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_its_spread() {
        let mut figures = Figures::default();
        figures.spread("x", (0..=10).rev().map(f64::from).collect());
        figures.spread("none", Vec::new());
        let expected = json!({"x": 5.0, "x_p10": 1.0, "x_p90": 9.0, "x_min": 0.0, "x_max": 10.0, "x_n": 11});
        assert_eq!(figures.into_json(), expected);
    }

    #[test]
    fn four_digits() {
        let cases = [(1.234_56, 1.235), (123_456.0, 123_500.0), (0.000_123_44, 0.000_123_4), (0.0, 0.0), (-2.0, -2.0)];
        for (value, expected) in cases {
            assert_eq!(rounded(value), json!(expected), "{value}");
        }
    }
}
