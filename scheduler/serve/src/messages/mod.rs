//! Messages for a permit loop, and its answers.

pub mod array;
pub mod inbound;
pub mod message_trace;
pub mod reply;
pub mod request_trace;
