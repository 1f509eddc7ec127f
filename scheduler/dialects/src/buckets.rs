//! The buckets that the headers of one response describe.

use crate::header_name::{BucketName, HeaderName, Told};
use crate::value::{self, Wait};
use crate::{shopify, structured};
use rampmeter_policy::observation::{Described, Reading, Scope};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::settle::Headers;
use rampmeter_protocol::time::Span;
use std::borrow::Cow;

/// Longest time until a reset: a month, plus a day because clocks differ.
pub const MAX_RESET: Span = Span::from_secs(32 * 86_400);

/// The unit of a number whose header states none.
const SECOND_MS: f64 = 1e3;
const THOUSAND: Amount = Amount::whole(1000);
/// The IETF's structured fields. An earlier draft has a header for each figure.
const FIELD: &str = "ratelimit";
const POLICY: &str = "ratelimit-policy";

#[derive(Debug, Default)]
pub(crate) struct Buckets {
    pub(crate) readings: Vec<Reading>,
    pub(crate) pause: Option<Span>,
    pub(crate) lone_reset: Option<Span>,
    pub(crate) unreadable: Vec<String>,
}

pub(crate) struct HeaderReader<'a> {
    pub(crate) headers: &'a Headers<'a>,
    /// The time by the clock that wrote the dates in the headers.
    pub(crate) unix_ms: u64,
    /// The unit of a bare number in `Retry-After`.
    pub(crate) retry_after_ms: f64,
    /// Returns what a header is about, if it is about limits.
    pub(crate) name: &'a dyn for<'n> Fn(&'n str) -> Option<HeaderName<'n>>,
}

#[derive(Default)]
struct Bucket {
    /// `Some(None)` if the bucket is unlimited.
    capacity: Option<Option<Amount>>,
    remaining: Option<Amount>,
    used: Option<Amount>,
    /// Whether it is used up, for a bucket that states no more.
    is_used_up: Option<bool>,
    window: Option<Span>,
    reset: Option<Wait>,
    reset_after: Option<Wait>,
    name: Option<Name>,
}

