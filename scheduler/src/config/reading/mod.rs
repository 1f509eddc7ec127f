//! Reads the file's text and values, and places each fault.

pub mod faults;
pub(super) mod range;
pub mod source;
pub mod value;
