//! Numbers of tables in JSON: what is not known is null. Tools that know no whole numbers of 64 bits, such as jq, would turn the number
//! that stands for it into another.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::ask::UNKNOWN;

/// Columns by table, values by column.
type Tables = BTreeMap<String, BTreeMap<String, Vec<i64>>>;

pub(super) fn serialize<S: Serializer>(tables: &Tables, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(tables.iter().map(|(name, columns)| (name, Columns(columns))))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tables, D::Error> {
    let cells = BTreeMap::<String, BTreeMap<String, Vec<Cell>>>::deserialize(from)?;
    let column = |(name, cells): (String, Vec<Cell>)| (name, cells.into_iter().map(|Cell(number)| number).collect());
    Ok(cells.into_iter().map(|(name, columns)| (name, columns.into_iter().map(column).collect())).collect())
}

struct Columns<'a>(&'a BTreeMap<String, Vec<i64>>);

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, numbers)| (name, Column(numbers))))
    }
}

struct Column<'a>(&'a [i64]);

impl Serialize for Column<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|number| (*number != UNKNOWN).then_some(number)))
    }
}

struct Cell(i64);

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OneCell)
    }
}

struct OneCell;

impl Visitor<'_> for OneCell {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or null for what is not known")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Cell, E> {
        Ok(Cell(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Cell, E> {
        i64::try_from(number).map(Cell).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    /// What became of [`UNKNOWN`] where numbers are floating-point ones: it is one of them exactly.
    #[allow(clippy::float_cmp, reason = "exactly this number is meant")]
    fn visit_f64<E: Error>(self, number: f64) -> Result<Cell, E> {
        if number == UNKNOWN as f64 { Ok(Cell(UNKNOWN)) } else { Err(E::invalid_value(Unexpected::Float(number), &self)) }
    }

    fn visit_unit<E: Error>(self) -> Result<Cell, E> {
        Ok(Cell(UNKNOWN))
    }

    fn visit_none<E: Error>(self) -> Result<Cell, E> {
        Ok(Cell(UNKNOWN))
    }
}

#[cfg(test)]
mod tests {
    use crate::question::Facts;

    #[test]
    fn what_is_not_known_is_null_and_comes_back() {
        let numbers = vec![i64::MIN, i64::MIN + 1, -1, 0, i64::MAX];
        let facts = Facts { tables: [("t".into(), [("c".into(), numbers)].into())].into(), ..Facts::default() };
        let text = serde_json::to_string(&facts).unwrap();
        assert!(text.contains(r#"{"c":[null,-9223372036854775807,-1,0,9223372036854775807]}"#), "{text}");
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
        for unknown in ["-9223372036854775808", "-9223372036854776000", "-9.223372036854775808e18"] {
            let same = serde_json::from_str::<Facts>(&text.replace("null", unknown)).unwrap();
            assert_eq!(same, facts, "{unknown}");
        }
        for other in ["1.5", "9223372036854775808", "\"1\"", "true"] {
            let error = serde_json::from_str::<Facts>(&text.replace("null", other)).unwrap_err().to_string();
            assert!(error.contains("a whole number, or null for what is not known"), "{other}: {error}");
        }
    }
}
