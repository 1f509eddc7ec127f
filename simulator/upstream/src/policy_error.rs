//! Why something is not a policy.

use crate::{Amount, AmountError, PolicyOption, UnitError};
use std::time::Duration;

/// Why something is not a [`Policy`](crate::Policy).
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The text has no `=` or no `/` after it.
    #[error("`{text}` is not unit=capacity/period, for example requests=50/10s")]
    Shape {
        /// The text up to the first `;`.
        text: String,
    },
    /// The part before the `=` names no unit.
    #[error("`{text}` names no unit")]
    Unit {
        /// What stands before the `=`.
        text: String,
        /// What is wrong with it.
        source: UnitError,
    },
    /// The part between `=` and `/` is no amount.
    #[error("`{text}` is no capacity")]
    Capacity {
        /// What stands between `=` and `/`.
        text: String,
        /// What is wrong with it.
        source: AmountError,
    },
    /// The part after the `/` is no duration of a fixed length.
    #[error("`{text}` is no period, for example 10s or PT10S")]
    Period {
        /// What stands after the `/`.
        text: String,
        /// What is wrong with it.
        source: jiff::Error,
    },
    /// The period runs backwards.
    #[error("the period is negative")]
    NegativePeriod,
    /// The period is longer than 2⁶⁴ nanoseconds, about 584 years.
    #[error("the period is longer than 584 years")]
    PeriodTooLong,
    /// A capacity of zero could never pay for anything.
    #[error("the capacity is zero")]
    ZeroCapacity,
    /// What stands after a `;` begins with the name of no option.
    #[error(
        "`{text}` is no option; there are burst=…, start=…, tick=…, whole, fixed-window, sliding-window and leaky-bucket"
    )]
    UnknownOption {
        /// What stands after the `;`.
        text: String,
    },
    /// An option stands twice in the text.
    #[error("`{option}` stands there twice; leave one out")]
    StatedTwice {
        /// The option.
        option: PolicyOption,
    },
    /// The value of an option is no amount.
    #[error("{option}: `{text}` is no amount, for example {option}=40")]
    OptionAmount {
        /// The option.
        option: PolicyOption,
        /// What stands after the `=`; empty where there is none.
        text: String,
        /// What is wrong with it.
        source: AmountError,
    },
    /// The value of an option is no duration of a fixed length.
    #[error("{option}: `{text}` is no duration, for example {option}=1s")]
    OptionDuration {
        /// The option.
        option: PolicyOption,
        /// What stands after the `=`; empty where there is none.
        text: String,
        /// What is wrong with it.
        source: jiff::Error,
    },
    /// A value for an option that takes none.
    #[error("{option}: `{text}` is too much, the option takes no value")]
    OptionWithoutValue {
        /// The option.
        option: PolicyOption,
        /// What stands after the `=`.
        text: String,
    },
    /// A bucket that holds nothing, or more than flows in during a period.
    #[error("burst={burst} is out of bounds: more than 0 and at most the capacity, {capacity}")]
    BurstOutOfBounds {
        /// What the bucket was to hold.
        burst: Amount,
        /// The most that it may hold.
        capacity: Amount,
    },
    /// A bucket that starts with more than it holds.
    #[error("start={start} is out of bounds: at most what the bucket holds, {holds}")]
    StartOutOfBounds {
        /// The level at the origin of time.
        start: Amount,
        /// The burst, else the capacity.
        holds: Amount,
    },
    /// No time between two ticks, or more than 2⁶⁴ nanoseconds.
    #[error("tick={tick:?} is out of bounds: more than 0 s and at most 584 years; leave it out for an even refill")]
    TickOutOfBounds {
        /// The time between two ticks.
        tick: Duration,
    },
    /// A way to refill for a policy that never does.
    #[error("`{option}` needs a policy that refills: give it a period above zero, or leave the option out")]
    NeverRefills {
        /// The option.
        option: PolicyOption,
    },
    /// Two models at once, or a variant of the token bucket for another model.
    #[error("`{option}` and `{other}` do not go together; leave one of them out")]
    NotTogether {
        /// The option that was to be added.
        option: PolicyOption,
        /// One that the policy has already.
        other: PolicyOption,
    },
}
