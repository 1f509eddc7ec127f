//! Reads rate limits from an upstream's responses, dialect by dialect.
//!
//! A [`Reader`] turns status and headers of a settle into an
//! [`Observation`](rampmeter_policy::observation::Observation); the wall time for its dates is an argument.
//!
//! One [`Reader`] reads all dialects by the names of headers and the notations listed in docs/upstreams.md, and
//! by these rules. Dialects add peculiarities, configurations [headers](OddHeaders) and [objections](Objection).
//!
//! * A missing header says nothing. An unreadable one counts as missing and is [listed](DialectReading::unreadable).
//! * A number in `Retry-After` is in seconds, possibly with a fraction, unless the dialect or the resource says
//!   milliseconds; a number as large as the present is a moment. A past moment is no pause, and a pause is
//!   [bounded](MAX_PAUSE). Moments are compared with the response's `Date` if the server's clock differs.
//! * **429** means that a limit objected. Without `Retry-After`, the pause lasts until the last
//!   empty window ends. The limit is known if the response shows exactly one empty bucket.
//! * **403** equals a 429 if it has `Retry-After` or shows an empty bucket, as at GitHub. Sentinel Hub answers 403 when
//!   a quota is spent, but also when an account lacks a permission; only the body distinguishes the two. A wrong guess
//!   would stop all calls until the next month; a missed one costs calls that fail for nothing. A 403 therefore counts
//!   as a spent quota if the worker passes a code from the body that says so, or passes none and it has `Retry-After`.
//!   Any other code is about permissions. A worker that reads the body itself reports a spent quota by
//!   [`Response::quota_spent`](rampmeter_protocol::settle::Response).
//! * **A code** of the body's error takes precedence over the status: `THROTTLED` of Shopify
//!   objects with status 200, and `lock_timeout` of Stripe is no objection despite status 429.
//! * **Any other 4xx** with `Retry-After` equals a 429.
//! * **5xx** with `Retry-After` asks all clients to pause, as in HTTP, and says nothing about a limit. A 503
//!   without that header means that the upstream is busy: it may have a cap on calls in flight.
//!
//! An empty bucket means a pause only if it refills at once. OpenAI and Anthropic report the time
//! until the bucket is full; it has stock long before.
//!
//! ```
//! use rampmeter_dialects::{Dialect, Reader};
//! use rampmeter_protocol::settle::{Headers, Response};
//! use rampmeter_protocol::text::Text;
//! use rampmeter_protocol::time::Span;
//! use rampmeter_policy::observation::{Scope, Verdict};
//!
//! let headers = Headers::first_of([(Text::from("retry-after"), Text::from("1500"))]);
//! let response = Response { status: 429, headers, quota_spent: false, code: None };
//! let reading = Reader::of(Dialect::SentinelHub).read(&response, 0);
//! let retry_after = Some(Span::from_millis(1500));
//! let limited = Verdict::Limited { scope: Scope::Unnamed, retry_after, by_other_accounts: false };
//! assert_eq!(reading.observation.verdict, limited);
//! ```

mod buckets;
mod dialect;
mod header_name;
mod objection;
mod reader;
mod shopify;
mod structured;
mod tables;
mod unit;
mod value;

pub use buckets::MAX_RESET;
pub use dialect::Dialect;
pub use objection::{Means, Objection, Statuses, When};
pub use reader::{DialectReading, MAX_PAUSE, OddHeaders, Reader};
pub use unit::RetryAfterUnit;
