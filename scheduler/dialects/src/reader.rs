//! Reads answers by the tables of the dialects.

use crate::dialect::Dialect;
use crate::table::{
    Bucket, BucketScope, Fields, Figures, Means, Quotas, RETRY_AFTER, Refill, Share, Spent, Syntax, Table, Tells, When,
};
use crate::unit::RetryAfterUnit;
use crate::{instant, number, structured};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::settle::{Headers, Response};
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::adaptation::observation::{Described, Observation, Reading, Scope, Verdict};

/// The longest pause that a response can ask for. An upstream that asks for more is called again
/// after this time.
pub const MAX_PAUSE: Span = Span::from_secs(3600);
/// The longest time until a reset: a month, plus a day because clocks differ.
pub const MAX_RESET: Span = Span::from_secs(32 * 86_400);

/// The status of calls that an account may not make.
const FORBIDDEN: u16 = 403;

/// The name that dialects give to the limit of a whole account.
const GLOBAL: &str = "global";

/// Reads the responses of one upstream.
///
/// ```
/// use rampmeter_dialects::{Dialect, Reader, RetryAfterUnit};
/// let seconds = Reader::of(Dialect::SentinelHub).counting_in(Some(RetryAfterUnit::Seconds));
/// assert_ne!(seconds, Reader::of(Dialect::SentinelHub));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    dialect: Dialect,
    retry_after: RetryAfterUnit,
}

/// What a response tells about limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectReading {
    /// What could be read.
    pub observation: Observation,
    /// Headers with values that could not be read.
    pub unreadable: Vec<&'static str>,
}

impl Reader {
    /// A reader for an upstream that uses `dialect`.
    #[must_use]
    pub fn of(dialect: Dialect) -> Self {
        Reader { dialect, retry_after: dialect.table().retry_after }
    }

    /// The same reader, with bare numbers in `Retry-After` counted in `unit` if it is given.
    #[must_use]
    pub fn counting_in(self, unit: Option<RetryAfterUnit>) -> Self {
        Reader { retry_after: unit.unwrap_or(self.retry_after), ..self }
    }

    /// The dialect that it reads.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Reads a response that came at `unix_ms`, milliseconds since 1970. It accepts any response.
    #[must_use]
    pub fn read(&self, response: &Response<'_>, unix_ms: u64) -> DialectReading {
        let table = self.dialect.table();
        let mut headers = ResponseHeaders { headers: &response.headers, unix_ms, unreadable: Vec::new() };
        let retry_after = headers.retry_after(self.retry_after);
        let buckets = headers.buckets(table);
        let spent = table.spent.iter().filter_map(|spent| headers.spent(spent)).collect();
        let verdict = Objections { table, retry_after, buckets: &buckets, headers: &headers }.verdict(response);
        let readings = buckets.into_iter().map(|(reading, _)| reading).collect();
        DialectReading { observation: Observation { verdict, readings, spent }, unreadable: headers.unreadable }
    }
}

/// The headers of one response, and those of them that could not be read.
struct ResponseHeaders<'a> {
    headers: &'a Headers<'a>,
    unix_ms: u64,
    unreadable: Vec<&'static str>,
}

impl Default for Reader {
    /// A reader for an upstream without a known dialect.
    fn default() -> Self {
        Reader::of(Dialect::default())
    }
}

