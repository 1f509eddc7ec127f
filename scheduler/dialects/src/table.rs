//! The parts of a dialect's table.

use crate::unit::RetryAfterUnit;

/// The header that all dialects read.
pub(crate) const RETRY_AFTER: &str = "retry-after";

/// A dialect: the meaning of each header and status. Header names are in lower case.
#[derive(Debug)]
pub(crate) struct Table {
    /// The unit of a bare number in `Retry-After`.
    pub(crate) retry_after: RetryAfterUnit,
    /// The codes of errors that mean a spent quota, whatever else the answer says. Beside another
    /// code, a status of 403 speaks of rights.
    pub(crate) spent_codes: &'static [&'static str],
    /// The statuses that may mean that a limit objected. The first that applies counts.
    pub(crate) objections: &'static [Objection],
    /// Headers that describe the limit that objected.
    pub(crate) remarks: &'static [Remark],
    /// Buckets with a separate header for each figure.
    pub(crate) buckets: &'static [Bucket],
    /// Buckets in structured fields.
    pub(crate) fields: Option<Fields>,
    /// Headers with the cost of the call.
    pub(crate) spent: &'static [Spent],
    /// When quotas are reset if the answer does not say.
    pub(crate) quotas: Quotas,
}

/// A status that may mean that a limit objected.
#[derive(Debug)]
pub(crate) struct Objection {
    pub(crate) status: u16,
    pub(crate) when: When,
    pub(crate) means: Means,
}

/// What an answer needs so that its status counts as an objection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Always,
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
    pub(crate) capacity: &'static str,
    pub(crate) reset: (&'static str, Syntax),
    pub(crate) refill: Refill,
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
        let fields = self.fields.iter().flat_map(|fields| [fields.state, fields.policy]);
        let spent = self.spent.iter().map(|spent| spent.header);
        let mut all: Vec<_> = remarks.chain(buckets).chain(fields).chain(spent).chain([RETRY_AFTER]).collect();
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
        [self.remaining, self.capacity, self.reset.0].into_iter().chain(named)
    }
}
