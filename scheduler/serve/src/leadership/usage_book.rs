//! The use of a resource, on its way into the store.
//!
//! The counts of this process's permit loops are added to the stored values of their days. A part that
//! could not be written stays here, and is tried again under its number.

use crate::wall_time;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::views::Use;
use rampmeter_store::{Revision, Store, StoreError, StoredDayUsage};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Bound on the parts that wait for the store. Each part is of one day, and a day has at most two.
const MAX_PARTS: usize = 4;
const MILLIS_PER_HOUR: f64 = 3_600_000.0;
/// How often a write is retried at once while other schedulers write the same value.
const TRIES: usize = 8;

/// A day and an hour of it, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DayHour {
    pub(crate) day: Date,
    pub(crate) hour: usize,
}

impl DayHour {
    /// Returns the present day and hour, by this machine's clock.
    pub(crate) fn now() -> Self {
        let now = wall_time::now().to_zoned(TimeZone::UTC);
        DayHour { day: now.date(), hour: usize::try_from(now.hour()).unwrap_or_default() }
    }

    /// Returns the hours since 1970, with a fraction.
    pub(crate) fn unix_hours() -> f64 {
        unix_ms() as f64 / MILLIS_PER_HOUR
    }
}

/// The counted use that is not yet written. All clones are one book.
#[derive(Clone, Debug)]
pub(crate) struct UsageBook {
    store: Store,
    resource: Name,
    /// Locked while parts are written, which the store bounds by a timeout.
    unwritten: Arc<Mutex<Unwritten>>,
}

#[derive(Debug)]
struct Unwritten {
    writer: u64,
    last_number: u64,
    parts: VecDeque<Part>,
    written: Option<(Date, StoredDayUsage, Revision)>,
}

#[derive(Debug)]
struct Part {
    day: Date,
    number: u64,
    used: StoredDayUsage,
    /// Whether a write of the part was tried, and may have succeeded. The part no longer changes then.
    was_tried: bool,
}

impl UsageBook {
    pub(crate) fn new(store: Store, resource: Name) -> Self {
        let unwritten = Unwritten { writer: rand::random(), last_number: 0, parts: VecDeque::new(), written: None };
        UsageBook { store, resource, unwritten: Arc::new(Mutex::new(unwritten)) }
    }

    /// Adds use, and writes everything not yet written. If that fails, the use is kept and written later.
    pub(crate) async fn add(&self, used: &Use) -> Result<(), StoreError> {
        let mut unwritten = self.unwritten.lock().await;
        if !used.is_empty() {
            unwritten.note(DayHour::now(), used);
        }
        while let Some(part) = unwritten.parts.front_mut() {
            part.was_tried = true;
            self.write(&mut unwritten).await?;
            unwritten.parts.pop_front();
        }
        Ok(())
    }

    pub(crate) async fn days(&self, days: &[Date]) -> Result<Vec<StoredDayUsage>, StoreError> {
        self.store.read_uses(&self.resource, days).await
    }

    pub(crate) async fn delete_before(&self, oldest: Date) -> Result<(), StoreError> {
        self.store.delete_uses_before(&self.resource, oldest).await
    }

    /// Adds the first part to the stored value of its day.
    async fn write(&self, unwritten: &mut Unwritten) -> Result<(), StoreError> {
        let Unwritten { writer, parts, written, .. } = unwritten;
        let Some(Part { day, number, used, .. }) = parts.front() else { return Ok(()) };
        for _ in 0..TRIES {
            let known = written.take().filter(|(known, ..)| known == day);
            let (mut sum, revision) = match known {
                Some((_, sum, revision)) => (sum, revision),
                None => self.store.read_use(&self.resource, *day).await?,
            };
            if !sum.note_addition(*writer, *number) {
                return Ok(());
            }
            sum.add(used);
            match self.store.write_use(&self.resource, *day, &sum, revision).await {
                Ok(revision) => {
                    *written = Some((*day, sum, revision));
                    return Ok(());
                }
                Err(StoreError::Superseded) => {}
                Err(error @ (StoreError::TooLarge(_) | StoreError::Unavailable(_))) => return Err(error),
            }
        }
        Err(StoreError::Superseded)
    }
}

impl Unwritten {
    /// Adds use to the last part, or begins a new one if a write of the last was tried or the day has changed.
    fn note(&mut self, now: DayHour, used: &Use) {
        let fits = self.parts.back().is_some_and(|part| part.day == now.day && !part.was_tried);
        if !fits {
            if self.parts.len() >= MAX_PARTS {
                self.parts.pop_front();
                tracing::error!("the store takes no usage for days: the oldest part is lost");
            }
            self.last_number += 1;
            let (day, number) = (now.day, self.last_number);
            self.parts.push_back(Part { day, number, used: StoredDayUsage::default(), was_tried: false });
        }
        if let Some(part) = self.parts.back_mut() {
            part.used.count(now.hour, used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_scheduler_core::views::ClientUse;

    /// Reaches `usage_book::MAX_PARTS`.
    #[test]
    fn without_a_store_the_oldest_parts_are_lost() {
        let micros = vec![(Name::new("units").unwrap(), 1)];
        let row = ClientUse { client: "a".into(), class: Name::new("bulk").unwrap(), calls: 1, micros };
        let used = Use { clients: vec![row], limits: Vec::new() };
        let mut unwritten = Unwritten { writer: 1, last_number: 0, parts: VecDeque::new(), written: None };
        for day in 1..=20 {
            for hour in 0..2 {
                unwritten.note(DayHour { day: Date::constant(2026, 10, day), hour }, &used);
            }
        }
        let days: Vec<i8> = unwritten.parts.iter().map(|part| part.day.day()).collect();
        assert_eq!(days, [17, 18, 19, 20]);
    }
}
