//! What the node says to workloads: HTTP, TCP and gRPC probes, HTTP hooks.
