//! The committed future starts of one bucket, in order, and their effect on its level.
//!
//! Levels are kept as *potentials*: level − refill since the origin of time. A potential is
//! constant between two starts. A run of starts turns the potential before it into the one after it
//! by `min(potential, full − peak) − sum`. Refill beyond a full bucket is lost; the rest pays. Runs
//! compose, so the starts are the nodes of a [balanced tree](crate::collections::Tree) that answers
//! every query in O(log n).

use crate::collections::{Link, Node, Slab, Sums, Tree, in_order};
use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::{Credit, StartCost};
use rampmeter_policy::ids::Tier;
use rampmeter_protocol::time::{Span, Time};
use smallvec::SmallVec;

/// The position of a start: by time, and among equal times in the order of commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StartKey {
    pub(crate) at: Time,
    pub(crate) serial: u64,
}

impl StartKey {
    pub(crate) const LAST: StartKey = StartKey { at: Time::NEVER, serial: u64::MAX };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommittedStart {
    pub(crate) key: StartKey,
    pub(crate) cost: Credit,
    pub(crate) tier: Tier,
    /// The bucket's pending debits at its time.
    pub(crate) pending_debits: Credit,
}

/// The time between two neighbouring starts, or after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) potential: Credit,
    /// The start that ends it.
    pub(crate) end: Option<StartKey>,
}

/// The effect of a run of starts on a potential.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    sum: Credit,
    /// The maximum over its starts: refill and pending debits until then, less the cost before.
    peak: Credit,
}

const NOTHING: Run = Run { sum: Credit::ZERO, peak: Credit::MINUS_INFINITE };

impl Run {
    fn then(self, next: Run) -> Run {
        Run { sum: self.sum + next.sum, peak: self.peak.max(next.peak - self.sum) }
    }

