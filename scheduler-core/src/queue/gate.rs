//! Those whom the bucket of their own key holds up.

use super::line::Place;
use crate::collections::Slot;
use crate::ids::ClassId;
use crate::limits::Credit;
use rampmeter_protocol::time::Time;
use std::collections::BTreeMap;

/// Where somebody stands at a gate: the more urgent classes first, and in a class first come, first served.
pub(crate) type Stand = (ClassId, Place);

/// Those who are counted one by one to tell somebody how many there are before it; in a longer line its place is a guess.
const MOST_COUNTED: usize = 256;

/// How many there are, and what they will take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    pub(crate) count: usize,
    pub(crate) backlog: Credit,
}

impl Crowd {
    fn of_one(cost: Credit) -> Self {
        Crowd { count: 1, backlog: cost }
    }

    fn and(self, other: Crowd) -> Self {
        Crowd { count: self.count + other.count, backlog: self.backlog.saturating_add(other.backlog) }
    }

    fn without(self, other: Crowd) -> Self {
        Crowd { count: self.count - other.count, backlog: self.backlog - other.backlog }
    }

    fn half(self) -> Self {
        Crowd { count: self.count / 2, backlog: self.backlog.part(2) }
    }
}

/// Those who have starved go first, by age; then the more urgent classes.
fn rank(stand: Stand, starved: impl Fn(Stand) -> bool) -> (bool, Option<ClassId>, Place) {
    let (class, place) = stand;
    if starved(stand) { (false, None, place) } else { (true, Some(class), place) }
}

/// The queue of one key's bucket. A request in it blocks no other key; the first goes back to the line of its class when the bucket
/// can pay for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    line: BTreeMap<Stand, (Slot, Credit)>,
    /// All in line, by class.
    crowds: BTreeMap<ClassId, Crowd>,
    /// A request that was first here and may wait for another key now. Later ones start only if it finds what it needs all the same.
    pub(crate) claim: Option<(Stand, Slot)>,
    /// When the first may go, as far as is known.
    pub(crate) alarm: Option<Time>,
}

impl Gate {
    pub(crate) fn join(&mut self, stand: Stand, slot: Slot, cost: Credit) {
        self.line.insert(stand, (slot, cost));
        let crowd = self.crowds.entry(stand.0).or_default();
        *crowd = crowd.and(Crowd::of_one(cost));
    }

    pub(crate) fn leave(&mut self, stand: Stand) {
        let (_, cost) = self.line.remove(&stand).expect("who leaves a gate stood at it");
        let crowd = self.crowds.get_mut(&stand.0).expect("a class that somebody is of");
        *crowd = crowd.without(Crowd::of_one(cost));
    }

    /// Keeps nothing for the request in `slot` any more.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.claim.take_if(|(_, holder)| *holder == slot);
    }

    /// The request for which something is kept, if it goes before `stand`.
    pub(crate) fn claim_before(&self, stand: Stand, starved: impl Fn(Stand) -> bool) -> Option<Slot> {
        let before = |(other, _): &(Stand, Slot)| rank(*other, &starved) < rank(stand, &starved);
        self.claim.filter(before).map(|(_, slot)| slot)
    }

    /// The first here.
    pub(crate) fn first(&self, starved: impl Fn(Stand) -> bool) -> Option<(Stand, Slot)> {
        self.firsts().min_by_key(|(stand, _)| rank(*stand, &starved))
    }

    /// Whether another that stands here goes before `stand`.
    pub(crate) fn goes_before(&self, stand: Stand, starved: impl Fn(Stand) -> bool) -> bool {
        self.first(&starved).is_some_and(|(first, _)| rank(first, &starved) < rank(stand, &starved))
    }

    /// The first of each class.
    fn firsts(&self) -> impl Iterator<Item = (Stand, Slot)> {
        let of_class = |class: &ClassId| self.line.range((*class, Place::FIRST)..=(*class, Place::LAST)).next();
        self.crowds.keys().filter_map(of_class).map(|(stand, (slot, _))| (*stand, *slot))
    }

    /// Everybody who stands here, the first first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.line.values().map(|(slot, _)| *slot)
    }

    /// Those of this class and of more urgent ones.
    pub(crate) fn through(&self, class: ClassId) -> Crowd {
        self.crowds.range(..=class).map(|(_, crowd)| *crowd).fold(Crowd::default(), Crowd::and)
    }

    /// Those who stand here before `stand`, in a long line about as many as that.
    pub(crate) fn ahead_of(&self, stand: Stand) -> Crowd {
        let all = self.through(stand.0);
        let own = self.crowds.get(&stand.0).copied().unwrap_or_default();
        let behind = self.line.range(stand..=(stand.0, Place::LAST)).take(MOST_COUNTED);
        let behind = behind.map(|(_, (_, cost))| Crowd::of_one(*cost)).fold(Crowd::default(), Crowd::and);
        all.without(if behind.count < MOST_COUNTED { behind } else { own.half() })
    }

    /// Whether no request has anything to do with it.
    pub(crate) fn is_deserted(&self) -> bool {
        self.line.is_empty() && self.claim.is_none()
    }
}
