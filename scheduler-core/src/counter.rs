//! What is taken of a limit that counts something else than tokens.

use crate::credit::Credit;
use crate::frame::Frame;
use crate::freeze::Freeze;
use crate::holdings::Holdings;
use crate::limit::{Counting, Hold, Limit};
use crate::taken::{Block, Taken, condensed, heard, told};
use crate::timeline::{Draw, Key};
use crate::windows::Windows;
use rampmeter_protocol::time::{Span, Time};

/// The state of a limit with windows, or of one whose calls hold something for a while.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    state: State,
    freeze: Option<Freeze>,
}

#[derive(Clone, Debug)]
enum State {
    Windows(Windows),
    Holdings(Holdings),
}

/// What may be granted that a successor does not know: so much for starts from `from` to `until`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown {
    pub(crate) from: Time,
    pub(crate) until: Time,
    pub(crate) credit: Credit,
}

fn frame(limit: &Limit) -> &Frame {
    match limit.counting() {
        Counting::Windows(frame) => frame,
        Counting::Tokens | Counting::Holding(_) => unreachable!("a bucket is of its limit's kind"),
    }
}

fn hold(limit: &Limit) -> Hold {
    match limit.counting() {
        Counting::Holding(hold) => *hold,
        Counting::Tokens | Counting::Windows(_) => unreachable!("a bucket is of its limit's kind"),
    }
}

impl Counter {
    /// A counter of a limit that counts, where at `now` everything but `level` is taken; none where the limit's buckets hold tokens.
    pub(crate) fn new(limit: &Limit, now: Time, level: Credit) -> Option<Self> {
        let until = limit.release(now)?;
        let taken = Block { from: now, until, credit: limit.full() - level };
        Counter::with(limit, now, Some(taken).filter(|taken| taken.credit > Credit::ZERO).as_slice())
    }

    /// A counter that somebody may have used who is not known, for starts until `until`.
    pub(crate) fn used_until(limit: &Limit, now: Time, until: Time) -> Option<Self> {
        let until = limit.release(until)?;
        let taken = Block { from: now, until, credit: limit.full() };
        Counter::with(limit, now, Some(taken).filter(|taken| taken.until > now).as_slice())
    }

    /// A counter of which its predecessor has told, at `then`. Windows are those of the wall clock; calls hold something for as long as
    /// they do, whatever that shows.
    pub(crate) fn of(limit: &Limit, then: Time, taken: &Taken) -> Option<Self> {
        let unix = match limit.counting() {
            Counting::Windows(_) => limit.unix_at_origin().saturating_add(then.nanos()),
            Counting::Tokens | Counting::Holding(_) => taken.unix_nanos,
        };
        let mut blocks = heard(then, unix, limit.spec().period, limit.rate(), taken);
        if taken.doubted {
            blocks.push(Block { from: then, until: limit.release(then)?, credit: limit.full() });
        }
        Counter::with(limit, then, &blocks)
    }

    fn with(limit: &Limit, now: Time, blocks: &[Block]) -> Option<Self> {
        let state = match limit.counting() {
            Counting::Tokens => return None,
            Counting::Windows(frame) => State::Windows(Windows::with(frame, blocks)),
            Counting::Holding(_) => State::Holdings(Holdings::with(now, blocks)),
        };
        Some(Counter { state, freeze: None })
    }

    /// What a successor has to know, with all that may be granted meanwhile, and calls that may be renewed until `renewed`.
    pub(crate) fn taken(&self, limit: &Limit, now: Time, unknown: &[Unknown], renewed: Time) -> Taken {
        let (mut blocks, rest) = match &self.state {
            State::Windows(windows) => {
                let (blocks, anywhere) = windows.blocks();
                (blocks, anywhere.to_vec())
            }
            State::Holdings(holdings) if renewed > now && hold(limit).until_settled => {
                (renewable(limit, holdings, renewed), Vec::new())
            }
            State::Holdings(holdings) => (holdings.blocks(), Vec::new()),
        };
        blocks = condensed(blocks);
        blocks.extend(condensed(rest));
        for Unknown { from, until, credit } in unknown.iter().filter(|granted| granted.credit > Credit::ZERO) {
            let until = limit.release(*until).unwrap_or(*until);
            blocks.push(Block { from: *from, until, credit: *credit });
        }
        told(now, limit.unix_at_origin().saturating_add(now.nanos()), limit.rate(), &blocks)
    }

