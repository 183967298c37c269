//! The CRI side: client, translation of a pod into CRI messages, observation, events.
