//! Records the use of a resource, forecasts its limits and warns of spent quotas, while this process leads it.

use crate::context::ProcessContext;
use crate::forecast::DAYS;
use crate::leadership::limit_forecasts::limit_forecasts;
use crate::leadership::quota_alerts::QuotaAlerts;
use crate::leadership::usage_book::{DayHour, UsageBook};
use crate::messages::inbound::answer_to;
use crate::permits::answers::loop_request::LoopRequest;
use crate::permits::loop_handle::{LoopWatch, ask, next_term};
use async_nats::{Message, Subscriber};
use futures::StreamExt;
use jiff::ToSpan;
use jiff::civil::Date;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::usage::{ClientUsage, DayUsage, KEPT_DAYS, UsageQuery};
use rampmeter_store::{StoreError, StoredClientUsage, StoredDayUsage};
use std::time::Duration;
use tokio::sync::mpsc;

/// How often use is written, if there is any. A crash loses the counts of this time.
const WRITE_EVERY: Duration = Duration::from_secs(5);
/// Forecasts are made again after this many writes. They look hours and days ahead.
const WRITES_PER_FORECAST: u64 = 12;
/// Old days are deleted after this many writes, once an hour.
const WRITES_PER_DELETION: u64 = 720;

pub(crate) struct UsageKeeper {
    context: ProcessContext,
    resource: Name,
    book: UsageBook,
    /// Whole days before today, the earliest first, with the day on which they were read.
    history: Option<(Date, Vec<StoredDayUsage>)>,
    alerts: QuotaAlerts,
    /// Whether the last write has failed. Only the first failure is logged.
    is_failing: bool,
}

impl UsageKeeper {
    pub(crate) fn new(context: ProcessContext, resource: Name, book: UsageBook) -> Self {
        UsageKeeper { context, resource, book, history: None, alerts: QuotaAlerts::default(), is_failing: false }
    }

    /// Records the counts of the loop that `led` receives. Returns when `led` is closed.
    pub(crate) async fn keep(mut self, mut led: LoopWatch) {
        while let Some(orders) = next_term(&mut led).await {
            let orders = orders.downgrade();
            tokio::select! {
                biased;
                changed = led.changed() => if changed.is_err() { return },
                () = self.keep_for_a_term(&orders) => {}
            }
        }
    }

    /// Records until it is cancelled at the end of the term, which loses no use taken from the loop.
    async fn keep_for_a_term(&mut self, orders: &mpsc::WeakSender<LoopRequest>) {
        let mut questions = self.context.client.subscribe(self.context.subjects.usage(&self.resource)).await.ok();
        let mut due = tokio::time::interval(WRITE_EVERY);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut writes = 0_u64;
        loop {
            tokio::select! {
                question = next(&mut questions) => self.answer_usage(question).await,
                _ = due.tick() => {
                    let Some(orders) = orders.upgrade() else { return std::future::pending().await };
                    self.write(&orders).await;
                    if writes.is_multiple_of(WRITES_PER_FORECAST) {
                        self.update_forecast(&orders).await;
                    }
                    if writes.is_multiple_of(WRITES_PER_DELETION) {
                        self.delete_old_days().await;
                    }
                    writes += 1;
                }
            }
        }
    }

    /// Writes the use since the last write. The task that writes goes on if the term ends.
    async fn write(&mut self, orders: &mpsc::Sender<LoopRequest>) {
        let (orders, book) = (orders.clone(), self.book.clone());
        let writing = tokio::spawn(async move {
            let used = ask(&orders, LoopRequest::TakeUse).await;
            // The loop ends with the last sender of orders.
            drop(orders);
            let Some(used) = used else { return Ok(()) };
            book.add(&used).await
        });
        if let Ok(written) = writing.await {
            self.note_outcome(&written);
        }
    }

    fn note_outcome(&mut self, written: &Result<(), StoreError>) {
        let was_failing = std::mem::replace(&mut self.is_failing, written.is_err());
        if let Err(error) = written.as_ref().map_err(|error| error.to_string())
            && !was_failing
        {
            let resource = &self.resource;
            tracing::warn!(%resource, error, "what was used could not be written; it is kept and tried again");
        }
    }

    /// Makes a forecast, and has the loop include it in the status.
    async fn update_forecast(&mut self, orders: &mpsc::Sender<LoopRequest>) {
        let Some(report) = ask(orders, LoopRequest::Report).await else { return };
        let limits = report.status.limits;
        self.alerts.note(&self.resource, &limits);
        let Some(days) = self.known_days().await else { return };
        let now = DayHour::unix_hours();
        let made = tokio::task::spawn_blocking(move || limit_forecasts(&limits, &days, now)).await;
        if let Ok(forecasts) = made {
            orders.send(LoopRequest::Forecasts(forecasts)).await.ok();
        }
    }

    /// Returns the days of the history until today, the earliest first, each with its date.
    async fn known_days(&mut self) -> Option<Vec<(Date, StoredDayUsage)>> {
        let today = DayHour::now().day;
        let dates = days_before(today, DAYS);
        if self.history.as_ref().is_none_or(|(day, _)| *day != today) {
            self.history = Some((today, self.book.days(&dates).await.ok()?));
        }
        let (_, before) = self.history.as_ref()?;
        let present = self.book.days(&[today]).await.ok()?;
        Some(dates.into_iter().chain([today]).zip(before.iter().cloned().chain(present)).collect())
    }

    async fn delete_old_days(&self) {
        let oldest = days_before(DayHour::now().day, usize::from(KEPT_DAYS) - 1).first().copied();
        if let Some(oldest) = oldest
            && let Err(error) = self.book.delete_before(oldest).await
        {
            tracing::debug!(resource = %self.resource, %error, "days of old usage were not deleted");
        }
    }

    async fn answer_usage(&self, question: Message) {
        let subjects = &self.context.subjects;
        let Some(reply) = question.reply.and_then(|reply| answer_to(subjects, &question.subject, reply)) else {
            return;
        };
        let days_ago = UsageQuery::parse(&question.payload).days_ago.min(KEPT_DAYS - 1);
        let today = DayHour::now().day;
        let day = today.checked_sub(i64::from(days_ago).days()).unwrap_or(today);
        let used = self.book.days(&[day]).await.unwrap_or_default().pop().unwrap_or_default();
        let clients = used.rows().iter().map(client_usage).collect();
        let usage = DayUsage { resource: self.resource.clone(), day: day.to_string(), clients };
        let usage = serde_json::to_vec(&usage).expect("usage is plain data");
        self.context.client.publish(reply, usage.into()).await.ok();
    }
}

async fn next(questions: &mut Option<Subscriber>) -> Message {
    if let Some(questions) = questions
        && let Some(question) = questions.next().await
    {
        return question;
    }
    std::future::pending().await
}

/// Returns this many days before `today`, the earliest first.
fn days_before(today: Date, count: usize) -> Vec<Date> {
    let ago = |days: usize| today.checked_sub(i64::try_from(days).unwrap_or(i64::MAX).days()).ok();
    (1..=count).rev().filter_map(ago).collect()
}

fn client_usage(row: &StoredClientUsage) -> ClientUsage {
    let units = |micros: &i64| *micros as f64 / Amount::ONE.micros() as f64;
    ClientUsage {
        client: row.client.clone(),
        class: row.class.clone(),
        calls: row.calls,
        units: row.micros.iter().map(|(unit, micros)| (unit.clone(), units(micros))).collect(),
    }
}
