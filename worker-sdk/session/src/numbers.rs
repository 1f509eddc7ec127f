//! Numbers that stand for requests, resources and messages.

/// One request for a permit. The driver numbers requests and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskNumber(pub u64);

/// One resource of a session. The driver numbers them from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceNumber(pub u32);

/// One message of requests or settles. It is the last token of the subject that answers arrive on.
/// Messages of settles count down from the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(pub u64);

impl BatchNumber {
    /// The message of settles with this number.
    pub(crate) fn of_settles(number: u64) -> Self {
        BatchNumber(u64::MAX - number)
    }

    /// Whether this is a message of settles.
    pub(crate) fn is_of_settles(self) -> bool {
        self.0 > u64::MAX / 2
    }
}
