//! So much in each window of time, and what of that is promised.

use crate::credit::Credit;
use crate::frame::{Frame, Window};
use crate::limit::Limit;
use crate::taken::Block;
use crate::timeline::{Draw, Key};
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// Windows that are looked through one by one for an estimate; beyond, all are as long as the first.
const MOST_WALKED: usize = 64;

/// A window in which something starts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Used {
    window: Window,
    /// The last start in it.
    last: Time,
    starts: usize,
    taken: Credit,
    /// The first start whose call was surely made, where the window began with its first start: the upstream's began no later. Until
    /// that is known it may have been with any of the starts, for a call that was never made opens no window.
    made: Option<Time>,
    /// It does not end before, because others may have opened it.
    until: Time,
}

/// The windows of one bucket that have not ended.
///
/// Guarantees that no window holds more than the limit has, whatever is committed later. Where windows begin when they are
/// first used, they are taken to last until the upstream's has surely ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    used: VecDeque<Used>,
    promised: BTreeMap<Key, Credit>,
    /// What somebody may have taken in one of several windows: it counts in each that it meets.
    anywhere: Vec<Block>,
}

impl Windows {
    /// Windows of which this is taken.
    pub(crate) fn with(frame: &Frame, blocks: &[Block]) -> Self {
        let mut windows = Windows::default();
        blocks.iter().for_each(|block| windows.take(frame, *block));
        windows
    }

    /// Notes that so much is taken in this time.
    fn take(&mut self, frame: &Frame, block: Block) {
        match frame.window(block.from) {
            None => self.take_by_use(frame, block),
            Some(window) if block.until <= window.ends => {
                self.used_in(window).taken += block.credit;
            }
            Some(_) => self.anywhere.push(block),
        }
    }

    /// The window that begins when it is first used may have begun at any time in the block, and so may all that it meets.
    fn take_by_use(&mut self, frame: &Frame, block: Block) {
        let mut window = Window { starts: block.from, ends: block.until };
        let mut taken = block.credit;
        self.used.retain(|used| {
            let meets = block.meets(used.window.starts, used.window.ends);
            if meets {
                window =
                    Window { starts: window.starts.min(used.window.starts), ends: window.ends.max(used.window.ends) };
                taken += used.taken;
            }
            !meets
        });
        let last = (window.ends - frame.lasting()).max(window.starts);
        let place = self.used.partition_point(|used| used.window.ends <= window.starts);
        self.used.insert(place, Used { window, last, starts: 1, taken, made: None, until: window.ends });
    }

    /// What is known of this window of the frame.
    fn used_in(&mut self, window: Window) -> &mut Used {
        let place = self.used.partition_point(|used| used.window.ends <= window.starts);
        if self.used.get(place).is_none_or(|used| used.window != window) {
            let (starts, until) = (window.starts, Time::ORIGIN);
            let used = Used { window, last: starts, starts: 1, taken: Credit::ZERO, made: Some(starts), until };
            self.used.insert(place, used);
        }
        &mut self.used[place]
    }

    /// The earliest time from `from` on at which `draw` can be committed.
    pub(crate) fn earliest(&self, limit: &Limit, frame: &Frame, mut from: Time, draw: Draw) -> Time {
        while from < Time::NEVER {
            match self.try_from(limit, frame, from, draw) {
                Ok(start) => return start,
                Err(later) => from = later,
            }
        }
        Time::NEVER
    }

    /// Commits a start at a time that [`Windows::earliest`] found.
    pub(crate) fn commit(&mut self, frame: &Frame, now: Time, key: Key, cost: Credit) {
        if key.at > now {
            self.promised.insert(key, cost);
        }
        self.spend(frame, key.at, cost);
    }

    /// Commits a start that is counted already, if it is known where.
    pub(crate) fn promise_again(&mut self, frame: &Frame, now: Time, key: Key, cost: Credit) {
        let place = self.used.partition_point(|used| used.window.ends <= key.at);
        if let Some(used) = self.used.get_mut(place).filter(|used| used.window.has(key.at) && used.taken >= cost) {
            used.starts += 1;
            used.last = used.last.max(key.at);
            self.promised.insert(key, cost);
        } else {
            self.commit(frame, now, key, cost);
        }
    }

