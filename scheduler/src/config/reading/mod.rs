//! Reads the file's text and values, and places each fault.

pub(super) mod faults;
pub(super) mod range;
pub(super) mod source;
pub(super) mod value;
