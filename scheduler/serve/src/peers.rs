//! The other schedulers, and the resources that each scheduler leads.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A scheduler that was not seen for this long is gone: it missed two of three pings.
const GONE_AFTER: Span = Span::from_secs(3);
/// How much later a scheduler takes over for each resource that it leads more than a peer.
const HEAD_START: Span = Span::from_millis(20);
/// The smallest difference that is worth a handover. For a smaller one, the other scheduler would then lead more.
const WORTH_MOVING: usize = 2;

/// The live schedulers, and the leaders of resources. The lock is held for one look-up in both maps.
#[derive(Debug)]
pub struct Peers {
    me: String,
    state: Mutex<State>,
}

/// The duties of one scheduler, as known to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerDuties {
    /// The resources that it leads.
    pub leads: Vec<Name>,
    /// The resources that it could lead.
    pub stands_by: Vec<Name>,
    /// How long ago it was seen.
    pub seen_ago: Span,
}

#[derive(Debug, Default)]
struct State {
    peers: BTreeMap<String, Peer>,
    leaders: BTreeMap<Name, String>,
}

#[derive(Debug)]
struct Peer {
    resources: BTreeSet<Name>,
    last_seen: Time,
}

impl Peers {
    /// Creates the record of the scheduler called `me`, which knows of no peers yet.
    #[must_use]
    pub fn new(me: &str) -> Self {
        Peers { me: me.to_owned(), state: Mutex::default() }
    }

    /// Notes that a scheduler which could lead `resources` was seen.
    pub fn note(&self, now: Time, peer: &str, resources: impl IntoIterator<Item = Name>) {
        let peer_state = Peer { resources: resources.into_iter().collect(), last_seen: now };
        self.lock().peers.insert(peer.to_owned(), peer_state);
    }

    /// Notes that a scheduler is gone, until it is seen again.
    pub fn gone(&self, peer: &str) {
        self.lock().peers.remove(peer);
    }

    /// Notes that `leader` leads `resource`.
    pub fn leads(&self, resource: &Name, leader: &str) {
        self.lock().leaders.insert(resource.clone(), leader.to_owned());
    }

    /// Notes that no scheduler leads `resource`.
    pub fn vacant(&self, resource: &Name) {
        self.lock().leaders.remove(resource);
    }

    /// Returns the scheduler that leads `resource`, or a placeholder if it is unknown.
    #[must_use]
    pub fn leader_of(&self, resource: &Name) -> String {
        self.lock().leaders.get(resource).cloned().unwrap_or_else(|| "another scheduler".to_owned())
    }

    /// Returns how long to leave a vacant resource to schedulers that lead less.
    #[must_use]
    pub fn head_start(&self, now: Time, resource: &Name) -> Span {
        let state = self.lock();
        let fewest = state.others(now, &self.me, resource).map(|other| state.count(other)).min();
        let more = fewest.map_or(0, |fewest| state.count(&self.me).saturating_sub(fewest));
        Span::from_nanos(HEAD_START.nanos() * more as u64)
    }

    /// Returns a scheduler that should lead `resource` instead of this one because it leads fewer
    /// resources. One resource moves at a time: the alphabetically last one that both could lead.
    #[must_use]
    pub fn better_off_with(&self, now: Time, resource: &Name) -> Option<String> {
        let state = self.lock();
        let mine = state.count(&self.me);
        let least = state.others(now, &self.me, resource).min_by_key(|other| state.count(other))?;
        let could = &state.peers[least].resources;
        let last = state.led_by(&self.me).filter(|led| could.contains(*led)).last()?;
        (mine >= state.count(least) + WORTH_MOVING && last == resource).then(|| least.to_owned())
    }

    /// Returns the other live schedulers that could lead `resource`.
    #[must_use]
    pub fn standbys(&self, now: Time, resource: &Name) -> Vec<String> {
        self.lock().others(now, &self.me, resource).map(str::to_owned).collect()
    }