    /// Takes this much of the window at `at`.
    pub(crate) fn spend(&mut self, frame: &Frame, at: Time, cost: Credit) {
        let place = self.used.partition_point(|used| used.window.ends <= at);
        match self.used.get_mut(place) {
            Some(used) if used.window.has(at) => used.add(frame, at, cost),
            Some(next) if frame.is_by_use() && next.window.starts < at + frame.lasting() => {
                next.begin_earlier(at, cost);
            }
            Some(_) | None => self.used.insert(place, Used::begin(frame, at, cost)),
        }
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, key: Key) -> bool {
        let Some(cost) = self.promised.remove(&key) else { return false };
        let place = self.used.partition_point(|used| used.window.ends <= key.at);
        let used = self.used.get_mut(place).expect("a promise is in a window");
        used.taken -= cost;
        used.starts -= 1;
        if used.starts == 0 {
            self.used.remove(place);
        }
        true
    }

    /// Turns promises whose time has come into tokens spent, and forgets windows that have ended.
    pub(crate) fn advance(&mut self, now: Time) {
        while self.promised.first_key_value().is_some_and(|(key, _)| key.at <= now) {
            self.promised.pop_first();
        }
        while self.used.front().is_some_and(|used| used.window.ends <= now) {
            self.used.pop_front();
        }
        self.anywhere.retain(|block| block.until > now);
    }

    /// Learns what became of a call that was charged at `since`: it took this much, or was not made.
    pub(crate) fn correct(&mut self, frame: &Frame, since: Time, charged: Credit, actual: Credit, made: bool) {
        let place = self.used.partition_point(|used| used.window.ends <= since);
        // What was not used in a window that has ended is of no use in another.
        if let Some(used) = self.used.get_mut(place).filter(|used| used.window.has(since)) {
            used.taken = (used.taken + actual - charged).max(Credit::ZERO);
            // What costs nothing of a limit opens no window of it.
            if made && actual > Credit::ZERO {
                used.confirm(frame, since);
            }
        }
    }

    /// What could be spent at `now`; below zero by what is promised in later windows.
    pub(crate) fn level(&self, limit: &Limit, frame: &Frame, now: Time) -> Credit {
        let (window, taken) = self.window_at(frame, now);
        let current = limit.full() - taken;
        let later = self.used.iter().filter(|used| used.window.starts >= window.ends).map(|used| used.taken);
        let later = later.fold(Credit::ZERO, |sum, taken| sum + taken);
        if later > Credit::ZERO { current.min(Credit::ZERO) - later } else { current }
    }

    /// The most that could be spent in a window which has begun by `time`.
    pub(crate) fn most_until(&self, limit: &Limit, frame: &Frame, now: Time, time: Time) -> Credit {
        let (mut at, mut most) = (now, Credit::ZERO);
        for _ in 0..MOST_WALKED {
            let (window, taken) = self.window_at(frame, at);
            most = most.max(limit.full() - taken);
            at = window.ends;
            if at > time {
                break;
            }
        }
        most
    }

    /// When everything promised, `backlog` and `draw` will have started.
    pub(crate) fn paid_behind(&self, limit: &Limit, frame: &Frame, now: Time, backlog: Credit, draw: Draw) -> Time {
        let mut owed = backlog + limit.demand(draw.cost, draw.tier);
        let mut time = now;
        for _ in 0..MOST_WALKED {
            let (window, taken) = self.window_at(frame, time);
            let room = (limit.full() - taken).max(Credit::ZERO);
            if owed <= room {
                return time.max(window.starts);
            }
            owed -= room;
            time = window.ends;
            if time == Time::NEVER {
                return time;
            }
        }
        let more = owed.over(limit.full()).saturating_sub(1);
        time + Span::from_nanos(frame.length().nanos().saturating_mul(more))
    }

