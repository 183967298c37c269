//! The gRPC contracts of the node and their types.
