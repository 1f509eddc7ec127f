//! Why a policy is invalid.

use crate::{Amount, AmountError, PolicyOption, UnitError};
use std::time::Duration;

/// Why a text or values are no [`Policy`](crate::Policy).
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
        /// The text before the `=`.
        text: String,
        /// The fault of the name.
        source: UnitError,
    },
    /// The part between `=` and `/` is no amount.
    #[error("`{text}` is no capacity")]
    Capacity {
        /// The text between `=` and `/`.
        text: String,
        /// The fault of the amount.
        source: AmountError,
    },
    /// The part after the `/` is no duration of a fixed length.
    #[error("`{text}` is no period, for example 10s or PT10S")]
    Period {
        /// The text after the `/`.
        text: String,
        /// The fault of the duration.
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
    /// The text after a `;` begins with no option's name.
    #[error(
        "`{text}` is no option; there are burst=…, start=…, tick=…, whole, fixed-window, phase=…, first-use, sliding-window and leaky-bucket"
    )]
    UnknownOption {
        /// The text after the `;`.
        text: String,
    },
    /// The text has an option twice.
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
        /// The text after the `=`; empty without one.
        text: String,
        /// The fault of the amount.
        source: AmountError,
    },
    /// The value of an option is no duration of a fixed length.
    #[error("{option}: `{text}` is no duration, for example {option}=1s")]
    OptionDuration {
        /// The option.
        option: PolicyOption,
        /// The text after the `=`; empty without one.
        text: String,
        /// The fault of the duration.
        source: jiff::Error,
    },
    /// An option without values has one.
    #[error("{option}: `{text}` is too much, the option takes no value")]
    OptionWithoutValue {
        /// The option.
        option: PolicyOption,
        /// The text after the `=`.
        text: String,
    },
    /// The bucket would hold nothing, or more than flows in during a period.
    #[error("burst={burst} is out of bounds: more than 0 and at most the capacity, {capacity}")]
    BurstOutOfBounds {
        /// The burst that was stated.
        burst: Amount,
        /// The highest burst that is allowed.
        capacity: Amount,
    },
    /// The bucket would start with more than it holds.
    #[error("start={start} is out of bounds: at most what the bucket holds, {holds}")]
    StartOutOfBounds {
        /// The level at the origin of time.
        start: Amount,
        /// The burst, else the capacity.
        holds: Amount,
    },
    /// The time between two ticks is zero, or more than 2⁶⁴ nanoseconds.
    #[error("tick={tick:?} is out of bounds: more than 0 s and at most 584 years; leave it out for an even refill")]
    TickOutOfBounds {
        /// The time between two ticks.
        tick: Duration,
    },
    /// A phase as long as the period, or longer.
    #[error("phase={phase:?} is out of bounds: less than the period of {period:?}")]
    PhaseOutOfBounds {
        /// The phase that was stated.
        phase: Duration,
        /// The period.
        period: Duration,
    },
    /// A policy that never refills has an option about refills.
    #[error("`{option}` needs a policy that refills: give it a period above zero, or leave the option out")]
    NeverRefills {
        /// The option.
        option: PolicyOption,
    },
    /// Two models are selected, or a variant of the token bucket is given to another model.
    #[error("`{option}` and `{other}` do not go together; leave one of them out")]
    NotTogether {
        /// The option that does not fit.
        option: PolicyOption,
        /// The option that the policy has already.
        other: PolicyOption,
    },
}
