//! Reads rate limits from an upstream's responses, dialect by dialect.
//!
//! A [`Reader`] turns the status and headers that a worker has settled into an
//! [`Observation`](rampmeter_scheduler_core::adaptation::observation::Observation). It reads no
//! clock: the wall time, which dates are compared with, is an argument.
//!
//! Every [`Dialect`] is a table, and one [`Reader`] interprets them all by these rules.
//!
//! * A missing header tells nothing. An unreadable header counts as missing, and is
//!   [listed](DialectReading::unreadable).
//! * A number in `Retry-After` is in seconds, perhaps with a fraction, unless the dialect or the
//!   resource says milliseconds. Every dialect also accepts a date of HTTP. A moment that has
//!   passed is no pause, and a pause is [bounded](MAX_PAUSE).
//! * **429** means that a limit objected. Without `Retry-After`, the pause lasts until the last
//!   empty window ends. The limit is known if the answer shows exactly one empty bucket.
//! * **403** from GitHub equals a 429 if it has `Retry-After` or shows an empty bucket. Sentinel
//!   Hub answers 403 when a quota is spent, but also when an account lacks a permission; only the
//!   body tells which. A wrong guess would stop all calls until the next month; a missed one costs
//!   calls that fail for nothing. A 403 therefore counts as a spent quota if the worker passes a
//!   code from the body that says so. Without a code, it counts as one if it has `Retry-After`. Any
//!   other code is about permissions. A worker that reads the body itself says that a quota is
//!   spent ([`Response::quota_spent`](rampmeter_protocol::settle::Response)).
//! * Shopify refuses calls with status 200 and the error `THROTTLED`. A worker settles those as
//!   429.
//! * **503** with `Retry-After` (`ietf`, `plain`) asks all clients to pause, as in HTTP. It teaches
//!   nothing about a limit. Without that header the upstream is busy: it may have a cap on calls in
//!   flight.
//!
//! An empty bucket means a pause only if it refills at once. OpenAI and Anthropic report the time
//! until the bucket is full; it has stock long before.
//!
//! ```
//! use rampmeter_dialects::{Dialect, Reader};
//! use rampmeter_protocol::settle::{Headers, Response};
//! use rampmeter_protocol::text::Text;
//! use rampmeter_protocol::time::Span;
//! use rampmeter_scheduler_core::adaptation::observation::{Scope, Verdict};
//!
//! let headers = Headers::first_of([(Text::from("retry-after"), Text::from("1500"))]);
//! let response = Response { status: 429, headers, quota_spent: false, code: None };
//! let reading = Reader::of(Dialect::SentinelHub).read(&response, 0);
//! let retry_after = Some(Span::from_millis(1500));
//! let limited = Verdict::Limited { scope: Scope::Unnamed, retry_after, by_other_accounts: false };
//! assert_eq!(reading.observation.verdict, limited);
//! ```

mod dialect;
mod instant;
mod number;
mod reader;
mod shopify;
mod structured;
mod table;
mod tables;
mod unit;

pub use dialect::{Dialect, UnknownDialect};
pub use reader::{DialectReading, MAX_PAUSE, MAX_RESET, Reader};
pub use unit::{RetryAfterUnit, UnknownUnit};
