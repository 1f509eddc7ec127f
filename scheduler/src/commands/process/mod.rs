//! The process's use of its system: logs, a private nats-server, open files, and signals.

pub(super) mod embedded_nats;
mod log_writer;
pub mod logging;
pub mod open_files;
pub mod signal;
