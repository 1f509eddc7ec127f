//! What a dialect is made of.

use crate::unit::RetryAfterUnit;

/// The name that all dialects have in common.
pub(crate) const RETRY_AFTER: &str = "retry-after";

/// A dialect: which header feeds what, and which status means what. Names of headers are in lower case.
#[derive(Debug)]
pub(crate) struct Table {
    /// What a bare number in `Retry-After` counts.
    pub(crate) retry_after: RetryAfterUnit,
    /// Which statuses mean that a limit objected, beside 429.
    pub(crate) objections: &'static [Objection],
    /// What is said of the limit that objected.
    pub(crate) remarks: &'static [Remark],
    /// Buckets with a header for each figure.
    pub(crate) buckets: &'static [Bucket],
    /// Buckets in structured fields.
    pub(crate) fields: Option<Fields>,
    /// What the call cost.
    pub(crate) spent: &'static [Spent],
    /// When quotas are reset, where no answer says it.
    pub(crate) quotas: Quotas,
}

/// A status that may mean that a limit objected.
#[derive(Debug)]
pub(crate) struct Objection {
    pub(crate) status: u16,
    pub(crate) when: When,
    pub(crate) means: Means,
}

/// What has to be in an answer before its status means something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Always,
    /// It says in `Retry-After` when to come back.
    Told,
    /// It does, or shows a bucket with nothing left.
    ToldOrEmpty,
}

/// What a status means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Means {
    /// The call came too early.
    Limited,
    /// The upstream has to do with itself, whoever calls.
    Overloaded,
    /// A quota is gone.
    Exhausted,
}

/// A header that, with this value, tells something of the limit that objected.
#[derive(Debug)]
pub(crate) struct Remark {
    pub(crate) header: &'static str,
    pub(crate) value: &'static str,
    pub(crate) tells: Tells,
}

/// Something of a limit that objected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tells {
    /// It is that of the whole account, whose limit goes by the name `global`.
    Global,
    /// Others have used it up.
    Others,
}

/// A bucket with a header for each figure.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) of: Of,
    pub(crate) remaining: &'static str,
    pub(crate) capacity: &'static str,
    pub(crate) reset: (&'static str, Syntax),
    pub(crate) refill: Refill,
}

/// Whose bucket it is.
#[derive(Debug)]
pub(crate) enum Of {
    Nobody,
    Unit(&'static str),
    /// The limit that this header names.
    Limit(&'static str),
}

/// How the time until a reset is written.
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

/// What a reset is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Refill {
    /// The end of the window: before it, an empty bucket stays empty.
    AtOnce,
    /// The bucket is full by then, and has something left long before.
    Gradually,
}

/// Structured fields: the state of each bucket, and what it is a state of.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) state: &'static str,
    pub(crate) policy: &'static str,
}

/// A header with what a call cost.
#[derive(Debug)]
pub(crate) struct Spent {
    pub(crate) header: &'static str,
    pub(crate) unit: &'static str,
}

/// When quotas are reset.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quotas {
    NobodyKnows,
    /// On the first of each month, in UTC.
    Monthly,
}

impl Table {
    /// All headers that are read.
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
            Of::Limit(header) => Some(header),
            Of::Nobody | Of::Unit(_) => None,
        };
        [self.remaining, self.capacity, self.reset.0].into_iter().chain(named)
    }
}