    fn apply(self, limit: &Limit, potential: Credit) -> Credit {
        potential.min(limit.full() - self.peak) - self.sum
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Subtree {
    run: Run,
    /// For each tier, the potential that the subtree needs before it, so that each of its starts
    /// finds what it demands behind a new start of the tier.
    needs: SmallVec<[Credit; 2]>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    nodes: Slab<Node<CommittedStart, Subtree>>,
    root: Link,
}

impl Timeline {
    pub(crate) const EMPTY: Timeline = Timeline { nodes: Slab::EMPTY, root: None };

    pub(crate) fn sum(&self) -> Credit {
        self.run(self.root).sum
    }

    pub(crate) fn sum_from(&self, key: StartKey) -> Credit {
        self.sum() - self.sum_before(key)
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.outermost(0).map(|first| first.key.at)
    }

    pub(crate) fn last(&self) -> Option<Time> {
        self.outermost(1).map(|last| last.key.at)
    }

    pub(crate) fn insert(&mut self, limit: &Limit, start: CommittedStart) {
        let root = self.root;
        self.root = Some(Tree { nodes: &mut self.nodes, by: limit }.insert(root, start));
    }

    /// Returns the same starts under a limit that refills at another rate.
    pub(crate) fn under(&self, limit: &Limit) -> Self {
        let mut timeline = Timeline::default();
        self.starts().for_each(|start| timeline.insert(limit, start));
        timeline
    }

    pub(crate) fn starts(&self) -> impl Iterator<Item = CommittedStart> {
        in_order(&self.nodes, self.root).copied()
    }

    /// Removes the start at `key`; false if there is none.
    pub(crate) fn remove(&mut self, limit: &Limit, key: StartKey) -> bool {
        let root = self.root;
        let (root, found) = Tree { nodes: &mut self.nodes, by: limit }.remove(root, &key);
        self.root = root;
        found.is_some()
    }

    pub(crate) fn pop_due(&mut self, limit: &Limit, now: Time) -> Option<CommittedStart> {
        let first = self.outermost(0).filter(|first| first.key.at <= now)?;
        self.remove(limit, first.key);
        Some(first)
    }

    /// Returns the gap before `key`, which may be no start. `base` is the first gap's potential.
    pub(crate) fn gap_before(&self, limit: &Limit, base: Credit, key: StartKey) -> Gap {
        let mut gap = Gap { potential: base, end: None };
        let mut link = self.root;
        while let Some(node) = self.node(link) {
            if node.value.key < key {
                let through = self.run(node.below[0]).then(Self::own_run(limit, &node.value));
                gap.potential = through.apply(limit, gap.potential);
                link = node.below[1];
            } else {
                gap.end = Some(node.value.key);
                link = node.below[0];
            }
        }
        gap
    }

    /// Returns the first gap from the one before `from` whose level passes `level`, or the last.
    pub(crate) fn first_gap_above(&self, limit: &Limit, from: StartKey, mut potential: Credit, level: Credit) -> Gap {
        let end = self.seek(limit, Tier::NO_HEADROOM, self.root, Some(from), &mut |run, _| {
            let passes = potential + run.peak > level;
            if !passes {
                potential -= run.sum;
            }
            passes
        });
        Gap { potential, end: end.map(|start| start.key) }
    }

    /// Returns the first start from `from` on that lacks its needs behind a new start of `tier`.
    pub(crate) fn first_short(
        &self,
        limit: &Limit,
        from: StartKey,
        mut potential: Credit,
        tier: Tier,
    ) -> Option<StartKey> {
        let short = self.seek(limit, tier, self.root, Some(from), &mut |run, need| {
            let lacks = potential < need;
            if !lacks {
                potential = run.apply(limit, potential);
            }
            lacks
        });
        short.map(|start| start.key)
    }

    /// Returns the last start that `newcomer` cannot be put ahead of, from `short` on until the
    /// bucket runs over, as only refill that would be lost makes up for the newcomer. `cap` is the
    /// highest possible potential before `short`.
    pub(crate) fn last_short(
        &self,
        limit: &Limit,
        base: Credit,
        cap: Credit,
        short: StartKey,
        newcomer: StartCost,
    ) -> StartKey {
        let uncapped = self.gap_before(limit, base, short).potential;
        let potential = uncapped.min(cap);
        let end = self.first_gap_above(limit, short, potential, limit.full()).end;
        let threshold = potential - newcomer.credit + self.sum_before(short);
        let search = Search { limit, from: short, end, threshold, tier: newcomer.tier };
        self.last_above(&search, self.root, Credit::ZERO).unwrap_or(short)
    }

    fn outermost(&self, side: usize) -> Option<CommittedStart> {
        let mut found = self.node(self.root)?;
        while let Some(further) = self.node(found.below[side]) {
            found = further;
        }
        Some(found.value)
    }

    fn sum_before(&self, key: StartKey) -> Credit {
        let (mut sum, mut link) = (Credit::ZERO, self.root);
        while let Some(node) = self.node(link) {
            if node.value.key < key {
                sum += self.run(node.below[0]).sum + node.value.cost;
                link = node.below[1];
            } else {
                link = node.below[0];
            }
        }
        sum
    }

    /// Returns the first start from `from` on at which `holds` is true. `holds` sees runs in order,
    /// with what each needs behind a new start of `tier`. False skips the run, true searches it.
    fn seek(
        &self,
        limit: &Limit,
        tier: Tier,
        link: Link,
        from: Option<StartKey>,
        holds: &mut impl FnMut(Run, Credit) -> bool,
    ) -> Option<CommittedStart> {
        let node = self.node(link)?;
        if let Some(key) = from
            && node.value.key < key
        {
            return self.seek(limit, tier, node.below[1], from, holds);
        }
        if from.is_none() && !holds(node.sum.run, self.need(link, tier)) {
            return None;
        }
        if let Some(found) = self.seek(limit, tier, node.below[0], from, holds) {
            return Some(found);
        }
        if holds(Self::own_run(limit, &node.value), need(limit, &node.value, tier)) {
            return Some(node.value);
        }
        self.seek(limit, tier, node.below[1], None, holds)
    }

    /// Returns the last start in the range whose need, seen from the first start, is above the
    /// threshold. `before` is the cost of all starts left of `link`.
    fn last_above(&self, search: &Search<'_>, link: Link, before: Credit) -> Option<StartKey> {
        let node = self.node(link)?;
        let key = node.value.key;
        let through_left = before + self.run(node.below[0]).sum;
        if search.end.is_some_and(|end| key >= end) {
            return self.last_above(search, node.below[0], before);
        }
        if self.need(link, search.tier) + before <= search.threshold {
            return None;
        }
        if let Some(found) = self.last_above(search, node.below[1], through_left + node.value.cost) {
            return Some(found);
        }
        if key < search.from {
            return None;
        }
        if need(search.limit, &node.value, search.tier) + through_left > search.threshold {
            return Some(key);
        }
        self.last_above(search, node.below[0], before)
    }

    fn node(&self, link: Link) -> Option<&Node<CommittedStart, Subtree>> {
        self.nodes.get(link?)
    }

    fn run(&self, link: Link) -> Run {
        self.node(link).map_or(NOTHING, |node| node.sum.run)
    }

    fn need(&self, link: Link, tier: Tier) -> Credit {
        self.node(link).map_or(Credit::MINUS_INFINITE, |node| node.sum.needs[tier.index()])
    }

    fn own_run(limit: &Limit, start: &CommittedStart) -> Run {
        Run { sum: start.cost, peak: limit.rate().refill(start.key.at) + start.pending_debits }
    }
}

impl Sums for &Limit {
    type Value = CommittedStart;
    type Sum = Subtree;
    type Key = StartKey;

    fn key(&self, start: &CommittedStart) -> StartKey {
        start.key
    }

    fn sum(&self, start: &CommittedStart, below: [Option<&Subtree>; 2], _: Subtree) -> Subtree {
        let [through_left, right] = below.map(|subtree| subtree.map_or(NOTHING, |subtree| subtree.run));
        let through_own = through_left.then(Timeline::own_run(self, start));
        let needs = (0..self.tiers()).map(Tier::of_index).map(|tier| {
            let [of_left, of_right] =
                below.map(|subtree| subtree.map_or(Credit::MINUS_INFINITE, |subtree| subtree.needs[tier.index()]));
            let of_own = need_behind(self, through_left, need(self, start, tier));
            of_left.max(of_own).max(need_behind(self, through_own, of_right))
        });
        Subtree { needs: needs.collect(), run: through_own.then(right) }
    }
}

struct Search<'a> {
    limit: &'a Limit,
    from: StartKey,
    end: Option<StartKey>,
    threshold: Credit,
    tier: Tier,
}

/// Returns the first key after everything that is committed at `time`.
pub(crate) fn just_after(time: Time) -> StartKey {
    StartKey { at: just_past(time), serial: 0 }
}

/// Returns the next nanosecond. A deadline at `time` is met at `time`, and missed at this instant.
pub(crate) fn just_past(time: Time) -> Time {
    time + Span::from_nanos(1)
}

/// Returns the potential that `start` needs before it behind a new start of `tier`.
fn need(limit: &Limit, start: &CommittedStart, tier: Tier) -> Credit {
    // The lower headroom of both tiers counts.
    limit.demand(start.cost, start.tier.min(tier)) - limit.rate().refill(start.key.at)
}

/// Returns the potential needed before `first` to leave `need`; infinite if a full bucket can't.
fn need_behind(limit: &Limit, first: Run, need: Credit) -> Credit {
    if limit.full() - first.peak - first.sum < need { Credit::INFINITE } else { need + first.sum }
}
