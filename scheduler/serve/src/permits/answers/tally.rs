//! The counters of a permit loop: plain numbers on its own thread, copied for each report.

use crate::messages::inbound::EndpointKind;
use rampmeter_account::FailureKind;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::status::UnreadableHeader;
use rampmeter_protocol::text::brief;
use rampmeter_protocol::time::Span;
use std::collections::BTreeMap;

/// Upper bounds of a histogram's buckets, in seconds: from the cost of a decision to a long wait.
pub const BUCKETS: [f64; 16] =
    [0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 120.0, 600.0];

/// A histogram of durations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Histogram {
    /// The sum of all durations, in seconds.
    pub sum: f64,
    /// The number of durations.
    pub count: u64,
    /// The number in each bucket, not accumulated. The last bucket is for longer durations.
    pub buckets: [u64; BUCKETS.len() + 1],
}

impl Histogram {
    /// Adds a duration.
    pub fn observe(&mut self, span: Span) {
        let secs = span.secs();
        let bucket = BUCKETS.iter().position(|bound| secs <= *bound).unwrap_or(BUCKETS.len());
        self.buckets[bucket] += 1;
        self.sum += secs;
        self.count += 1;
    }
}

/// Refusals by code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals {
    counts: [u64; Code::ALL.len()],
    total: u64,
    last: Option<Code>,
}

impl Refusals {
    /// Counts a refusal.
    pub fn count(&mut self, code: Code) {
        if let Some(index) = Code::ALL.iter().position(|known| *known == code) {
            self.counts[index] += 1;
            self.total += 1;
            self.last = Some(code);
        }
    }

    /// Returns the number of all refusals.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns all codes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Code, u64)> {
        Code::ALL.into_iter().zip(self.counts)
    }
}

/// The handled messages of one kind. An array of requests is one message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handled {
    /// The number of messages.
    pub messages: u64,
    /// The number of messages whose immediate answer has a refusal.
    pub refused: u64,
    /// The last refusal.
    pub last_refusal: Option<Code>,
    /// The total time from reading a message to having its answers.
    pub spent: Span,
}

/// Responses of the upstream by class of status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers([u64; Answers::CLASSES.len()]);

impl Answers {
    /// The classes, by the first digit of a status. A status outside 100 to 599 is `other`.
    const CLASSES: [&str; 6] = ["other", "1xx", "2xx", "3xx", "4xx", "5xx"];

    /// Counts a response.
    pub fn count(&mut self, status: u16) {
        let hundreds = usize::from(status / 100);
        let class = if hundreds < Self::CLASSES.len() { hundreds } else { 0 };
        self.0[class] += 1;
    }

    /// Returns all classes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::CLASSES.into_iter().zip(self.0)
    }
}

/// Bound on the headers that are counted separately. Workers choose their names.
pub const MAX_UNREADABLE: usize = 64;
/// Bound on the shown bytes of a value.
const MAX_VALUE: usize = 64;
/// The name for all headers beyond the bound.
const OTHER: &str = "other";

/// Headers of the upstream that could not be read.
#[derive(Clone, Debug, Default)]
pub struct UnreadableHeaders {
    counts: BTreeMap<String, u64>,
    last: Option<UnreadableHeader>,
}

impl UnreadableHeaders {
    /// Counts a header, and remembers its value.
    pub fn note(&mut self, header: String, value: &str) {
        let is_known = self.counts.contains_key(&header) || self.counts.len() < MAX_UNREADABLE;
        let name = if is_known { header.clone() } else { OTHER.to_owned() };
        *self.counts.entry(name).or_default() += 1;
        let value = brief(&value[..value.floor_char_boundary(MAX_VALUE)]).into_owned();
        self.last = Some(UnreadableHeader { header, value });
    }

    /// Returns the last unreadable header.
    #[must_use]
    pub fn last(&self) -> Option<&UnreadableHeader> {
        self.last.as_ref()
    }

    /// Returns all headers, with how often each could not be read.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(header, count)| (&**header, *count))
    }
}

/// The counts of one permit loop.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The times from reading a message to having its answers, without waiting in the queue.
    pub decisions: Histogram,
    /// The waits from request to start, by class.
    pub waits: Vec<Histogram>,
    /// The times from start to settle, of settled calls.
    pub calls: Histogram,
    /// Refusals by code.
    pub refusals: Refusals,
    /// Responses of the upstream, as reported by workers.
    pub answers: Answers,
    /// Headers of the upstream that could not be read.
    pub unreadable: UnreadableHeaders,
    /// Checkpoints that the store has taken.
    pub checkpoints: u64,
    /// Checkpoints that counted because all standbys held them before the store did.
    pub witnessed: u64,
    /// How often the store has not taken a checkpoint in time.
    pub store_losses: u64,
    /// Answers to waiting requests that reached no client.
    pub undelivered: u64,
    /// Messages dropped because too many waited.
    pub lost_messages: u64,
    /// Messages dropped because of their reply subject.
    pub foreign_replies: u64,
    /// How far this machine's clock is ahead of the store's, by which windows are cut.
    pub clock_ahead_secs: f64,
    /// How often this process stood still.
    pub standstills: u64,
    /// How often the store turned out to be older than it should be.
    pub store_went_back: u64,
    /// Requests that named a higher epoch than ours.
    pub named_epochs: u64,
    /// Settles that were refused, by code, whether or not an answer was wanted.
    pub refused_settles: Refusals,
    /// Failed questions to the provider, by kind of failure in the order of [`FailureKind::ALL`].
    pub provider_failures: [u64; FailureKind::ALL.len()],
    handled: [Handled; EndpointKind::ALL.len()],
}

impl Tally {
    /// Creates an empty tally for this many classes.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        Tally { waits: vec![Histogram::default(); classes], ..Tally::default() }
    }

    /// Returns the handled messages of one kind.
    #[must_use]
    pub fn handled(&self, kind: EndpointKind) -> Handled {
        self.handled[kind as usize]
    }

    fn refusals_of(&self, kind: EndpointKind) -> &Refusals {
        match kind {
            EndpointKind::Permit | EndpointKind::Status => &self.refusals,
            EndpointKind::Settle => &self.refused_settles,
        }
    }

    /// Returns how many answers to messages of one kind were refusals so far.
    #[must_use]
    pub fn refused(&self, kind: EndpointKind) -> u64 {
        self.refusals_of(kind).total()
    }

    /// Counts a message that took `took`, before which there were `refused_before` [refusals](Tally::refused).
    pub fn note_handled(&mut self, kind: EndpointKind, took: Span, refused_before: u64) {
        let (is_refused, last) = (self.refused(kind) > refused_before, self.refusals_of(kind).last);
        let handled = &mut self.handled[kind as usize];
        handled.messages += 1;
        handled.spent = handled.spent + took;
        if is_refused {
            handled.refused += 1;
            handled.last_refusal = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_UNREADABLE, MAX_VALUE, UnreadableHeaders};

    #[test]
    fn headers_beyond_the_bound_are_counted_together_and_values_are_cut() {
        let mut unreadable = UnreadableHeaders::default();
        for number in 0..MAX_UNREADABLE + 5 {
            unreadable.note(format!("x-ratelimit-limit-{number}"), &"ü".repeat(1000));
        }
        assert_eq!(unreadable.iter().count(), MAX_UNREADABLE + 1);
        assert_eq!(unreadable.iter().find(|(header, _)| *header == "other"), Some(("other", 5)));
        let last = unreadable.last().unwrap();
        assert_eq!((&*last.header, last.value.len()), ("x-ratelimit-limit-68", MAX_VALUE));
    }
}
