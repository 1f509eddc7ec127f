//! Messages that are wrong, many, or forged.

mod bad_input;
mod false_events;
mod long_answers;
mod pricing;
mod protocol;
