//! Messages to a permit loop, and its answers.

pub mod inbound;
pub mod message_trace;
pub mod reply;
pub mod request_trace;
