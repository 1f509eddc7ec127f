//! What this process needs of its system: a private nats-server, open files, and signals.

pub(super) mod embedded_nats;
pub(super) mod open_files;
pub mod signal;
