//! Numbers that stand for requests, resources and messages.

/// One request for a permit. The driver numbers requests and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskNumber(pub u64);

/// One resource of a session. The driver numbers them from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceNumber(pub u32);

/// One message of requests. It is the last token of the subject that answers arrive on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(pub u64);
