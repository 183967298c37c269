//! Every decision of the node agent, as pure functions: no I/O, no clock, no async.
