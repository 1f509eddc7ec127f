//! Integration tests against real NATS servers, and the rules of this repository.
