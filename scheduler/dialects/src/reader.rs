//! The reader of an upstream's responses.

use crate::buckets::{Buckets, HeaderReader, MAX_RESET};
use crate::dialect::Dialect;
use crate::header_name::{BucketName, HeaderName, Told};
use crate::objection::{Means, Objection, Times};
use crate::tables::{self, REMARKS, Tells};
use crate::unit::RetryAfterUnit;
use crate::value;
use rampmeter_policy::observation::{Observation, Reading, Scope, Verdict};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::settle::Response;
use rampmeter_protocol::time::Span;
use std::sync::Arc;

/// Longest pause that a response can ask for, after which the upstream is called again.
pub const MAX_PAUSE: Span = Span::from_secs(3600);

/// How far the upstream's clock may differ from ours before its dates are compared with its own.
const SAME_CLOCK_MS: u64 = 5_000;

/// The name that dialects give to the limit of all calls.
const GLOBAL: &str = "global";
const RETRY_AFTER: &str = "retry-after";

/// Reads the responses of one upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    dialect: Dialect,
    retry_after: RetryAfterUnit,
    headers: Arc<OddHeaders>,
    /// All objections, of which the first that matches a response decides.
    objections: Arc<[Objection]>,
}

/// Lower-case names of headers whose meaning their names do not reveal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OddHeaders {
    /// The capacity of the bucket or window.
    pub limit: Option<String>,
    /// The remaining amount.
    pub remaining: Option<String>,
    /// The used amount.
    pub used: Option<String>,
    /// When the window ends.
    pub reset: Option<String>,
    /// The unit of a bare number in `reset`.
    pub reset_unit: Option<RetryAfterUnit>,
    /// The pause before the next call.
    pub retry_after: Option<String>,
}

/// What a response says about limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectReading {
    /// What could be read.
    pub observation: Observation,
    /// Headers whose values could not be parsed.
    pub unreadable: Vec<String>,
}

impl Reader {
    /// Creates a reader for an upstream that uses `dialect`.
    #[must_use]
    pub fn of(dialect: Dialect) -> Self {
        let table = dialect.table();
        let objections = (table.objections)().into_iter().chain(tables::objections()).collect();
        Reader { dialect, retry_after: table.retry_after, headers: Arc::default(), objections }
    }

    /// Sets the unit of bare numbers in `Retry-After`, if it is given.
    #[must_use]
    pub fn counting_in(self, unit: Option<RetryAfterUnit>) -> Self {
        Reader { retry_after: unit.unwrap_or(self.retry_after), ..self }
    }

    /// Also reads these headers.
    #[must_use]
    pub fn with_headers(self, headers: OddHeaders) -> Self {
        Reader { headers: Arc::new(headers), ..self }
    }

    /// Lets the first of these objections that matches a response decide.
    #[must_use]
    pub fn with_objections(self, objections: Vec<Objection>) -> Self {
        let objections = objections.into_iter().chain(self.objections.iter().cloned()).collect();
        Reader { objections, ..self }
    }

    /// Returns the dialect that it reads.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns whether some objection depends on a text in the body.
    #[must_use]
    pub fn reads_bodies(&self) -> bool {
        self.objections.iter().any(|objection| objection.body.is_some())
    }

    /// Returns the code for the text of an objection in `body`, if there is one. Whoever has the body passes it on
    /// as the settle's [code](Response::code), in preference to the code in the body itself.
    #[must_use]
    pub fn code_in(&self, status: u16, body: &str) -> Option<&str> {
        let lower = body.to_ascii_lowercase();
        self.objections.iter().find_map(|objection| objection.code_in(status, &lower))
    }

    /// Returns whether some objection depends on this code. Of several in a body, the first known one is passed on.
    #[must_use]
    pub fn knows_code(&self, status: u16, code: &str) -> bool {
        self.objections.iter().any(|objection| objection.knows(status, code))
    }

    /// Reads any response, received at `unix_ms`, milliseconds since 1970.
    #[must_use]
    pub fn read(&self, response: &Response<'_>, unix_ms: u64) -> DialectReading {
        let headers = HeaderReader {
            headers: &response.headers,
            unix_ms: server_time(response, unix_ms),
            retry_after_ms: self.retry_after.in_millis(),
            name: &|name| self.header_name(name),
        };
        let mut buckets = headers.read(self.dialect != Dialect::Plain);
        let spent = self.spent(response, &mut buckets.unreadable);
        let verdict = Judged { reader: self, response, buckets: &buckets, unix_ms }.verdict();
        let observation = Observation { verdict, readings: buckets.readings, spent };
        DialectReading { observation, unreadable: buckets.unreadable }
    }

