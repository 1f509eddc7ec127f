//! Those whom the bucket of their own key holds up.

use super::class_queue::Arrival;
use crate::arithmetic::Credit;
use crate::collections::Slot;
use crate::ids::ClassId;
use rampmeter_protocol::time::Time;
use std::collections::BTreeMap;

/// Where somebody stands at a gate: the more urgent classes first, and in a class first come, first served.
pub(crate) type KeyQueuePosition = (ClassId, Arrival);

/// Those who are counted one by one to tell somebody how many there are before it; in a longer line its place is a guess.
const MOST_COUNTED: usize = 256;

/// How many there are, and what they will take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueDemand {
    pub(crate) count: usize,
    pub(crate) backlog: Credit,
}

impl QueueDemand {
    fn of_one(cost: Credit) -> Self {
        QueueDemand { count: 1, backlog: cost }
    }

    fn and(self, other: QueueDemand) -> Self {
        QueueDemand { count: self.count + other.count, backlog: self.backlog.saturating_add(other.backlog) }
    }

    fn without(self, other: QueueDemand) -> Self {
        QueueDemand { count: self.count - other.count, backlog: self.backlog - other.backlog }
    }

    fn half(self) -> Self {
        QueueDemand { count: self.count / 2, backlog: self.backlog.part(2) }
    }
}

/// Those who have starved go first, by age; then the more urgent classes.
fn rank(position: KeyQueuePosition, starved: impl Fn(KeyQueuePosition) -> bool) -> (bool, Option<ClassId>, Arrival) {
    let (class, place) = position;
    if starved(position) { (false, None, place) } else { (true, Some(class), place) }
}

/// The queue of one key's bucket. A request in it blocks no other key; the first goes back to the line of its class when the bucket
/// can pay for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyQueue {
    waiting: BTreeMap<KeyQueuePosition, (Slot, Credit)>,
    /// All in line, by class.
    crowds: BTreeMap<ClassId, QueueDemand>,
    /// A request that was first here and may wait for another key now. Later ones start only if it finds what it needs all the same.
    pub(crate) claim: Option<(KeyQueuePosition, Slot)>,
    /// When the first may go, as far as is known.
    pub(crate) alarm: Option<Time>,
}

impl KeyQueue {
    pub(crate) fn join(&mut self, position: KeyQueuePosition, slot: Slot, cost: Credit) {
        self.waiting.insert(position, (slot, cost));
        let crowd = self.crowds.entry(position.0).or_default();
        *crowd = crowd.and(QueueDemand::of_one(cost));
    }

    pub(crate) fn leave(&mut self, position: KeyQueuePosition) {
        let (_, cost) = self.waiting.remove(&position).expect("who leaves a gate stood at it");
        let crowd = self.crowds.get_mut(&position.0).expect("a class that somebody is of");
        *crowd = crowd.without(QueueDemand::of_one(cost));
    }

    /// Keeps nothing for the request in `slot` any more.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.claim.take_if(|(_, holder)| *holder == slot);
    }

    /// The request for which something is kept, if it goes before `position`.
    pub(crate) fn claim_before(
        &self,
        position: KeyQueuePosition,
        starved: impl Fn(KeyQueuePosition) -> bool,
    ) -> Option<Slot> {
        let before = |(other, _): &(KeyQueuePosition, Slot)| rank(*other, &starved) < rank(position, &starved);
        self.claim.filter(before).map(|(_, slot)| slot)
    }

    /// The first here.
    pub(crate) fn first(&self, starved: impl Fn(KeyQueuePosition) -> bool) -> Option<(KeyQueuePosition, Slot)> {
        self.firsts().min_by_key(|(position, _)| rank(*position, &starved))
    }

    /// Whether another that stands here goes before `position`.
    pub(crate) fn goes_before(&self, position: KeyQueuePosition, starved: impl Fn(KeyQueuePosition) -> bool) -> bool {
        self.first(&starved).is_some_and(|(first, _)| rank(first, &starved) < rank(position, &starved))
    }

    /// The first of each class.
    fn firsts(&self) -> impl Iterator<Item = (KeyQueuePosition, Slot)> {
        let of_class = |class: &ClassId| self.waiting.range((*class, Arrival::FIRST)..=(*class, Arrival::LAST)).next();
        self.crowds.keys().filter_map(of_class).map(|(position, (slot, _))| (*position, *slot))
    }

    /// Everybody who stands here, the first first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.waiting.values().map(|(slot, _)| *slot)
    }

    /// Those of this class and of more urgent ones.
    pub(crate) fn through(&self, class: ClassId) -> QueueDemand {
        self.crowds.range(..=class).map(|(_, crowd)| *crowd).fold(QueueDemand::default(), QueueDemand::and)
    }

    /// Those who stand here before `position`, in a long line about as many as that.
    pub(crate) fn ahead_of(&self, position: KeyQueuePosition) -> QueueDemand {
        let all = self.through(position.0);
        let own = self.crowds.get(&position.0).copied().unwrap_or_default();
        let behind = self.waiting.range(position..=(position.0, Arrival::LAST)).take(MOST_COUNTED);
        let behind =
            behind.map(|(_, (_, cost))| QueueDemand::of_one(*cost)).fold(QueueDemand::default(), QueueDemand::and);
        all.without(if behind.count < MOST_COUNTED { behind } else { own.half() })
    }

    /// Whether no request has anything to do with it.
    pub(crate) fn is_deserted(&self) -> bool {
        self.waiting.is_empty() && self.claim.is_none()
    }
}