    pub(crate) fn earliest(&self, limit: &Limit, from: Time, draw: Draw) -> Time {
        let from = from.max(self.freeze.map_or(Time::ORIGIN, |freeze| freeze.opens()));
        match &self.state {
            State::Windows(windows) => windows.earliest(limit, frame(limit), from, draw),
            State::Holdings(holdings) => holdings.earliest(limit, hold(limit).length, from, draw),
        }
    }

    pub(crate) fn commit(&mut self, limit: &Limit, now: Time, key: Key, draw: Draw) {
        if let Some(freeze) = &mut self.freeze {
            freeze.note_start(key);
        }
        match &mut self.state {
            State::Windows(windows) => windows.commit(frame(limit), now, key, draw.cost),
            State::Holdings(holdings) => {
                let until = holdings.end(key.at, hold(limit).length);
                holdings.commit(key, draw, until);
            }
        }
    }

    /// Commits a start that is counted already, without a name; what it holds ends at `end`, if that is known.
    pub(crate) fn promise_again(&mut self, limit: &Limit, now: Time, key: Key, draw: Draw, end: Option<Time>) {
        match &mut self.state {
            State::Windows(windows) => windows.promise_again(frame(limit), now, key, draw.cost),
            State::Holdings(holdings) => holdings.name(key, draw, end.unwrap_or(key.at + hold(limit).length)),
        }
    }

    /// Until when `key` holds something, unless that is settled or renewed before.
    pub(crate) fn lease(&self, key: Key) -> Option<Time> {
        match &self.state {
            State::Windows(_) => None,
            State::Holdings(holdings) => holdings.end_of(key),
        }
    }

    pub(crate) fn withdraw(&mut self, limit: &Limit, key: Key) -> bool {
        self.take_back_probe(key);
        match &mut self.state {
            State::Windows(windows) => windows.withdraw(frame(limit), key),
            State::Holdings(holdings) => holdings.withdraw(key),
        }
    }

    /// Learns what became of the call of `key`.
    pub(crate) fn correct(&mut self, limit: &Limit, key: Key, (charged, actual): (Credit, Credit)) {
        match &mut self.state {
            State::Windows(windows) => windows.correct(frame(limit), key.at, charged, actual),
            State::Holdings(holdings) if hold(limit).until_settled => drop(holdings.release(key)),
            State::Holdings(holdings) => holdings.correct(key, actual),
        }
    }

    /// The call of `key` is still in flight. Whether there was room for it to be.
    pub(crate) fn renew(&mut self, limit: &Limit, now: Time, key: Key, draw: Draw) -> bool {
        match &mut self.state {
            State::Holdings(holdings) if hold(limit).until_settled => {
                holdings.renew(limit, key, draw, now + hold(limit).length)
            }
            State::Windows(_) | State::Holdings(_) => true,
        }
    }

    pub(crate) fn debit(&mut self, limit: &Limit, now: Time, credit: Credit) {
        match &mut self.state {
            State::Windows(windows) => windows.spend(frame(limit), now, credit),
            State::Holdings(holdings) => holdings.hold(now, now + hold(limit).length, credit),
        }
    }

    pub(crate) fn advance(&mut self, limit: &Limit, now: Time) {
        match &mut self.state {
            State::Windows(windows) => windows.advance(frame(limit), now),
            State::Holdings(holdings) => holdings.advance(now),
        }
        self.freeze.take_if(|freeze| freeze.is_over(now));
    }

    pub(crate) fn level(&self, limit: &Limit, now: Time) -> Credit {
        match &self.state {
            State::Windows(windows) => windows.level(limit, frame(limit), now),
            State::Holdings(holdings) => holdings.level(limit, now),
        }
    }

    /// The most that starts until `time` could take.
    pub(crate) fn most_until(&self, limit: &Limit, now: Time, time: Time) -> Credit {
        match &self.state {
            State::Windows(windows) => windows.most_until(limit, frame(limit), now, time),
            State::Holdings(holdings) => holdings.most_until(limit, now, time),
        }
    }

    pub(crate) fn paid_behind(&self, limit: &Limit, now: Time, backlog: Credit, draw: Draw) -> Time {
        match &self.state {
            State::Windows(windows) => windows.paid_behind(limit, frame(limit), now, backlog, draw),
            State::Holdings(holdings) => holdings.paid_behind(limit, hold(limit).length, now, backlog, draw),
        }
    }

