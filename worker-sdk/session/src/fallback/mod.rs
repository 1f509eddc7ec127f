//! What a session does if no scheduler answers, by the caller's choice.

pub(super) mod patience;
pub(super) mod policy;
pub(super) mod safe_rate;
pub(super) mod unreachable;
