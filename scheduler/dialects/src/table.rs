//! The parts of a dialect's table.

use crate::unit::RetryAfterUnit;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Span;

/// The header that all dialects read.
pub(crate) const RETRY_AFTER: &str = "retry-after";

/// A dialect: the meaning of each header and status. Header names are in lower case.
#[derive(Debug)]
pub(crate) struct Table {
    /// The unit of a bare number in `Retry-After`.
    pub(crate) retry_after: RetryAfterUnit,
    /// The codes of errors that mean a spent quota, whatever else the response says. With any other
    /// code, a status of 403 is about permissions.
    pub(crate) spent_codes: &'static [&'static str],
    /// The statuses that may mean that a limit objected. The first that applies counts.
    pub(crate) objections: &'static [Objection],
    /// Headers that describe the limit that objected.
    pub(crate) remarks: &'static [Remark],
    /// Buckets with a separate header for each figure.
    pub(crate) buckets: &'static [Bucket],
    /// Buckets with one header for all figures.
    pub(crate) figures: &'static [Figures],
    /// Windows that tell the used share alone.
    pub(crate) shares: &'static [Share],
    /// Buckets in structured fields.
    pub(crate) fields: Option<Fields>,
    /// Headers with the cost of the call.
    pub(crate) spent: &'static [Spent],
    /// When quotas are reset if the response does not say.
    pub(crate) quotas: Quotas,
}

/// A status that may mean that a limit objected.
#[derive(Debug)]
pub(crate) struct Objection {
    pub(crate) status: u16,
    pub(crate) when: When,
    pub(crate) means: Means,
}

/// What a response needs so that its status counts as an objection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Always,
    /// Neither a pause in `Retry-After` nor an empty bucket.
    NamesNoTime,
    /// A pause in `Retry-After`.
    HasRetryAfter,
    /// A pause in `Retry-After`, or an empty bucket.
    HasRetryAfterOrEmptyBucket,
}

/// What a status means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Means {
    /// The call came too early.
    Limited,
    /// The upstream is overloaded, regardless of the caller.
    Overloaded,
    /// The upstream has no room for the call, and says nothing more.
    Busy,
    /// A quota is spent.
    Exhausted,
}

/// A header that, with this value, describes the limit that objected.
#[derive(Debug)]
pub(crate) struct Remark {
    pub(crate) header: &'static str,
    pub(crate) value: &'static str,
    pub(crate) tells: Tells,
}

/// A property of the limit that objected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tells {
    /// The limit is that of the whole account, called `global`.
    Global,
    /// The limit is shared with other clients, which have used it up.
    SharedLimit,
}

/// A bucket with a separate header for each figure.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) of: BucketScope,
    pub(crate) remaining: &'static str,
    /// The steps in which it tells what remains.
    pub(crate) rounded_to: Amount,
    pub(crate) capacity: &'static str,
    /// What is used of the capacity; it tells what remains if no other header does.
    pub(crate) used: Option<&'static str>,
    /// The first of these that is present counts.
    pub(crate) reset: &'static [(&'static str, Syntax)],
    pub(crate) refill: Refill,
}

/// A bucket with one header for all figures.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) unit: &'static str,
    pub(crate) header: &'static str,
    pub(crate) read: fn(&str) -> Option<Stock>,
    pub(crate) refill: Refill,
}

/// The figures of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stock {
    pub(crate) remaining: Amount,
    pub(crate) capacity: Amount,
    /// The time until the bucket is full.
    pub(crate) reset: Option<Span>,
    /// The time in which an empty bucket fills.
    pub(crate) period: Option<Span>,
}

/// A window that tells which share of it is used. The amount is not known. Only a window
/// that is used up tells something about calls.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) limit: &'static str,
    pub(crate) used: &'static str,
    pub(crate) reset: (&'static str, Syntax),
}

/// The limit that a bucket belongs to.
#[derive(Debug)]
pub(crate) enum BucketScope {
    Unnamed,
    Unit(&'static str),
    /// The limit that this header names.
    Limit(&'static str),
}

/// The notation of the time until a reset.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Syntax {
    /// `30`, `0.25`
    Seconds,
    /// `6m0s`, `120ms`
    Duration,
    /// `1372700873`
    Epoch,
    /// `2026-01-27T12:00:00Z`
    Rfc3339,
}

/// How a bucket refills until its reset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Refill {
    /// At the end of the window: an empty bucket stays empty until then.
    AtOnce,
    /// All the time: the bucket is full at the reset, and usable long before.
    Gradually,
}

/// The names of two structured fields: the state of each bucket, and its policy.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) state: &'static str,
    pub(crate) policy: &'static str,
}

/// A header with the cost of a call.
#[derive(Debug)]
pub(crate) struct Spent {
    pub(crate) header: &'static str,
    pub(crate) unit: &'static str,
}

/// The calendar by which quotas are reset.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quotas {
    Unknown,
    /// On the first of each month, in UTC.
    Monthly,
}

impl Table {
    /// The names of all headers that the table reads, sorted.
    pub(crate) fn headers(&self) -> Vec<&'static str> {
        let remarks = self.remarks.iter().map(|remark| remark.header);
        let buckets = self.buckets.iter().flat_map(Bucket::headers);
        let figures = self.figures.iter().map(|figures| figures.header);
        let shares = self.shares.iter().flat_map(|share| [share.used, share.reset.0]);
        let fields = self.fields.iter().flat_map(|fields| [fields.state, fields.policy]);
        let spent = self.spent.iter().map(|spent| spent.header);
        let beside = fields.chain(spent).chain([RETRY_AFTER]);
        let mut all: Vec<_> = remarks.chain(buckets).chain(figures).chain(shares).chain(beside).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Bucket {
    fn headers(&self) -> impl Iterator<Item = &'static str> {
        let named = match self.of {
            BucketScope::Limit(header) => Some(header),
            BucketScope::Unnamed | BucketScope::Unit(_) => None,
        };
        let resets = self.reset.iter().map(|(header, _)| *header);
        [self.remaining, self.capacity].into_iter().chain(self.used).chain(resets).chain(named)
    }
}