    /// When the next promise starts, and the last.
    pub(crate) fn promises(&self) -> Option<(Time, Time)> {
        match &self.state {
            State::Windows(windows) => windows.promises(),
            State::Holdings(holdings) => holdings.promises(),
        }
    }

    /// The last time of a start that may be counted, where that is one that is not over when what starts now is.
    pub(crate) fn outlasting(&self, limit: &Limit, now: Time) -> Option<Time> {
        let end = match &self.state {
            State::Windows(windows) => windows.end(),
            State::Holdings(holdings) => holdings.last_end(),
        };
        let end = end.filter(|end| limit.release(now).is_some_and(|release| *end > release))?;
        Some(end - Span::from_nanos(1))
    }

    pub(crate) fn promises_between(&self, from: Time, until: Time) -> bool {
        let within = |at: Time| from < at && at <= until;
        match &self.state {
            State::Windows(windows) => windows.promised().any(|(key, _)| within(key.at)),
            State::Holdings(holdings) => holdings.named().any(|(key, ..)| within(key.at)),
        }
    }

    pub(crate) fn is_unused(&self, now: Time) -> bool {
        let unused = match &self.state {
            State::Windows(windows) => windows.is_unused(now),
            State::Holdings(holdings) => holdings.is_unused(),
        };
        unused && self.freeze.is_none()
    }

    pub(crate) fn shed(&mut self, now: Time) {
        self.freeze.take_if(|freeze| freeze.is_forgotten(now));
    }

    /// Goes on under a limit whose windows are cut by another clock.
    pub(crate) fn anchor(&mut self, now: Time, from: &Limit, to: &Limit) {
        match &mut self.state {
            State::Windows(windows) => windows.cut_anew(now, frame(from), frame(to)),
            State::Holdings(_) => {}
        }
    }

    /// The same under a limit of another size. What was taken counts for as long as it would have, or would now.
    pub(crate) fn recast(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        if let (State::Holdings(holdings), Some(more)) = (&self.state, from.counts_longer_as(to)) {
            // What may have left it is no more than it can have let in.
            let most = from.full().times(more.nanos().div_ceil(from.spec().period.nanos()).saturating_add(1));
            let most = most.min(from.rate().credit(to.spec().capacity));
            let state = State::Holdings(holdings.lengthened(more, most));
            return Counter { state, freeze: self.freeze }.carried_over(now, from, to);
        }
        self.carried_over(now, from, to)
    }

    fn carried_over(&self, now: Time, from: &Limit, to: &Limit) -> Self {
        let up = |credit| to.rate().credit_of_micros(i128::from(from.rate().micros_up(credit)));
        let mut taken = self.taken(from, now, &[], Time::ORIGIN);
        taken.spans.iter_mut().for_each(|span| span.until_nanos = span.until_nanos.max(span.from_nanos));
        let mut counter = Counter::of(to, now, &taken).expect("limits go on counting as they do");
        match &self.state {
            State::Windows(windows) => {
                for (key, cost) in windows.promised() {
                    counter.promise_again(to, now, key, Draw { cost: up(cost), tier: 0 }, None);
                }
            }
            State::Holdings(holdings) => {
                for (key, draw, end) in holdings.named() {
                    counter.promise_again(to, now, key, Draw { cost: up(draw.cost), ..draw }, Some(end));
                }
            }
        }
        counter.freeze = self.freeze;
        counter
    }

    pub(crate) fn freeze(&self) -> Option<Freeze> {
        self.freeze
    }

    pub(crate) fn freeze_until(&mut self, until: Time) {
        self.freeze = Some(Freeze::new(self.freeze.map_or(until, |freeze| freeze.until().max(until))));
    }

    pub(crate) fn thaw(&mut self, key: Key) {
        self.freeze.take_if(|freeze| freeze.is_probed_by(key));
    }

    pub(crate) fn take_back_probe(&mut self, key: Key) {
        if let Some(freeze) = &mut self.freeze {
            freeze.note_return(key);
        }
    }
}

/// What is held if everybody who holds something renews it until `renewed`.
fn renewable(limit: &Limit, holdings: &Holdings, renewed: Time) -> Vec<Block> {
    let mut all = holdings.clone();
    let until = renewed + hold(limit).length;
    let named: Vec<(Key, Draw)> = holdings.named().map(|(key, draw, _)| (key, draw)).collect();
    for (key, draw) in named {
        all.renew(limit, key, draw, until);
    }
    all.blocks()
}
