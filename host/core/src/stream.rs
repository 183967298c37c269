//! What passes between whoever runs a command in a container and the command itself. Adapters hand these values to each other; no
//! decision is taken on them.

/// To the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToCommand {
    /// Bytes of its standard input.
    Stdin(Vec<u8>),
    /// Nothing more comes on its standard input.
    StdinEnd,
    /// The terminal has this many columns and rows now.
    Resize {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
    },
}

/// From the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromCommand {
    /// Bytes of its standard output; with a terminal, of standard error too.
    Stdout(Vec<u8>),
    /// Bytes of its standard error.
    Stderr(Vec<u8>),
    /// It has ended with this exit code, or could not be run for a reason that the runtime gives. Nothing follows.
    Ended(Result<i32, String>),
}
