//! The committed future starts of one bucket, in order, and their effect on its level.
//!
//! Levels are kept as *potentials*: level − refill since the origin of time. A potential is
//! constant between two starts. A run of starts turns the potential before it into the one after it
//! by `min(potential, full − peak) − sum`. Refill beyond a full bucket is lost; the rest pays. Runs
//! compose, so the starts are the nodes of a [balanced tree](crate::collections::Nodes) that
//! answers every question in O(log n).

use crate::arithmetic::{Credit, StartCost};
use crate::collections::Nodes;
use crate::ids::Tier;
use crate::policy::Limit;
use rampmeter_protocol::time::{Span, Time};
use std::num::NonZeroU32;

/// The position of a start: by time, and among equal times in the order of commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StartKey {
    pub(crate) at: Time,
    pub(crate) serial: u64,
}

/// A committed start.
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
    /// The potential in it.
    pub(crate) potential: Credit,
    /// The start that ends it.
    pub(crate) end: Option<StartKey>,
}

/// The number of a node, from one.
type Link = Option<NonZeroU32>;

/// The effect of a run of starts on a potential.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The cost of all its starts.
    sum: Credit,
    /// The maximum over its starts: refill and pending debits until then, less the cost before.
    peak: Credit,
}

const NOTHING: Run = Run { sum: Credit::ZERO, peak: Credit::MINUS_INFINITE };

impl Run {
    fn then(self, next: Run) -> Run {
        Run { sum: self.sum + next.sum, peak: self.peak.max(next.peak - self.sum) }
    }

    /// The potential after the run.
    fn apply(self, limit: &Limit, potential: Credit) -> Credit {
        potential.min(limit.full() - self.peak) - self.sum
    }
}

#[derive(Clone, Debug)]
struct Node {
    start: CommittedStart,
    left: Link,
    right: Link,
    /// How many nodes the subtree has.
    count: u32,
    run: Run,
}

/// The starts, and for each subtree and tier the potential that it needs before it.
///
/// With that potential, each start of the subtree finds what it demands if a new start of the tier
/// goes ahead of it. Most timelines belong to keys and have few starts. For these, a slab's chunk
/// is too large.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    nodes: Vec<Node>,
    needs: Vec<Credit>,
    free: Vec<NonZeroU32>,
    root: Link,
}

impl Timeline {
    /// A timeline without starts.
    pub(crate) const EMPTY: Timeline = Timeline { nodes: Vec::new(), needs: Vec::new(), free: Vec::new(), root: None };

    /// The cost of all starts.
    pub(crate) fn sum(&self) -> Credit {
        self.run(self.root).sum
    }

    /// The cost of the starts from `key` on.
    pub(crate) fn sum_from(&self, key: StartKey) -> Credit {
        self.sum() - self.sum_before(key)
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.outermost(|node| node.left).map(|first| first.key.at)
    }

    pub(crate) fn last(&self) -> Option<Time> {
        self.outermost(|node| node.right).map(|last| last.key.at)
    }

    pub(crate) fn insert(&mut self, limit: &Limit, start: CommittedStart) {
        let node = self.allocate(limit, start);
        let root = self.root;
        self.root = Some(Tree { timeline: self, limit }.insert(root, node));
    }

    /// The same starts under a limit that refills at another rate.
    pub(crate) fn under(&self, limit: &Limit) -> Self {
        let mut timeline = Timeline::default();
        self.each(self.root, &mut |start| timeline.insert(limit, start));
        timeline
    }

    pub(crate) fn starts(&self) -> Vec<CommittedStart> {
        let mut starts = Vec::new();
        self.each(self.root, &mut |start| starts.push(start));
        starts
    }

    fn each(&self, link: Link, visit: &mut impl FnMut(CommittedStart)) {
        if let Some(node) = self.node(link) {
            self.each(node.left, visit);
            visit(node.start);
            self.each(node.right, visit);
        }
    }

