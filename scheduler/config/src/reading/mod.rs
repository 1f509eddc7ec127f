//! Reads the file's text and values, and places each fault.

pub mod faults;
pub mod source;
pub mod value;
