//! How much the delays of calls differ.
//!
//! The delay of a call is the time from its granted start until it arrives at the upstream. If all
//! delays were equal, calls would arrive with the planned gaps. A worker tells how late it sent a
//! call, and how long the answer took. The time of the fastest answer is the baseline. The time by
//! which another answer took longer bounds the extra delay of its call.

use crate::ids::Connection;
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// Delays are counted by these upper bounds.
const STEPS: [Span; 9] = {
    let millis = Span::from_millis;
    [millis(1), millis(2), millis(5), millis(10), millis(20), millis(50), millis(100), millis(200), millis(500)]
};
/// The jitter of a client with fewer calls counts as unknown.
const MIN_KNOWN: u32 = 20;
/// When more calls of a client than this are counted, all counts are halved.
const MAX_REMEMBERED: u32 = 1000;
/// A client that is silent for this long is forgotten. Its least time of a response is forgotten
/// after one to two such periods.
const MEMORY: Span = Span::from_secs(600);
/// Beyond this number, several clients count as one.
const MAX_CLIENTS: u16 = 1024;
/// The interval at which limits may change by the jitter.
const REVIEW: Span = Span::from_secs(10);

/// When a call was sent and answered, as its worker says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// How long after the permit's start the call was sent.
    pub late: Option<Span>,
    /// How long the response took.
    pub elapsed: Option<Span>,
}

/// The jitter of a resource's calls: 99 of 100 calls keep within this delay.
///
/// The jitter is [`LATENESS`] until clients are known. If there are several clients, only two
/// together can raise it further. So a client that lies raises the jitter to at most [`LATENESS`].
#[derive(Clone, Debug)]
pub(crate) struct DeliveryJitter {
    clients: BTreeMap<u16, ClientDelays>,
    next_review: Time,
}

/// The delays of one client's calls.
#[derive(Clone, Debug)]
struct ClientDelays {
    /// The number of calls by the first step that their delay keeps within. The last entry counts
    /// longer delays.
    counts: [u32; STEPS.len() + 1],
    last_report: Time,
    /// When the period of `least` began.
    since: Time,
    /// The least time of a response in this period, and in the one before.
    least: Option<Span>,
    before: Option<Span>,
}

impl DeliveryJitter {
    pub(crate) fn new(now: Time) -> Self {
        DeliveryJitter { clients: BTreeMap::new(), next_review: now + REVIEW }
    }

    /// Notes a call over `connection`. Returns the jitter if the limits are to be reviewed.
    pub(crate) fn note(&mut self, now: Time, connection: Connection, times: CallTimes) -> Option<Span> {
        self.clients.entry(connection.0 % MAX_CLIENTS).or_insert_with(|| ClientDelays::new(now)).note(now, times);
        self.review(now)
    }

    /// Notes that a repeated answer named a start to `connection`, `late` after that start.
    pub(crate) fn note_repeated(&mut self, connection: Connection, late: Span) {
        self.clients.entry(connection.0 % MAX_CLIENTS).and_modify(|client| client.count(late));
    }

    fn review(&mut self, now: Time) -> Option<Span> {
        if now < self.next_review {
            return None;
        }
        self.next_review = now + REVIEW;
        self.clients.retain(|_, client| now.since(client.last_report) < MEMORY);
        Some(self.jitter())
    }

    fn jitter(&self) -> Span {
        let mut jitters: Vec<Span> = self.clients.values().map(ClientDelays::jitter).collect();
        jitters.sort_unstable();
        let most = jitters.pop().unwrap_or(LATENESS);
        jitters.pop().map_or(most, |second| second.max(most.min(LATENESS)))
    }
}

impl ClientDelays {
    fn new(now: Time) -> Self {
        ClientDelays { counts: [0; STEPS.len() + 1], last_report: now, since: now, least: None, before: None }
    }

    fn note(&mut self, now: Time, times: CallTimes) {
        self.last_report = now;
        if now.since(self.since) > MEMORY {
            (self.since, self.before, self.least) = (now, self.least, None);
        }
        let delay = self.delay(times);
        self.count(delay);
    }