    /// What the header with this lower-case name says.
    fn header_name<'n>(&self, name: &'n str) -> Option<HeaderName<'n>> {
        let odd = &*self.headers;
        let reset_ms = odd.reset_unit.map(RetryAfterUnit::in_millis);
        let all = [
            (&odd.limit, Told::Capacity, None),
            (&odd.remaining, Told::Remaining, None),
            (&odd.used, Told::Used, None),
            (&odd.reset, Told::Reset, reset_ms),
            (&odd.retry_after, Told::Pause, None),
        ];
        let named = all.into_iter().find(|(known, ..)| known.as_deref() == Some(name));
        let named = named.map(|(_, told, unit_ms)| HeaderName { told, bucket: BucketName::default(), unit_ms });
        named.or_else(|| HeaderName::parse(name).filter(|_| self.dialect != Dialect::Plain || name == RETRY_AFTER))
    }

    fn spent(&self, response: &Response<'_>, unreadable: &mut Vec<String>) -> Vec<(String, Amount)> {
        let Some((header, unit)) = self.dialect.table().spent else { return Vec::new() };
        let Some(text) = response.headers.get(header) else { return Vec::new() };
        let amount = value::number(text.trim()).filter(|spent| *spent >= 0.0).and_then(value::spent);
        if amount.is_none() {
            unreadable.push(header.to_owned());
        }
        amount.into_iter().map(|amount| (unit.to_owned(), amount)).collect()
    }
}

impl Default for Reader {
    /// Creates a reader for an upstream without a known dialect.
    fn default() -> Self {
        Reader::of(Dialect::default())
    }
}

fn server_time(response: &Response<'_>, unix_ms: u64) -> u64 {
    let stated = response.headers.get("date").and_then(value::moment);
    let stated = stated.and_then(|moment_ms| u64::try_from(moment_ms).ok());
    stated.filter(|stated| stated.abs_diff(unix_ms) > SAME_CLOCK_MS).unwrap_or(unix_ms)
}

struct Judged<'a> {
    reader: &'a Reader,
    response: &'a Response<'a>,
    buckets: &'a Buckets,
    unix_ms: u64,
}

impl Judged<'_> {
    fn verdict(&self) -> Verdict {
        let nothing = Objection::new(Means::Quota);
        if self.response.quota_spent {
            return self.exhausted(&nothing);
        }
        let times = Times { has_pause: self.buckets.pause.is_some(), has_empty_bucket: self.empty().next().is_some() };
        let found = self.reader.objections.iter().find(|objection| objection.fits(self.response, times));
        match found.map_or((&nothing, Means::Ignore), |objection| (objection, objection.means)) {
            (_, Means::Ignore) => Verdict::Passed,
            (_, Means::Busy) => Verdict::Busy,
            (objection, Means::Limit) => self.limited(objection, self.tells(Tells::SharedLimit)),
            (objection, Means::Pause) => self.limited(objection, true),
            (objection, Means::Quota) => self.exhausted(objection),
        }
    }

    fn limited(&self, objection: &Objection, others: bool) -> Verdict {
        let retry_after = self.stated_pause().or(objection.pause).map(|pause| pause.min(MAX_PAUSE));
        Verdict::Limited { scope: self.scope(objection), retry_after, by_other_accounts: others }
    }

    fn exhausted(&self, objection: &Objection) -> Verdict {
        let by_calendar =
            self.reader.dialect.table().is_monthly.then(|| value::until_next_month(self.unix_ms)).flatten();
        let reset = self.stated_pause().or(objection.pause).or(by_calendar);
        Verdict::Exhausted { scope: self.scope(objection), reset: reset.map(|reset| reset.min(MAX_RESET)) }
    }

    /// The pause in a header, or else until the last empty window ends: gradual buckets have stock long before.
    fn stated_pause(&self) -> Option<Span> {
        let windows = self.empty().filter(|reading| !reading.described.is_gradual);
        let ends = windows.filter_map(|reading| reading.reset).max().filter(|end| *end > Span::ZERO);
        self.buckets.pause.or(ends).or(self.buckets.lone_reset)
    }

    /// The one empty bucket. With several or none, the limit that objected is unknown.
    fn scope(&self, objection: &Objection) -> Scope {
        if let Some(limit) = &objection.limit {
            return Scope::Limit(limit.to_string());
        }
        if self.tells(Tells::Global) {
            return Scope::Limit(GLOBAL.to_owned());
        }
        let mut empty = self.empty();
        match (empty.next(), empty.next()) {
            (Some(reading), None) => reading.scope.clone(),
            (None | Some(_), _) if self.tells(Tells::NotGlobal) => Scope::Narrow,
            (None | Some(_), _) => Scope::Unnamed,
        }
    }

    fn empty(&self) -> impl Iterator<Item = &Reading> {
        self.buckets.readings.iter().filter(|reading| reading.remaining == Amount::ZERO)
    }

    fn tells(&self, what: Tells) -> bool {
        let says = |header, value| {
            self.response.headers.get(header).is_some_and(|found| found.trim().eq_ignore_ascii_case(value))
        };
        REMARKS.into_iter().any(|(header, value, told)| told == what && says(header, value))
    }
}
