//! Messages that are wrong, many, or forged.

mod bad_input;
mod false_events;
mod floods;
mod fuzz;
mod pricing;
mod protocol;
