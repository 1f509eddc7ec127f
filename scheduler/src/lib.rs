//! Rampmeter's scheduler: NATS, KV, HTTP, metrics and the command line around the core.
