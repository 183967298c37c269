//! Facts by name, with an accessor for each of them that `wit/facts.tsv` lists.

use crate::Ask;

/// Makes accessors: a method for each name, with its type and with the function that reads it.
macro_rules! accessors {
    ($of:ident { $($(#[$doc:meta])* $method:ident: $type:ty = $read:ident($($argument:literal),+);)* }) => {
        impl $of<'_> {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(self) -> Option<$type> {
                    super::$read(self.0, $($argument),+)
                }
            )*
        }
    };
}

#[rustfmt::skip]
mod named;

/// Facts about the node and about what the question is about.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a>(pub(crate) Ask<'a>);

/// Columns of the table "history" of a `restart` question, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct RestartHistory<'a>(Ask<'a>);

/// Columns of the table "history" of a `probe` question, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct ProbeHistory<'a>(Ask<'a>);

/// Columns of the table "containers" of a `qos` question, in its order.
#[derive(Clone, Copy, Debug)]
pub struct Containers<'a>(Ask<'a>);

/// Columns of the table "candidates" of `eviction`'s `rank`, in its order.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a>(Ask<'a>);

impl<'a> Facts<'a> {
    /// Past terminations, for `restart`.
    #[must_use]
    pub fn restart_history(self) -> RestartHistory<'a> {
        RestartHistory(self.0)
    }

    /// Past attempts, for `probe`.
    #[must_use]
    pub fn probe_history(self) -> ProbeHistory<'a> {
        ProbeHistory(self.0)
    }

    /// More about the containers, for `qos`.
    #[must_use]
    pub fn containers(self) -> Containers<'a> {
        Containers(self.0)
    }

    /// More about the candidates, for `eviction`.
    #[must_use]
    pub fn candidates(self) -> Candidates<'a> {
        Candidates(self.0)
    }
}

/// One value per row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column(Vec<i64>);

impl Column {
    /// How "not known" is written in a row.
    pub const UNKNOWN: i64 = i64::MIN;

    pub(crate) fn of(values: Vec<i64>) -> Self {
        Self(values)
    }

    /// The value of a row; `None` if it is not known, or there is no such row.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<i64> {
        self.0.get(row).copied().and_then(known)
    }

    /// The value of a row that cannot be negative.
    #[must_use]
    pub fn unsigned(&self, row: usize) -> Option<u64> {
        self.get(row).and_then(|value| u64::try_from(value).ok())
    }

    /// The values in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = Option<i64>> + '_ {
        self.0.iter().copied().map(known)
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn unsigned(ask: Ask, name: &str) -> Option<u64> {
    ask.number(name).and_then(|value| u64::try_from(value).ok())
}

fn code(ask: Ask, name: &str) -> Option<i64> {
    ask.number(name)
}

fn flag(ask: Ask, name: &str) -> Option<bool> {
    ask.number(name).map(|flag| flag != 0)
}

fn text(ask: Ask, name: &str) -> Option<String> {
    ask.text(name)
}

fn column(ask: Ask, table: &str, name: &str) -> Option<Column> {
    ask.column(table, name)
}

fn known(value: i64) -> Option<i64> {
    (value != Column::UNKNOWN).then_some(value)
}
