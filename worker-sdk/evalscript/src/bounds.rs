//! How much a script may take.

/// The longest script, in bytes: those with models of their own have some hundred thousand.
pub const MAX_SOURCE: usize = 512 * 1024;

/// The most steps: a `setup()` takes some dozens, a table at the top of a script some thousands.
pub const MAX_STEPS: u64 = 1_000_000;

/// The most memory that a script may ask for in all, in bytes; what it lets go of is not given
/// back.
pub const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// The most expressions, statements and calls inside one another, and the longest chain of
/// operators.
pub const MAX_DEPTH: u32 = 100;
