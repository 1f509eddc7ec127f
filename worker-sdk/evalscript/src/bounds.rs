//! The bounds of a script.

/// The longest script, in bytes. Scripts that contain a model have some hundred thousand.
pub const MAX_SOURCE: usize = 1024 * 1024;

/// The most steps. A `setup()` takes some dozens, and a table at the top of a script some
/// thousands.
pub const MAX_STEPS: u64 = 1_000_000;

/// The most memory that a script may request in total, in bytes. Freed memory is not given back.
pub const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// The most expressions, statements and calls inside one another, and the longest chain of
/// operators.
pub const MAX_DEPTH: u32 = 100;