    fn count(&mut self, delay: Span) {
        let step = STEPS.iter().position(|step| delay <= *step).unwrap_or(STEPS.len());
        self.counts[step] += 1;
        if self.counts.iter().sum::<u32>() > MAX_REMEMBERED {
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// An upper bound of a call's extra delay. A slow response alone proves at most [`LATENESS`]. A
    /// call without times counts as late by [`LATENESS`].
    fn delay(&mut self, times: CallTimes) -> Span {
        let (Some(late), Some(elapsed)) = (times.late, times.elapsed) else { return LATENESS };
        let least = self.least.map_or(elapsed, |least| least.min(elapsed));
        self.least = Some(least);
        let beyond = elapsed.saturating_sub(self.before.map_or(least, |before| before.min(least)));
        (late + beyond).min(LATENESS).max(late)
    }

    /// The step that 99 of 100 calls keep within.
    fn jitter(&self) -> Span {
        let calls: u32 = self.counts.iter().sum();
        if calls < MIN_KNOWN {
            return LATENESS;
        }
        let mut beyond = calls;
        let within = STEPS.iter().zip(self.counts).find(|(_, count)| {
            beyond -= count;
            beyond <= calls / 100
        });
        within.map_or(STEPS[STEPS.len() - 1], |(step, _)| *step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Span {
        Span::from_millis(millis)
    }

    fn sent(late: u64, elapsed: u64) -> CallTimes {
        CallTimes { late: Some(ms(late)), elapsed: Some(ms(elapsed)) }
    }

    /// The jitter if each of the clients makes these calls, again and again.
    fn jitter(clients: &[&[CallTimes]]) -> Span {
        let mut jitter = DeliveryJitter::new(Time::ORIGIN);
        let mut found = None;
        for millis in 0..11_000 {
            let (client, now) = (millis as usize % clients.len(), Time::ORIGIN + ms(millis));
            let calls = clients[client];
            let call = calls[millis as usize / clients.len() % calls.len()];
            found = found.or(jitter.note(now, Connection(client as u16 + 1), call));
        }
        found.expect("eleven seconds are enough for a review")
    }

    #[test]
    fn the_jitter_is_what_99_of_100_calls_keep_within() {
        let quick = vec![sent(0, 7); 199];
        let with = |last: CallTimes, count: usize| [quick.clone(), vec![last; count]].concat();
        let table = [
            ("all alike", with(sent(0, 7), 1), 1),
            ("one in 200 is late", with(sent(300, 7), 1), 1),
            ("one in 50 is late", with(sent(15, 7), 4), 20),
            ("one in 50 takes longer", with(sent(0, 15), 4), 10),
            ("both", with(sent(4, 15), 4), 20),
            ("an answer alone shows no more than is assumed", with(sent(0, 3000), 4), 50),
            ("a call that was sent late shows more", with(sent(150, 3000), 4), 200),
            ("the jitter is at most the last step", with(sent(60_000, 7), 4), 500),
            ("calls that tell nothing", with(CallTimes::default(), 4), 50),
        ];
        for (what, calls, expected) in table {
            assert_eq!(jitter(&[&calls]), ms(expected), "{what}");
        }
    }

    #[test]
    fn more_than_is_assumed_takes_the_word_of_two_clients() {
        let (quick, slow, liar) = (&[sent(0, 7)][..], &[sent(150, 7)][..], &[sent(0, 0), sent(90_000, 0)][..]);
        assert_eq!(jitter(&[quick, quick, quick]), ms(1));
        assert_eq!(jitter(&[quick, liar, quick]), LATENESS);
        assert_eq!(jitter(&[slow, liar, quick]), ms(200));
        assert_eq!(jitter(&[slow, slow, quick]), ms(200));
    }

    #[test]
    fn earlier_delays_fade() {
        let mut client = ClientDelays::new(Time::ORIGIN);
        (0..1_000_000).for_each(|_| client.count(ms(150)));
        (0..10 * MAX_REMEMBERED).for_each(|_| client.count(ms(1)));
        assert!(client.counts.iter().sum::<u32>() <= MAX_REMEMBERED);
        assert_eq!(client.jitter(), ms(1));
    }

    #[test]
    fn clients_beyond_the_bound_count_as_others() {
        let mut jitter = DeliveryJitter::new(Time::ORIGIN);
        (0..=u16::MAX).for_each(|client| _ = jitter.note(Time::ORIGIN, Connection(client), sent(0, 7)));
        assert_eq!((jitter.clients.len(), jitter.jitter()), (usize::from(MAX_CLIENTS), ms(1)));
    }
}