impl ResponseHeaders<'_> {
    /// The value of a header, if it is present and readable.
    fn value<T>(&mut self, header: &'static str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = read(self.headers.get(header)?.trim());
        if value.is_none() {
            self.unreadable.push(header);
        }
        value
    }

    /// The pause, from a number or a date. A pause of zero counts as none.
    fn retry_after(&mut self, unit: RetryAfterUnit) -> Option<Span> {
        let unix_ms = self.unix_ms;
        let span = self.value(RETRY_AFTER, |text| match number::number(text) {
            Some(number) => number::span(number * unit.in_millis()),
            None => instant::until_http_date(text, unix_ms),
        });
        span.filter(|span| *span > Span::ZERO)
    }

    fn buckets(&mut self, table: &Table) -> Vec<(Reading, Refill)> {
        let fields = table.fields.iter().flat_map(|fields| self.fields(fields)).collect::<Vec<_>>();
        // An upstream that sends the headers of two drafts says the same in both.
        if !fields.is_empty() {
            return fields;
        }
        let mut found = Vec::new();
        for bucket in table.buckets {
            found.extend(self.bucket(bucket).map(|reading| (reading, bucket.refill)));
        }
        for figures in table.figures {
            found.extend(self.figures(figures).map(|reading| (reading, figures.refill)));
        }
        for share in table.shares {
            found.extend(self.share(share).map(|reading| (reading, Refill::AtOnce)));
        }
        found
    }

    fn bucket(&mut self, bucket: &Bucket) -> Option<Reading> {
        let remaining = self.value(bucket.remaining, |text| number::left(number::number(text)?));
        let capacity = self.value(bucket.capacity, |text| number::left(number::first_number(text)?));
        let used = bucket.used.and_then(|header| self.value(header, |text| number::spent(number::number(text)?)));
        let unused = used.zip(capacity).map(|(used, capacity)| capacity.saturating_sub(used));
        let (reset, reset_grain) = self.first_reset(bucket.reset);
        let described = Described { is_gradual: bucket.refill == Refill::Gradually, ..Described::default() };
        let remaining_grain = bucket.rounded_to;
        let whole = Reading::new(self.scope(&bucket.of), remaining.or(unused)?);
        Some(Reading { remaining_grain, capacity, reset, reset_grain, described, ..whole })
    }

    fn figures(&mut self, figures: &Figures) -> Option<Reading> {
        let stock = self.value(figures.header, figures.read)?;
        let (capacity, reset) = (Some(stock.capacity), stock.reset.map(bounded));
        let reset_grain = Reading::grain_of(reset);
        let described = Described { is_gradual: true, period: stock.period, ..Described::default() };
        let whole = Reading::new(Scope::Unit(figures.unit.to_owned()), stock.remaining);
        Some(Reading { capacity, reset, reset_grain, described, ..whole })
    }

    /// A window that is used up; any other tells nothing.
    fn share(&mut self, share: &Share) -> Option<Reading> {
        let used = self.value(share.used, number::number)?;
        let (reset, reset_grain) = self.first_reset(&[share.reset]);
        let empty = Reading::new(Scope::Limit(share.limit.to_owned()), Amount::ZERO);
        (used >= 1.0).then_some(Reading { reset, reset_grain, ..empty })
    }

    /// The first of the resets that a response has, and its grain.
    fn first_reset(&mut self, headers: &[(&'static str, Syntax)]) -> (Option<Span>, Span) {
        let found = headers.iter().find_map(|header| self.reset(*header));
        found.map_or((None, Reading::grain_of(None)), |(reset, grain)| (Some(reset), grain))
    }

    /// The time until a reset, and its grain.
    fn reset(&mut self, (header, syntax): (&'static str, Syntax)) -> Option<(Span, Span)> {
        let unix_ms = self.unix_ms;
        let reset = self.value(header, |text| match syntax {
            Syntax::Seconds => number::span(number::number(text)? * 1000.0),
            Syntax::Duration => number::duration(text),
            Syntax::Epoch => instant::until_epoch(number::number(text)?, unix_ms),
            Syntax::Rfc3339 => instant::until_rfc3339(text, unix_ms),
        })?;
        let grain = match syntax {
            Syntax::Seconds | Syntax::Duration => Reading::grain_of(Some(reset)),
            // The upstream writes its own clock in whole seconds.
            Syntax::Epoch | Syntax::Rfc3339 => Reading::grain_of(None),
        };
        Some((bounded(reset), grain))
    }

    fn scope(&mut self, of: &BucketScope) -> Scope {
        match of {
            BucketScope::Unnamed => Scope::Unnamed,
            BucketScope::Unit(unit) => Scope::Unit((*unit).to_owned()),
            BucketScope::Limit(header) => {
                let name = self.value(header, |text| Name::new(text).ok());
                name.map_or(Scope::Unnamed, |name| Scope::Limit(name.to_string()))
            }
        }
    }

    fn fields(&mut self, fields: &Fields) -> Vec<(Reading, Refill)> {
        let policies = self.value(fields.policy, structured::policies).unwrap_or_default();
        let readings = self.value(fields.state, |text| structured::readings(text, &policies)).unwrap_or_default();
        let within = |reading: Reading| Reading { reset: reading.reset.map(bounded), ..reading };
        readings.into_iter().map(|reading| (within(reading), Refill::AtOnce)).collect()
    }

    fn spent(&mut self, spent: &Spent) -> Option<(String, Amount)> {
        let amount = self.value(spent.header, |text| number::spent(number::number(text)?))?;
        Some((spent.unit.to_owned(), amount))
    }

    fn says(&self, header: &str, value: &str) -> bool {
        self.headers.get(header).is_some_and(|found| found.trim().eq_ignore_ascii_case(value))
    }
}

fn bounded(reset: Span) -> Span {
    reset.min(MAX_RESET)
}

/// What decides whether a response is an objection.
struct Objections<'a> {
    table: &'static Table,
    retry_after: Option<Span>,
    buckets: &'a [(Reading, Refill)],
    headers: &'a ResponseHeaders<'a>,
}

impl Objections<'_> {
    fn verdict(&self, response: &Response<'_>) -> Verdict {
        let code = response.code.as_deref();
        if response.quota_spent || code.is_some_and(|code| self.table.spent_codes.contains(&code)) {
            return self.exhausted();
        }
        if response.status == FORBIDDEN && code.is_some() && !self.table.spent_codes.is_empty() {
            return Verdict::Passed;
        }
        let mut objections = self.table.objections.iter();
        match objections.find(|objection| objection.status == response.status && self.holds(objection.when)) {
            None => Verdict::Passed,
            Some(objection) => match objection.means {
                Means::Limited => self.limited(self.tells(Tells::SharedLimit)),
                Means::Overloaded => self.limited(true),
                Means::Busy => Verdict::Busy,
                Means::Exhausted => self.exhausted(),
            },
        }
    }

    fn holds(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::NamesNoTime => self.retry_after.is_none() && self.empty().next().is_none(),
            When::HasRetryAfter => self.retry_after.is_some(),
            When::HasRetryAfterOrEmptyBucket => self.retry_after.is_some() || self.empty().next().is_some(),
        }
    }

    fn limited(&self, others: bool) -> Verdict {
        let retry_after = self.retry_after.or(self.windows_end()).map(|pause| pause.min(MAX_PAUSE));
        Verdict::Limited { scope: self.scope(), retry_after, by_other_accounts: others }
    }

    fn exhausted(&self) -> Verdict {
        let by_calendar = match self.table.quotas {
            Quotas::Unknown => None,
            Quotas::Monthly => instant::until_next_month(self.headers.unix_ms),
        };
        let reset = self.retry_after.or(self.windows_end()).or(by_calendar).map(|reset| reset.min(MAX_RESET));
        Verdict::Exhausted { scope: self.scope(), reset }
    }

    /// The time until the last of the empty windows ends.
    fn windows_end(&self) -> Option<Span> {
        let windows = self.empty().filter(|(_, refill)| *refill == Refill::AtOnce);
        windows.filter_map(|(reading, _)| reading.reset).max().filter(|end| *end > Span::ZERO)
    }

    /// The one empty bucket. With several or none, the limit that objected is unknown.
    fn scope(&self) -> Scope {
        if self.tells(Tells::Global) {
            return Scope::Limit(GLOBAL.to_owned());
        }
        let mut empty = self.empty();
        match (empty.next(), empty.next()) {
            (Some((reading, _)), None) => reading.scope.clone(),
            (None | Some(_), _) => Scope::Unnamed,
        }
    }

    fn empty(&self) -> impl Iterator<Item = &(Reading, Refill)> {
        self.buckets.iter().filter(|(reading, _)| reading.remaining == Amount::ZERO)
    }

    fn tells(&self, what: Tells) -> bool {
        self.table.remarks.iter().any(|remark| remark.tells == what && self.headers.says(remark.header, remark.value))
    }
}
