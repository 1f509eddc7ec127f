//! Workers: of the SDK, by hand, of jobs, and such that mean harm.

pub mod fleet;
pub mod holder;
pub mod hostile;
pub mod parties;
pub mod tracer;
pub mod witness;
pub mod worker;