    /// Returns the name of this scheduler.
    #[must_use]
    pub fn me(&self) -> &str {
        &self.me
    }

    /// Returns what each live scheduler does, by name.
    #[must_use]
    pub fn duties(&self, now: Time) -> BTreeMap<String, PeerDuties> {
        let state = self.lock();
        let live = state.peers.iter().filter(|(_, peer)| now.since(peer.last_seen) < GONE_AFTER);
        let duties = |(name, peer): (&String, &Peer)| {
            let leads = |resource: &Name| state.leaders.get(resource) == Some(name);
            let (leads, stands_by) = peer.resources.iter().cloned().partition(leads);
            (name.clone(), PeerDuties { leads, stands_by, seen_ago: now.since(peer.last_seen) })
        };
        live.map(duties).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn others<'a>(&'a self, now: Time, me: &'a str, resource: &'a Name) -> impl Iterator<Item = &'a str> {
        let lives = move |peer: &Peer| now.since(peer.last_seen) < GONE_AFTER && peer.resources.contains(resource);
        self.peers.iter().filter(move |(name, peer)| *name != me && lives(peer)).map(|(name, _)| name.as_str())
    }

    fn led_by<'a>(&'a self, leader: &'a str) -> impl Iterator<Item = &'a Name> {
        self.leaders.iter().filter(move |(_, who)| *who == leader).map(|(resource, _)| resource)
    }

    fn count(&self, leader: &str) -> usize {
        self.led_by(leader).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<Name> {
        text.split_whitespace().map(|name| Name::new(name).unwrap()).collect()
    }

    fn at(secs: u64) -> Time {
        Time::ORIGIN + Span::from_secs(secs)
    }

    /// The resources of `me`, those of `other`, which was seen just now, and those that move to `other`.
    fn check(mine: &str, others: &str, moving: &str) {
        let peers = Peers::new("me");
        let all: Vec<Name> = names(mine).into_iter().chain(names(others)).collect();
        peers.note(at(0), "other", all.clone());
        names(mine).iter().for_each(|name| peers.leads(name, "me"));
        names(others).iter().for_each(|name| peers.leads(name, "other"));
        let moves = |name: &Name| peers.better_off_with(at(1), name).is_some();
        let found: Vec<&Name> = all.iter().filter(|name| moves(name)).collect();
        assert_eq!(found, names(moving).iter().collect::<Vec<_>>(), "{mine} | {others}");
        assert!(all.iter().all(|name| peers.better_off_with(at(9), name).is_none()), "the other is gone by then");
    }

    #[test]
    fn one_resource_moves_at_a_time_until_all_lead_as_many() {
        check("a b c d", "", "d");
        check("a b c", "d", "c");
        check("a b", "c d", "");
        check("a b", "c", "");
        check("a", "", "");
        check("", "a b c", "");
    }

    #[test]
    fn a_resource_that_the_peer_does_not_know_stays() {
        let peers = Peers::new("me");
        peers.note(at(0), "other", names("a"));
        names("a b c").iter().for_each(|name| peers.leads(name, "me"));
        let moving: Vec<bool> =
            names("a b c").iter().map(|name| peers.better_off_with(at(0), name).is_some()).collect();
        assert_eq!(moving, [true, false, false]);
    }

    #[test]
    fn a_scheduler_that_leads_more_resources_gives_its_peer_a_head_start() {
        let peers = Peers::new("me");
        let resource = &names("x")[0];
        assert_eq!(peers.head_start(at(0), resource), Span::ZERO);
        peers.note(at(0), "other", names("x"));
        names("a b").iter().for_each(|name| peers.leads(name, "me"));
        assert_eq!(peers.head_start(at(0), resource), Span::from_millis(40));
        peers.leads(&names("c")[0], "other");
        assert_eq!(peers.head_start(at(0), resource), Span::from_millis(20));
    }
}
