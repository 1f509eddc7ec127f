//! So much in each window of time, and what of that is promised.

use crate::credit::Credit;
use crate::frame::{Frame, Window};
use crate::limit::Limit;
use crate::taken::Block;
use crate::timeline::{Draw, Key};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// Windows that are looked through one by one for an estimate; beyond, all are as long as the first.
const MOST_WALKED: usize = 64;

/// Windows in one group. Of tens of thousands of windows ahead few are looked at one by one: those of the first group and the last.
const GROUP: u64 = 128;

/// A window of which something is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    ends: Time,
    starts: usize,
    taken: Credit,
}

/// The windows of one bucket that have not ended.
///
/// Guarantees that no window holds more than the limit has, whatever is committed later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    /// By when they begin.
    used: BTreeMap<Time, Used>,
    /// What is taken of all of them.
    total: Credit,
    /// By number, the least that is taken of any window of a group all of whose windows are used.
    groups: BTreeMap<u64, Credit>,
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

    /// Notes that so much is taken in this time: it counts until the end of every window that it meets.
    fn take(&mut self, frame: &Frame, block: Block) {
        if block.until <= frame.window(block.from).ends {
            self.change(frame, block.from, |used| used.taken += block.credit);
        } else {
            let until = frame.window(block.until - Span::from_nanos(1)).ends;
            self.anywhere.push(Block { until, ..block });
        }
    }

    /// Changes what is known of the window at `at`; one of which nothing is taken by any start is forgotten.
    fn change(&mut self, frame: &Frame, at: Time, change: impl FnOnce(&mut Used)) {
        let known = self.known_at(at).map(|(window, _)| window);
        let window = known.unwrap_or_else(|| frame.window(at));
        let fresh = Used { ends: window.ends, starts: 0, taken: Credit::ZERO };
        let used = self.used.entry(window.starts).or_insert(fresh);
        let before = used.taken;
        change(used);
        self.total += used.taken - before;
        if used.starts == 0 && used.taken == Credit::ZERO {
            self.used.remove(&window.starts);
        }
        self.sum_up(frame, window.starts);
    }

    /// Looks again at the group of the window that begins at `at`.
    fn sum_up(&mut self, frame: &Frame, at: Time) {
        let Some((number, first, behind)) = frame.group(at, GROUP) else { return };
        let windows = self.used.range(first..behind).map(|(_, used)| used.taken);
        let (count, least) = windows.fold((0, None), |(count, least), taken| {
            (count + 1, Some(least.map_or(taken, |least: Credit| least.min(taken))))
        });
        match least.filter(|_| count == GROUP) {
            Some(least) => drop(self.groups.insert(number, least)),
            None => drop(self.groups.remove(&number)),
        }
    }

    /// The window at `time`, if something is taken of it.
    fn known_at(&self, time: Time) -> Option<(Window, Used)> {
        let (starts, used) = self.used.range(..=time).next_back()?;
        let window = Window { starts: *starts, ends: used.ends };
        window.has(time).then_some((window, *used))
    }

    /// The earliest time from `from` on at which `draw` can be committed.
    pub(crate) fn earliest(&self, limit: &Limit, frame: &Frame, mut from: Time, draw: Draw) -> Time {
        while from < Time::NEVER {
            if let Some(behind) = self.full_until(limit, frame, from, draw) {
                from = behind;
                continue;
            }
            let (window, taken) = self.window_at(frame, from);
            match start_within(limit, window, frame.guard(), taken, from, draw) {
                Some(start) => return start,
                None => from = window.ends,
            }
        }
        Time::NEVER
    }

    /// The end of the group that `from` is in, if none of its windows has room for `draw`.
    fn full_until(&self, limit: &Limit, frame: &Frame, from: Time, draw: Draw) -> Option<Time> {
        let (number, _, behind) = frame.group(from, GROUP)?;
        let least = self.groups.get(&number)?;
        (*least + draw.cost > limit.full().max(draw.cost)).then_some(behind)
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
        if self.known_at(key.at).is_some_and(|(_, used)| used.taken >= cost) {
            self.change(frame, key.at, |used| used.starts += 1);
            self.promised.insert(key, cost);
        } else {
            self.commit(frame, now, key, cost);
        }
    }

    /// Takes this much of the window at `at`.
    pub(crate) fn spend(&mut self, frame: &Frame, at: Time, cost: Credit) {
        self.change(frame, at, |used| {
            used.starts += 1;
            used.taken += cost;
        });
    }

    /// Takes a promised start back; false if it is past or unknown.
    pub(crate) fn withdraw(&mut self, frame: &Frame, key: Key) -> bool {
        let Some(cost) = self.promised.remove(&key) else { return false };
        self.change(frame, key.at, |used| {
            used.starts -= 1;
            used.taken -= cost;
        });
        true
    }

    /// Turns promises whose time has come into tokens spent, and forgets windows that have ended.
    pub(crate) fn advance(&mut self, frame: &Frame, now: Time) {
        while self.promised.first_key_value().is_some_and(|(key, _)| key.at <= now) {
            self.promised.pop_first();
        }
        while let Some(entry) = self.used.first_entry().filter(|entry| entry.get().ends <= now) {
            let (starts, Used { taken, .. }) = entry.remove_entry();
            self.total -= taken;
            self.sum_up(frame, starts);
        }
        self.anywhere.retain(|block| block.until > now);
    }

    /// Learns that a call which was charged at `since` took this much.
    pub(crate) fn correct(&mut self, frame: &Frame, since: Time, charged: Credit, actual: Credit) {
        // What was not used in a window that has ended is of no use in another.
        if self.known_at(since).is_some() {
            self.change(frame, since, |used| used.taken = (used.taken + actual - charged).max(Credit::ZERO));
        }
    }

    /// What could be spent at `now`; below zero by what is promised in later windows.
    pub(crate) fn level(&self, limit: &Limit, frame: &Frame, now: Time) -> Credit {
        let (window, taken) = self.window_at(frame, now);
        let current = limit.full() - taken;
        let until = self.used.range(..window.ends).fold(Credit::ZERO, |sum, (_, used)| sum + used.taken);
        let later = self.total - until;
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
        let used = self.used.last_key_value().map(|(_, used)| used.ends);
        used.into_iter().chain(self.anywhere.iter().map(|block| block.until)).max()
    }

    /// The promises.
    pub(crate) fn promised(&self) -> impl Iterator<Item = (Key, Credit)> {
        self.promised.iter().map(|(key, cost)| (*key, *cost))
    }

    /// Whether all is as if nobody had ever been there.
    pub(crate) fn is_unused(&self, now: Time) -> bool {
        self.end().is_none_or(|end| end <= now)
    }

    /// Goes on with windows that are cut otherwise: what is promised is in the one of its start, what was taken in all that it meets.
    pub(crate) fn cut_anew(&mut self, now: Time, from: &Frame, to: &Frame) {
        let promised: Vec<(Key, Credit)> = self.promised().collect();
        for (key, _) in &promised {
            self.withdraw(from, *key);
        }
        let (mut blocks, anywhere) = self.blocks();
        blocks.extend(anywhere);
        *self = Windows::with(to, &blocks);
        promised.iter().for_each(|(key, cost)| self.commit(to, now, *key, *cost));
    }

    /// What is taken, window by window, and of several.
    pub(crate) fn blocks(&self) -> (Vec<Block>, &[Block]) {
        let block = |(starts, used): (&Time, &Used)| Block { from: *starts, until: used.ends, credit: used.taken };
        (self.used.iter().map(block).collect(), &self.anywhere)
    }

    /// The window at `time`, and what is taken of it.
    fn window_at(&self, frame: &Frame, time: Time) -> (Window, Credit) {
        let known = self.known_at(time).map(|(window, used)| (window, used.taken));
        let (window, taken) = known.unwrap_or_else(|| (frame.window(time), Credit::ZERO));
        (window, taken + self.anywhere_in(window))
    }

    fn anywhere_in(&self, window: Window) -> Credit {
        let met = self.anywhere.iter().filter(|block| block.meets(window.starts, window.ends));
        met.fold(Credit::ZERO, |sum, block| sum + block.credit)
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
        Frame::new(Some(&alignment), Span::from_secs(1), 0, Span::from_millis(guard)).unwrap()
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
    }

    #[test]
    fn headroom_melts_towards_the_end() {
        // Six may be taken at once by the lower class, and the other four one by one as a quarter of the window passes.
        let asks = [(0, 6, 1), (0, 1, 1), (0, 1, 1), (0, 2, 0), (0, 1, 1)];
        assert_eq!(starts(Alignment::Epoch, 0, &asks), [0, 250, 500, 0, 1000]);
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

    /// Whether an upstream takes all these calls.
    fn takes_all(mut made: Vec<(u64, u64)>) -> bool {
        made.sort_unstable();
        let (mut began, mut left) = (None, 10);
        made.into_iter().all(|(at, tokens)| {
            let begins = at / 1000 * 1000;
            if began.is_none_or(|began| at >= began + 1000) {
                (began, left) = (Some(begins), 10);
            }
            let fits = tokens <= left;
            left = left.saturating_sub(tokens);
            fits
        })
    }

    /// Groups of windows are left out, and nothing else: a start is the first of all that there are.
    #[test]
    fn the_first_window_with_room_is_found_beyond_many() {
        let (limit, frame, mut windows) = (limit(), frame(Alignment::Epoch, 0), Windows::default());
        let count = 5 * GROUP;
        let full = |number: u64| if number % 37 == 5 { 7 } else { 9 };
        for number in 0..count {
            let key = Key { at: at(number * 1000), serial: number + 1 };
            windows.commit(&frame, Time::ORIGIN, key, draw(full(number), 0).cost);
        }
        for number in (0..count).step_by(11) {
            let next = (number..count).find(|later| full(*later) == 7).unwrap_or(count);
            assert_eq!(windows.earliest(&limit, &frame, at(number * 1000), draw(3, 0)), at(next * 1000), "{number}");
        }
        // What is given back is found again.
        let freed = 3 * GROUP + 1;
        assert!(windows.withdraw(&frame, Key { at: at(freed * 1000), serial: freed + 1 }));
        assert_eq!(windows.earliest(&limit, &frame, at(0), draw(10, 0)), at(freed * 1000));
        assert_eq!(windows.level(&limit, &frame, at(0)), draw(0, 0).cost - taken(&windows, 1));
    }

    /// What is taken of all windows but so many.
    fn taken(windows: &Windows, but: usize) -> Credit {
        windows.blocks().0.iter().skip(but).fold(Credit::ZERO, |sum, block| sum + block.credit)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn no_upstream_is_ever_asked_for_more(calls in calls()) {
            let (limit, frame, mut windows) = (limit(), frame(Alignment::Epoch, 0), Windows::default());
            let (mut now, mut made, mut settles) = (0, Vec::new(), Vec::<(u64, u64, Credit)>::new());
            for (number, call) in calls.iter().enumerate() {
                now += call.pause;
                settles.sort_unstable();
                while let Some((when, start, cost)) = settles.first().copied().filter(|(when, ..)| *when <= now) {
                    windows.advance(&frame, at(when));
                    windows.correct(&frame, at(start), cost, cost);
                    settles.remove(0);
                }
                windows.advance(&frame, at(now));
                let draw = draw(call.tokens, 0);
                let start = windows.earliest(&limit, &frame, at(now), draw);
                let key = Key { at: start, serial: number as u64 + 1 };
                windows.commit(&frame, at(now), key, draw.cost);
                let start = start.nanos() / 1_000_000;
                match call.fate {
                    Fate::Withdrawn if start > now => prop_assert!(windows.withdraw(&frame, key)),
                    Fate::NeverMade => {}
                    Fate::Settled(after) => {
                        made.push((start, call.tokens));
                        settles.push((start + after, start, draw.cost));
                    }
                    Fate::Made | Fate::Withdrawn => made.push((start, call.tokens)),
                }
            }
            prop_assert!(takes_all(made.clone()), "{made:?}");
        }
    }
}