    /// When the next promise starts, and the last.
    pub(crate) fn promises(&self) -> Option<(Time, Time)> {
        Some((self.promised.first_key_value()?.0.at, self.promised.last_key_value()?.0.at))
    }

    /// When the last window ends of which something is taken.
    pub(crate) fn end(&self) -> Option<Time> {
        let used = self.used.back().map(|used| used.window.ends);
        used.into_iter().chain(self.anywhere.iter().map(|block| block.until)).max()
    }

    /// The promises.
    pub(crate) fn promised(&self) -> impl Iterator<Item = (Key, Credit)> {
        self.promised.iter().map(|(key, cost)| (*key, *cost))
    }

    /// Whether all is as if nobody had ever been there.
    pub(crate) fn is_unused(&self, now: Time) -> bool {
        self.used.iter().all(|used| used.window.ends <= now) && self.anywhere.iter().all(|block| block.until <= now)
    }

    /// What is taken, window by window, and of several; where others may start until `latest`, windows last until those that they may
    /// have opened have ended.
    pub(crate) fn blocks(&self, frame: &Frame, latest: Time) -> (Vec<Block>, &[Block]) {
        let block = |used: &Used| {
            let Window { starts, ends } = used.window;
            let opened = latest.min(starts + frame.length()) + frame.lasting();
            let until = if used.made.is_some() || latest < starts { ends } else { ends.max(opened) };
            Block { from: starts, until, credit: used.taken }
        };
        (self.used.iter().map(block).collect(), &self.anywhere)
    }

    /// The window at `time`, and what is taken of it.
    fn window_at(&self, frame: &Frame, time: Time) -> (Window, Credit) {
        let place = self.used.partition_point(|used| used.window.ends <= time);
        let used = self.used.get(place).filter(|used| used.window.has(time));
        let fresh = || frame.window(time).unwrap_or(Window { starts: time, ends: time + frame.lasting() });
        let (window, taken) = used.map_or_else(|| (fresh(), Credit::ZERO), |used| (used.window, used.taken));
        (window, taken + self.anywhere_in(window))
    }

    fn anywhere_in(&self, window: Window) -> Credit {
        let met = self.anywhere.iter().filter(|block| block.meets(window.starts, window.ends));
        met.fold(Credit::ZERO, |sum, block| sum + block.credit)
    }

    /// A start in the window at `from`; otherwise the time from which on to look again.
    fn try_from(&self, limit: &Limit, frame: &Frame, from: Time, draw: Draw) -> Result<Time, Time> {
        if frame.window(from).is_some() {
            let (window, taken) = self.window_at(frame, from);
            return start_within(limit, window, frame.guard(), taken, from, draw).ok_or(window.ends);
        }
        let place = self.used.partition_point(|used| used.window.ends <= from);
        match self.used.get(place) {
            Some(used) if used.window.has(from) => {
                // What starts late has to arrive before the window ends that began with the first call.
                let surely = Window { ends: used.window.starts + frame.length() - frame.guard(), ..used.window };
                let start = start_within(limit, surely, Span::ZERO, used.taken, from, draw).ok_or(used.window.ends)?;
                let next = self.used.get(place + 1).map_or(Time::NEVER, |next| next.window.starts);
                if used.made.is_some() || start + frame.lasting() <= next { Ok(start) } else { Err(used.window.ends) }
            }
            Some(next) if from + frame.lasting() > next.window.starts => Err(next.window.starts),
            Some(_) | None => Ok(from),
        }
    }
}

impl Used {
    fn begin(frame: &Frame, at: Time, cost: Credit) -> Self {
        let window = frame.window(at);
        let made = window.map(|window| window.starts);
        let window = window.unwrap_or(Window { starts: at, ends: at + frame.lasting() });
        Used { window, last: at, starts: 1, taken: cost, made, until: Time::ORIGIN }
    }

    fn add(&mut self, frame: &Frame, at: Time, cost: Credit) {
        self.taken += cost;
        self.starts += 1;
        self.last = self.last.max(at);
        if self.made.is_none() {
            self.window.ends = self.window.ends.max(self.last + frame.lasting());
        }
    }