    /// Removes the start at `key`; false if there is none.
    pub(crate) fn remove(&mut self, limit: &Limit, key: StartKey) -> bool {
        let root = self.root;
        let (root, found) = Tree { timeline: self, limit }.remove(root, &key);
        self.root = root;
        self.free.extend(found);
        found.is_some()
    }

    /// Removes the first start if it is due at `now`.
    pub(crate) fn pop_due(&mut self, limit: &Limit, now: Time) -> Option<CommittedStart> {
        let first = self.outermost(|node| node.left).filter(|first| first.key.at <= now)?;
        self.remove(limit, first.key);
        Some(first)
    }

    /// The gap before the start at `key`, present or not, if `base` is the first gap's potential.
    pub(crate) fn gap_before(&self, limit: &Limit, base: Credit, key: StartKey) -> Gap {
        let mut gap = Gap { potential: base, end: None };
        let mut link = self.root;
        while let Some(node) = self.node(link) {
            if node.start.key < key {
                let through = self.run(node.left).then(Self::own_run(limit, &node.start));
                gap.potential = through.apply(limit, gap.potential);
                link = node.right;
            } else {
                gap.end = Some(node.start.key);
                link = node.left;
            }
        }
        gap
    }

    /// The first gap, from the one before `from` on, in which the level passes `level`; otherwise
    /// the last gap.
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

    /// The first start from `from` on that lacks what it needs behind a new start of `tier`.
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

    /// The last start that the new start `newcomer` cannot be put ahead of, from `short` on until
    /// the bucket runs over. Only refill that would be lost makes up for the newcomer. `cap` is the
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

    fn outermost(&self, below: impl Fn(&Node) -> Link) -> Option<CommittedStart> {
        let mut found = self.node(self.root)?;
        while let Some(further) = self.node(below(found)) {
            found = further;
        }
        Some(found.start)
    }

    fn sum_before(&self, key: StartKey) -> Credit {
        let (mut sum, mut link) = (Credit::ZERO, self.root);
        while let Some(node) = self.node(link) {
            if node.start.key < key {
                sum += self.run(node.left).sum + node.start.cost;
                link = node.right;
            } else {
                link = node.left;
            }
        }
        sum
    }

    /// The first start from `from` on at which `holds` is true. `holds` sees runs in order, with
    /// what each needs behind a new start of `tier`. False skips the run, true searches it.
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
            && node.start.key < key
        {
            return self.seek(limit, tier, node.right, from, holds);
        }
        if from.is_none() && !holds(node.run, self.need(limit, link, tier)) {
            return None;
        }
        if let Some(found) = self.seek(limit, tier, node.left, from, holds) {
            return Some(found);
        }
        if holds(Self::own_run(limit, &node.start), need(limit, &node.start, tier)) {
            return Some(node.start);
        }
        self.seek(limit, tier, node.right, None, holds)
    }

    /// The last start in the range whose need, seen from the first start, is above the threshold.
    /// `before` is the cost of all starts left of `link`.
    fn last_above(&self, search: &Search<'_>, link: Link, before: Credit) -> Option<StartKey> {
        let node = self.node(link)?;
        let key = node.start.key;
        let through_left = before + self.run(node.left).sum;
        if search.end.is_some_and(|end| key >= end) {
            return self.last_above(search, node.left, before);
        }
        if self.need(search.limit, link, search.tier) + before <= search.threshold {
            return None;
        }
        if let Some(found) = self.last_above(search, node.right, through_left + node.start.cost) {
            return Some(found);
        }
        if key < search.from {
            return None;
        }
        if need(search.limit, &node.start, search.tier) + through_left > search.threshold {
            return Some(key);
        }
        self.last_above(search, node.left, before)
    }

    fn update(&mut self, limit: &Limit, node_id: NonZeroU32) {
        let Node { start, left, right, .. } = self.nodes[index(node_id)];
        let through_left = self.run(left);
        let own = Self::own_run(limit, &start);
        let through_own = through_left.then(own);
        let count =
            1 + [left, right].into_iter().filter_map(|link| self.node(link)).map(|node| node.count).sum::<u32>();
        self.nodes[index(node_id)].count = count;
        self.nodes[index(node_id)].run = through_own.then(self.run(right));
        for tier in (0..limit.tiers()).map(Tier::of_index) {
            let own = need(limit, &start, tier);
            let of_own = need_behind(limit, through_left, own);
            let of_right = need_behind(limit, through_own, self.need(limit, right, tier));
            self.needs[need_index(limit, node_id, tier)] = self.need(limit, left, tier).max(of_own).max(of_right);
        }
    }

    fn allocate(&mut self, limit: &Limit, start: CommittedStart) -> NonZeroU32 {
        let run = Self::own_run(limit, &start);
        let node = Node { start, left: None, right: None, count: 1, run };
        match self.free.pop() {
            Some(node_id) => {
                self.nodes[index(node_id)] = node;
                node_id
            }
            None => {
                self.nodes.push(node);
                self.needs.resize(self.nodes.len() * limit.tiers(), Credit::ZERO);
                NonZeroU32::new(self.nodes.len() as u32).expect("a node was added")
            }
        }
    }

    fn node(&self, link: Link) -> Option<&Node> {
        self.nodes.get(index(link?))
    }

    fn run(&self, link: Link) -> Run {
        self.node(link).map_or(NOTHING, |node| node.run)
    }

    fn need(&self, limit: &Limit, link: Link, tier: Tier) -> Credit {
        link.map_or(Credit::MINUS_INFINITE, |node_id| self.needs[need_index(limit, node_id, tier)])
    }

    fn own_run(limit: &Limit, start: &CommittedStart) -> Run {
        Run { sum: start.cost, peak: limit.rate().refill(start.key.at) + start.pending_debits }
    }
}

