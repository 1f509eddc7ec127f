//! What goes by the tables.

use crate::dialect::Dialect;
use crate::table::{Bucket, Fields, Means, Of, Quotas, RETRY_AFTER, Refill, Spent, Syntax, Table, Tells, When};
use crate::unit::RetryAfterUnit;
use crate::{instant, number, structured};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::settle::{Headers, Response};
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::adaptation::observation::{Observation, Reading, Scope, Verdict};

/// The longest silence that an answer can ask for. Whoever asks for more, by mistake or in earnest, is asked again after this.
pub const MAX_PAUSE: Span = Span::from_secs(3600);
/// The longest time until a reset: a month, and a day for clocks that differ.
pub const MAX_RESET: Span = Span::from_secs(32 * 86_400);

/// The name by which dialects mean the limit of a whole account.
const GLOBAL: &str = "global";

/// Reads the answers of one upstream.
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

/// What an answer tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// As far as it could be read.
    pub observation: Observation,
    /// Headers with values that could not be read.
    pub unreadable: Vec<&'static str>,
}

impl Reader {
    /// For an upstream that speaks `dialect`.
    #[must_use]
    pub fn of(dialect: Dialect) -> Self {
        Reader { dialect, retry_after: dialect.table().retry_after }
    }

    /// The same for one that counts `Retry-After` in `unit`, if any is named.
    #[must_use]
    pub fn counting_in(self, unit: Option<RetryAfterUnit>) -> Self {
        Reader { retry_after: unit.unwrap_or(self.retry_after), ..self }
    }

    /// Reads an answer that came at `unix_ms`, milliseconds since 1970. There is nothing that it can't take.
    #[must_use]
    pub fn read(&self, response: &Response<'_>, unix_ms: u64) -> Heard {
        let table = self.dialect.table();
        let mut page = Page { headers: &response.headers, unix_ms, unreadable: Vec::new() };
        let told = page.retry_after(self.retry_after);
        let buckets = page.buckets(table);
        let spent = table.spent.iter().filter_map(|spent| page.spent(spent)).collect();
        let verdict = Objections { table, told, buckets: &buckets, page: &page }.verdict(response);
        let readings = buckets.into_iter().map(|(reading, _)| reading).collect();
        Heard { observation: Observation { verdict, readings, spent }, unreadable: page.unreadable }
    }
}

/// An answer's headers.
struct Page<'a> {
    headers: &'a Headers<'a>,
    unix_ms: u64,
    unreadable: Vec<&'static str>,
}

impl Default for Reader {
    /// For an upstream of which nothing is known.
    fn default() -> Self {
        Reader::of(Dialect::default())
    }
}

impl Page<'_> {
    /// What a header says, if it is there and can be read.
    fn value<T>(&mut self, header: &'static str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = read(self.headers.get(header)?.trim());
        if value.is_none() {
            self.unreadable.push(header);
        }
        value
    }

    /// How long to be silent: a number, or a date. No time at all is no answer.
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
        let single = table.buckets.iter().filter_map(|bucket| Some((self.bucket(bucket)?, bucket.refill)));
        // Who speaks two drafts says the same in both.
        if fields.is_empty() { single.collect() } else { fields }
    }

    fn bucket(&mut self, bucket: &Bucket) -> Option<Reading> {
        let remaining = self.value(bucket.remaining, |text| number::left(number::number(text)?));
        let capacity = self.value(bucket.capacity, |text| number::left(number::first_number(text)?));
        let (header, syntax) = bucket.reset;
        let reset = self.reset(header, syntax).map(|reset| reset.min(MAX_RESET));
        let scope = self.scope(&bucket.of);
        Some(Reading { scope, remaining: remaining?, capacity, reset })
    }

    fn reset(&mut self, header: &'static str, syntax: Syntax) -> Option<Span> {
        let unix_ms = self.unix_ms;
        self.value(header, |text| match syntax {
            Syntax::Seconds => number::span(number::number(text)? * 1000.0),
            Syntax::Duration => number::duration(text),
            Syntax::Epoch => instant::until_epoch(number::number(text)?, unix_ms),
            Syntax::Rfc3339 => instant::until_rfc3339(text, unix_ms),
        })
    }

    fn scope(&mut self, of: &Of) -> Scope {
        match of {
            Of::Nobody => Scope::Unnamed,
            Of::Unit(unit) => Scope::Unit((*unit).to_owned()),
            Of::Limit(header) => {
                let name = self.value(header, |text| Name::new(text).ok());
                name.map_or(Scope::Unnamed, |name| Scope::Limit(name.to_string()))
            }
        }
    }

    fn fields(&mut self, fields: &Fields) -> Vec<(Reading, Refill)> {
        let policies = self.value(fields.policy, structured::policies).unwrap_or_default();
        let readings = self.value(fields.state, |text| structured::readings(text, &policies)).unwrap_or_default();
        let bounded = |reading: Reading| Reading { reset: reading.reset.map(|reset| reset.min(MAX_RESET)), ..reading };
        readings.into_iter().map(|reading| (bounded(reading), Refill::AtOnce)).collect()
    }

    fn spent(&mut self, spent: &Spent) -> Option<(String, Amount)> {
        let amount = self.value(spent.header, |text| number::spent(number::number(text)?))?;
        Some((spent.unit.to_owned(), amount))
    }

    fn says(&self, header: &str, value: &str) -> bool {
        self.headers.get(header).is_some_and(|found| found.trim().eq_ignore_ascii_case(value))
    }
}

/// All that an objection is judged by.
struct Objections<'a> {
    table: &'static Table,
    told: Option<Span>,
    buckets: &'a [(Reading, Refill)],
    page: &'a Page<'a>,
}

impl Objections<'_> {
    fn verdict(&self, response: &Response<'_>) -> Verdict {
        if response.quota_spent {
            return self.exhausted();
        }
        let mut objections = self.table.objections.iter();
        match objections.find(|objection| objection.status == response.status && self.holds(objection.when)) {
            None => Verdict::Passed,
            Some(objection) => match objection.means {
                Means::Limited => self.limited(self.tells(Tells::Others)),
                Means::Overloaded => self.limited(true),
                Means::Exhausted => self.exhausted(),
            },
        }
    }

    fn holds(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::Told => self.told.is_some(),
            When::ToldOrEmpty => self.told.is_some() || self.empty().next().is_some(),
        }
    }

    fn limited(&self, others: bool) -> Verdict {
        let retry_after = self.told.or(self.windows_end()).map(|pause| pause.min(MAX_PAUSE));
        Verdict::Limited { scope: self.scope(), retry_after, others }
    }

    fn exhausted(&self) -> Verdict {
        let by_calendar = match self.table.quotas {
            Quotas::NobodyKnows => None,
            Quotas::Monthly => instant::until_next_month(self.page.unix_ms),
        };
        let reset = self.told.or(self.windows_end()).or(by_calendar).map(|reset| reset.min(MAX_RESET));
        Verdict::Exhausted { scope: self.scope(), reset }
    }

    /// When the last window ends of which nothing is left.
    fn windows_end(&self) -> Option<Span> {
        let windows = self.empty().filter(|(_, refill)| *refill == Refill::AtOnce);
        windows.filter_map(|(reading, _)| reading.reset).max().filter(|end| *end > Span::ZERO)
    }

    /// One that is empty objected; one of several did, or one that had too little left.
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
        self.table.remarks.iter().any(|remark| remark.tells == what && self.page.says(remark.header, remark.value))
    }
}