    /// A call that was not to start before the window did so all the same.
    fn begin_earlier(&mut self, at: Time, cost: Credit) {
        self.window.starts = at;
        self.until = self.window.ends;
        self.taken += cost;
        self.starts += 1;
    }

    /// A call that started at `since` was made.
    fn confirm(&mut self, frame: &Frame, since: Time) {
        if frame.is_by_use() && self.made.is_none_or(|made| since < made) {
            self.made = Some(since);
            self.window.ends = self.until.max(since + frame.lasting());
        }
    }
}

/// The first start in `window` from `from` on. The headroom that it has to leave melts to nothing towards the end: nobody can use what
/// is left then.
fn start_within(limit: &Limit, window: Window, guard: Span, taken: Credit, from: Time, draw: Draw) -> Option<Time> {
    let (first, last) = (from.max(window.starts + guard), window.ends - guard);
    // What costs more than is given out, margin and all, has a window for itself.
    let full = limit.full().max(draw.cost);
    let room = full - taken - draw.cost;
    if room < Credit::ZERO || first >= last {
        return None;
    }
    let headroom = limit.headroom(draw.tier).min(full - draw.cost);
    if headroom <= room {
        return Some(first);
    }
    // headroom × what is left of the window ≤ room × the whole window
    let left = room.share_of(headroom, window.length());
    let start = first.max(window.ends - left);
    (start < last).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Alignment, LimitSpec, Margin};
    use proptest::prelude::*;
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::name::Name;

    /// Ten in a second; the second tier leaves four.
    fn limit() -> Limit {
        let [name, unit] = ["few", "requests"].map(|name| Name::new(name).unwrap());
        let ten = Amount::new(10.0).unwrap();
        let margin = Margin::Fixed(Amount::ZERO);
        Limit::new(&LimitSpec { margin, ..LimitSpec::new(name, unit, ten, Span::from_secs(1)) }, &[0, 400_000])
    }

    fn frame(alignment: Alignment, guard: u64) -> Frame {
        Frame::new(Some(alignment), Span::from_secs(1), 0, Span::from_millis(guard))
    }

    fn at(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    fn draw(tokens: u64, tier: u8) -> Draw {
        limit().draw(Amount::new(tokens as f64).unwrap(), tier)
    }

    /// Starts at these times are asked for one after the other, all at the origin.
    fn starts(alignment: Alignment, guard: u64, asks: &[(u64, u64, u8)]) -> Vec<u64> {
        let (limit, frame, mut windows) = (limit(), frame(alignment, guard), Windows::default());
        let start = |(number, (from, tokens, tier)): (usize, &(u64, u64, u8))| {
            let draw = draw(*tokens, *tier);
            let start = windows.earliest(&limit, &frame, at(*from), draw);
            windows.commit(&frame, Time::ORIGIN, Key { at: start, serial: number as u64 + 1 }, draw.cost);
            start.since(Time::ORIGIN).nanos() / 1_000_000
        };
        asks.iter().enumerate().map(start).collect()
    }

    #[test]
    fn a_window_holds_so_much_and_the_next_as_much_again() {
        let asks = [(300, 6, 0), (300, 5, 0), (300, 4, 0), (300, 1, 0), (1500, 5, 0), (0, 10, 0)];
        assert_eq!(starts(Alignment::Epoch, 0, &asks), [300, 1000, 300, 1000, 2000, 3000]);
        assert_eq!(starts(Alignment::Epoch, 50, &asks), [300, 1050, 300, 1050, 2050, 3050], "away from the ends");
        assert_eq!(starts(Alignment::FirstUse, 0, &asks), [300, 1300, 300, 1300, 2300, 3300]);
        assert_eq!(
            starts(Alignment::FirstUse, 50, &asks),
            [300, 1350, 300, 1350, 2400, 3450],
            "the upstream's begins later"
        );
    }

    #[test]
    fn headroom_melts_towards_the_end() {
        // Six may be taken at once by the lower class, and the other four one by one as a quarter of the window passes.
        let asks = [(0, 6, 1), (0, 1, 1), (0, 1, 1), (0, 2, 0), (0, 1, 1)];
        assert_eq!(starts(Alignment::Epoch, 0, &asks), [0, 250, 500, 0, 1000]);
    }

    #[test]
    fn a_window_that_begins_when_it_is_used_lasts_until_the_upstreams_has_surely_ended() {
        let (limit, frame, mut windows) = (limit(), frame(Alignment::FirstUse, 0), Windows::default());
        let one = draw(1, 0).cost;
        for (serial, millis) in [(1, 0), (2, 600)] {
            windows.commit(&frame, at(millis), Key { at: at(millis), serial }, one);
        }
        let next = |windows: &Windows| windows.earliest(&limit, &frame, at(700), draw(10, 0));
        assert_eq!(next(&windows), at(1600), "the first call may never have been made");
        windows.correct(&frame, at(0), one, one, true);
        assert_eq!(next(&windows), at(1000), "it was");
    }

    #[derive(Clone, Debug)]
    struct Call {
        pause: u64,
        tokens: u64,
        /// What becomes of it: made and settled after so long, made, never made, or given back.
        fate: Fate,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fate {
        Settled(u64),
        Made,
        NeverMade,
        Withdrawn,
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let fate = prop_oneof![
            3 => (0..2_000_u64).prop_map(Fate::Settled), 1 => Just(Fate::Made), 1 => Just(Fate::NeverMade), 1 => Just(Fate::Withdrawn)
        ];
        let pause = prop_oneof![2 => Just(0_u64), 2 => 0..300_u64, 1 => 0..2_000_u64];
        prop::collection::vec(
            (pause, 1..=10_u64, fate).prop_map(|(pause, tokens, fate)| Call { pause, tokens, fate }),
            1..60,
        )
    }

    /// Whether an upstream that cuts time so takes all these calls.
    fn takes_all(alignment: &Alignment, mut made: Vec<(u64, u64)>) -> bool {
        made.sort_unstable();
        let (mut began, mut left) = (None, 10);
        made.into_iter().all(|(at, tokens)| {
            let begins = if *alignment == Alignment::Epoch { at / 1000 * 1000 } else { at };
            if began.is_none_or(|began| at >= began + 1000) {
                (began, left) = (Some(begins), 10);
            }
            let fits = tokens <= left;
            left = left.saturating_sub(tokens);
            fits
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn no_upstream_is_ever_asked_for_more(calls in calls(), first_use in any::<bool>()) {
            let alignment = if first_use { Alignment::FirstUse } else { Alignment::Epoch };
            let (limit, frame, mut windows) = (limit(), frame(alignment.clone(), 0), Windows::default());
            let (mut now, mut made, mut settles) = (0, Vec::new(), Vec::<(u64, u64, Credit)>::new());
            for (number, call) in calls.iter().enumerate() {
                now += call.pause;
                settles.sort_unstable();
                while let Some((when, start, cost)) = settles.first().copied().filter(|(when, ..)| *when <= now) {
                    windows.advance(at(when));
                    windows.correct(&frame, at(start), cost, cost, true);
                    settles.remove(0);
                }
                windows.advance(at(now));
                let draw = draw(call.tokens, 0);
                let start = windows.earliest(&limit, &frame, at(now), draw);
                let key = Key { at: start, serial: number as u64 + 1 };
                windows.commit(&frame, at(now), key, draw.cost);
                let start = start.nanos() / 1_000_000;
                match call.fate {
                    Fate::Withdrawn if start > now => prop_assert!(windows.withdraw(key)),
                    Fate::NeverMade => {}
                    Fate::Settled(after) => {
                        made.push((start, call.tokens));
                        settles.push((start + after, start, draw.cost));
                    }
                    Fate::Made | Fate::Withdrawn => made.push((start, call.tokens)),
                }
            }
            prop_assert!(takes_all(&alignment, made.clone()), "{alignment:?} {made:?}");
        }
    }
}