/// The nodes, and the limit that they sum up under.
struct Tree<'a> {
    timeline: &'a mut Timeline,
    limit: &'a Limit,
}

impl Nodes for Tree<'_> {
    type Node = NonZeroU32;
    type Key = StartKey;

    fn key(&self, node_id: NonZeroU32) -> StartKey {
        self.timeline.nodes[index(node_id)].start.key
    }

    fn count(&self, node_id: NonZeroU32) -> usize {
        self.timeline.nodes[index(node_id)].count as usize
    }

    fn below(&self, node_id: NonZeroU32) -> [Link; 2] {
        let Node { left, right, .. } = self.timeline.nodes[index(node_id)];
        [left, right]
    }

    fn put_below(&mut self, node_id: NonZeroU32, [left, right]: [Link; 2]) {
        let node = &mut self.timeline.nodes[index(node_id)];
        (node.left, node.right) = (left, right);
        self.timeline.update(self.limit, node_id);
    }
}

fn index(node_id: NonZeroU32) -> usize {
    node_id.get() as usize - 1
}

fn need_index(limit: &Limit, node_id: NonZeroU32, tier: Tier) -> usize {
    index(node_id) * limit.tiers() + tier.index()
}

/// The range and the threshold of [`Timeline::last_above`].
struct Search<'a> {
    limit: &'a Limit,
    from: StartKey,
    end: Option<StartKey>,
    threshold: Credit,
    tier: Tier,
}

/// The first key after everything that is committed at `time`.
pub(crate) fn just_after(time: Time) -> StartKey {
    StartKey { at: just_past(time), serial: 0 }
}

/// The next nanosecond. A deadline at `time` is met at `time`, and missed at this instant.
pub(crate) fn just_past(time: Time) -> Time {
    time + Span::from_nanos(1)
}

/// The potential that `start` needs before it behind a new start of `tier`.
fn need(limit: &Limit, start: &CommittedStart, tier: Tier) -> Credit {
    limit.demand_beside(start.cost, start.tier, tier) - limit.rate().refill(start.key.at)
}

/// The potential needed before `first` to leave `need` after it; infinite if a full bucket can't.
fn need_behind(limit: &Limit, first: Run, need: Credit) -> Credit {
    if limit.full() - first.peak - first.sum < need { Credit::INFINITE } else { need + first.sum }
}