impl HeaderReader<'_> {
    /// Reads all headers, or without `all` only those that [`name`](HeaderReader::name) recognizes.
    pub(crate) fn read(&self, all: bool) -> Buckets {
        let mut found = Buckets::default();
        let named: Vec<(Cow<'_, str>, &str)> = self.headers.iter().map(|(name, value)| (lower(name), value)).collect();
        let mut buckets: Vec<(BucketName<'_>, Bucket)> = Vec::new();
        for (name, value) in &named {
            let Some(header) = (self.name)(name) else { continue };
            if !self.note(header, value.trim(), &mut buckets, &mut found.pause) {
                found.unreadable.push(name.to_string());
            }
        }
        if all {
            found.readings = self.fields(&mut found.unreadable);
        }
        if found.readings.is_empty() {
            if all {
                found.readings = self.figures(&mut found.unreadable);
            }
            found.lone_reset = buckets.iter().filter_map(|(name, bucket)| bucket.lone_reset(*name)).max();
            let readings = buckets.into_iter().filter_map(|(name, bucket)| bucket.reading(name));
            // Of two families of headers with the same capacity, one is enough.
            for reading in readings {
                let same = |known: &Reading| (&known.scope, known.capacity) == (&reading.scope, reading.capacity);
                if !found.readings.iter().any(same) {
                    found.readings.push(reading);
                }
            }
        }
        found.readings.iter_mut().for_each(|reading| reading.reset = reading.reset.map(|reset| reset.min(MAX_RESET)));
        found
    }

    /// Notes one header; false if its value cannot be parsed.
    fn note<'n>(
        &self,
        header: HeaderName<'n>,
        value: &str,
        buckets: &mut Vec<(BucketName<'n>, Bucket)>,
        pause: &mut Option<Span>,
    ) -> bool {
        let unit_ms = header.unit_ms.unwrap_or(SECOND_MS);
        let wait = |unit_ms| value::wait(value, unit_ms, self.unix_ms);
        if header.told == Told::Pause {
            let stated = wait(header.unit_ms.unwrap_or(self.retry_after_ms));
            *pause = (*pause).max(stated.map(|wait| wait.span).filter(|span| *span > Span::ZERO));
            return stated.is_some();
        }
        let place = buckets.iter().position(|(name, _)| *name == header.bucket).unwrap_or(buckets.len());
        if place == buckets.len() {
            buckets.push((header.bucket, Bucket::default()));
        }
        let bucket = &mut buckets[place].1;
        let figures = || value::figures(value);
        let least = || figures().min_by(|one, other| one.number.total_cmp(&other.number));
        let most = || figures().map(|figure| figure.number).max_by(f64::total_cmp);
        match header.told {
            Told::Capacity => {
                let figure = figures().next();
                bucket.capacity = figure.map(|figure| value::left(figure.number).filter(|_| figure.number >= 0.0));
                bucket.window = bucket.window.or(figure.and_then(|figure| figure.window));
                figure.is_some()
            }
            Told::Remaining => {
                let figure = least();
                bucket.remaining = figure.and_then(|figure| value::left(figure.number));
                bucket.window = bucket.window.or(figure.and_then(|figure| figure.window));
                figure.is_some()
            }
            Told::Used => set(&mut bucket.used, most().and_then(value::used)),
            Told::UsedShare => set(&mut bucket.is_used_up, most().map(|share| share >= 1.0)),
            Told::Reset => set(&mut bucket.reset, wait(unit_ms)),
            Told::ResetAfter => set(&mut bucket.reset_after, wait(unit_ms)),
            Told::Name => set(&mut bucket.name, Name::new(value).ok()),
            Told::Pause => true,
        }
    }

    /// The buckets of the IETF's structured fields.
    fn fields(&self, unreadable: &mut Vec<String>) -> Vec<Reading> {
        let policies = self.value(POLICY, unreadable, structured::policies).unwrap_or_default();
        self.value(FIELD, unreadable, |text| structured::readings(text, &policies)).unwrap_or_default()
    }

    /// The buckets of vendors with one header for all figures.
    fn figures(&self, unreadable: &mut Vec<String>) -> Vec<Reading> {
        let all = shopify::FIGURES.iter();
        all.filter_map(|(header, read)| self.value(header, unreadable, read)).collect()
    }

    fn value<T>(&self, header: &str, unreadable: &mut Vec<String>, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = read(self.headers.get(header)?.trim());
        if value.is_none() {
            unreadable.push(header.to_owned());
        }
        value
    }
}

fn set<T>(place: &mut Option<T>, read: Option<T>) -> bool {
    let is_read = read.is_some();
    *place = read;
    is_read
}

fn lower(name: &str) -> Cow<'_, str> {
    let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(name) } else { Cow::Owned(name.to_ascii_lowercase()) }
}

impl Bucket {
    /// Returns a reading if the remaining amount is known.
    fn reading(self, name: BucketName<'_>) -> Option<Reading> {
        let capacity = match self.capacity {
            // It has no limit.
            Some(None) => return None,
            stated => stated.flatten(),
        };
        let unused = self.used.zip(capacity).map(|(used, capacity)| capacity.saturating_sub(used));
        let empty = self.is_used_up.filter(|is_used_up| *is_used_up).map(|_| Amount::ZERO);
        let remaining = self.remaining.or(unused).or(empty)?;
        let (scope, window) = name.scope();
        // Windows without a stated capacity cannot be distinguished.
        if window.is_some() && scope == Scope::Unnamed && capacity.is_none() {
            return None;
        }
        let scope = self.name.map_or(scope, |name| Scope::Limit(name.to_string()));
        let reset = self.reset_after.or(self.reset);
        Some(Reading {
            remaining_grain: if name.is_coarse() { THOUSAND } else { Amount::ONE },
            capacity,
            reset: reset.map(|reset| reset.span),
            reset_grain: reset.map_or(Reading::grain_of(None), |reset| reset.grain),
            described: Described {
                period: self.window.or(window),
                is_gradual: name.is_gradual(),
                ..Described::default()
            },
            ..Reading::new(scope, remaining)
        })
    }

    /// The reset of a bucket without a name that states neither what remains nor what is used.
    fn lone_reset(&self, name: BucketName<'_>) -> Option<Span> {
        let tells_no_stock = self.remaining.is_none() && self.used.is_none();
        let reset = self.reset_after.or(self.reset).filter(|_| tells_no_stock && name.of.is_empty())?;
        Some(reset.span).filter(|span| *span > Span::ZERO)
    }
}
