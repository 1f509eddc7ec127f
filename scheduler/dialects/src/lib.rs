//! What an upstream's answer tells of its rate limits, dialect by dialect.
//!
//! Status and headers go in, as a worker has settled them; an [`Observation`](rampmeter_scheduler_core::adaptation::observation::Observation)
//! comes out. There is no clock: the wall time, which dates are compared with, is an argument.
//!
//! A [`Dialect`] is a table that one [`Reader`] goes by. What it reads is as follows.
//!
//! * A header that is missing tells nothing; one that can't be read counts as missing, and is [named](Heard::unreadable).
//! * A number in `Retry-After` is in seconds, perhaps with a fraction, where neither the dialect nor the resource says milliseconds;
//!   a date of HTTP is taken everywhere. A moment that has passed is no pause, and a pause is [bounded](MAX_PAUSE).
//! * **429** means that a limit objected. Where `Retry-After` says nothing, the pause lasts until the end of the windows that are shown
//!   empty. Which limit it was is known where a single one is shown empty.
//! * **403** is GitHub's other 429, if it says when to come back or shows nothing left. Sentinel Hub answers so when a quota is gone, but
//!   also when an account may not do what it asks for, and says which in the body only. A wrong guess would stop everybody until the
//!   next month; a missed one costs calls that fail for nothing. So a 403 is a spent quota only if it says when to come
//!   back, or if the worker says so, which has read the body ([`Response::quota_spent`](rampmeter_protocol::settle::Response)).
//! * **503** with `Retry-After` (`ietf`, `plain`) asks everybody to be silent, as HTTP has it; nothing is to be learned of a limit from it.
//!
//! ```
//! use rampmeter_dialects::{Dialect, Reader};
//! use rampmeter_protocol::settle::{Headers, Response};
//! use rampmeter_protocol::text::Text;
//! use rampmeter_protocol::time::Span;
//! use rampmeter_scheduler_core::adaptation::observation::{Scope, Verdict};
//!
//! let headers = Headers::first_of([(Text::from("retry-after"), Text::from("1500"))]);
//! let response = Response { status: 429, headers, quota_spent: false };
//! let heard = Reader::of(Dialect::SentinelHub).read(&response, 0);
//! let retry_after = Some(Span::from_millis(1500));
//! let limited = Verdict::Limited { scope: Scope::Unnamed, retry_after, others: false };
//! assert_eq!(heard.observation.verdict, limited);
//! ```

mod dialect;
mod instant;
mod number;
mod reader;
mod structured;
mod table;
mod tables;
mod unit;

pub use dialect::{Dialect, UnknownDialect};
pub use reader::{Heard, MAX_PAUSE, MAX_RESET, Reader};
pub use unit::{RetryAfterUnit, UnknownUnit};
