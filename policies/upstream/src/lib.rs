//! The kubelet's four judgements as a pure library without dependencies.
