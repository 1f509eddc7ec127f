//! The search for unwritten limits.
//!
//! What is found counts from the end of the event that found it. A limit that headers tell of
//! begins with what they say is left; a guess counts in part of its capacity, which changes without
//! a change of limits.

use super::Scheduler;
use crate::adaptation::{Observation, Reading, Scope, Verdict, may_mean_guess};
use crate::command::{Command, Note};
use crate::discovery::{Blame, CallAnswer, FoundLimit, KEY_RATE};
use crate::ids::{Connection, LimitId};
use crate::limits::PendingDebits;
use crate::policy::spec::LimitSpec;
use crate::policy::{Bill, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use std::sync::Arc;

/// The pause after a refusal that names none.
const SILENT_PAUSE: Span = Span::from_secs(1);

impl<R: Clone> Scheduler<R> {
    /// Learns from the answer to a call over `connection` that started at `at`. What it blames, if
    /// it is a refusal.
    pub(crate) fn search_by(
        &mut self,
        now: Time,
        (connection, at): (Connection, Time),
        bill: &Bill,
        observation: &Observation,
    ) -> Option<Blame> {
        self.update_in_flight(now);
        let blame = self.blame(bill, observation);
        let charged: Vec<Name> =
            bill.applicable().limits().map(|limit| self.resource[limit].spec().name.clone()).collect();
        let key = self.key_of_rate(bill);
        let search = self.search.as_mut()?;
        let blame = match blame {
            Some(blame) => Some(search.note_refused(now, at, blame, key.as_ref())),
            None => {
                search.note_served(now, now.since(at), key.as_ref());
                None
            }
        };
        let traits = bill.traits.as_deref();
        let route_label = self.resource.spec().discover_route.as_deref();
        let heard = CallAnswer { now, connection, traits, route_label, in_flight: search.in_flight() };
        search.hear(&heard, &observation.readings, &charged);
        blame
    }

    /// Tells the search how many calls are in flight.
    fn update_in_flight(&mut self, now: Time) {
        if let Some(search) = &mut self.search {
            search.note_in_flight(self.calls.in_flight().count_young(now));
        }
    }

    /// The key whose rate is looked for.
    fn key_of_rate(&self, bill: &Bill) -> Option<Arc<str>> {
        let limit = self.resource.limit(KEY_RATE).filter(|limit| self.resource[*limit].spec().guessed)?;
        Some(Arc::clone(&bill.key_charge(limit)?.key))
    }

    fn blame(&self, bill: &Bill, observation: &Observation) -> Option<Blame> {
        let search = self.search.as_ref()?;
        match &observation.verdict {
            Verdict::Passed => None,
            Verdict::Busy => Some(Blame::Places),
            Verdict::Exhausted { .. } | Verdict::Limited { by_other_accounts: true, .. } => Some(Blame::KnownLimit),
            Verdict::Limited { scope, .. } if !may_mean_guess(scope) => Some(Blame::KnownLimit),
            Verdict::Limited { .. } if observation.readings.iter().any(|reading| self.is_used_up(bill, reading)) => {
                Some(Blame::KnownLimit)
            }
            Verdict::Limited { retry_after: None, .. } if search.blames_places() => Some(Blame::Places),
            Verdict::Limited { retry_after, .. } => Some(Blame::Rate(retry_after.unwrap_or(SILENT_PAUSE))),
        }
    }

    /// Whether what a reading says is left does not suffice for another call with this bill.
    fn is_used_up(&self, bill: &Bill, reading: &Reading) -> bool {
        let unit = if let Scope::Unit(unit) = &reading.scope { Some(unit) } else { None };
        let counts = |limit: &LimitId| unit.is_none_or(|unit| *self.resource[*limit].spec().unit == **unit);
        let cost = bill.charged().filter(counts).map(|limit| bill.get(limit)).max();
        reading.remaining < cost.unwrap_or(Amount::ONE)
    }

    /// Other written limits, with those that were found.
    pub(crate) fn with_found(&mut self, written: Resource) -> Resource {
        let Some(search) = &mut self.search else { return written };
        search.rewrite(written);
        search.take_other_limits();
        search.resource()
    }

    /// Reviews what was found, and has it count.
    pub(crate) fn apply_found_limits(&mut self, now: Time) {
        let Some(search) = self.search.as_mut().filter(|_| !self.term.is_ending()) else { return };
        if search.next_review() <= now {
            search.review(now);
        }
        if search.take_other_limits() {
            let resource = search.resource();
            self.switch_limits(now, resource);
            self.begin_found(now);
        }
        self.enforce_found(now);
        self.note_found();
    }

    /// Limits that were just found begin with what was left of them.
    fn begin_found(&mut self, now: Time) {
        let Some(search) = &mut self.search else { return };
        for (limit, spec) in self.resource.limits_by_id() {
            let left = search.take_left(&spec.spec().name).filter(|_| !spec.is_keyed());
            if let Some(left) = left {
                let level = spec.rate().credit(left).min(spec.full());
                self.ledger.adaptive_mut(limit).set_level(now, level, PendingDebits::none());
            }
        }
    }

    /// Has guesses count as they are now.
    pub(crate) fn enforce_found(&mut self, now: Time) {
        let Some(search) = &mut self.search else { return };
        if let Some(limit) = self.resource.limit(KEY_RATE) {
            search.take_key_prices().for_each(|(key, price)| self.ledger.set_key_price(limit, key, price));
        }
        for found in search.found().filter(|found| found.spec.guessed && !found.spec.applies.is_keyed()) {
            let Some(limit) = self.resource.limit(&found.spec.name) else { continue };
            if self.resource[limit].spec().guessed
                && self.ledger.adaptive(limit).capacity_in_force() != Some(found.in_force)
            {
                self.ledger.adaptive_mut(limit).set_capacity_in_force(now, found.in_force);
            }
        }
    }

    /// When what was found is looked at again, as long as a request waits.
    pub(crate) fn next_search(&self) -> Option<Time> {
        let search = self.search.as_ref().filter(|_| self.waiting() > 0 && !self.term.is_ending())?;
        Some(search.next_review()).filter(|at| *at < Time::NEVER)
    }

    /// What was found of the limit of this name, if it is unwritten.
    pub(crate) fn found(&self, name: &str) -> Option<&FoundLimit> {
        self.search.as_ref()?.found_limit(name)
    }

    /// Tells people of the limits that were just found.
    fn note_found(&mut self) {
        let Some(search) = &mut self.search else { return };
        for name in search.take_news() {
            if let (Some(limit), Some(found)) = (self.resource.limit(&name), search.found_limit(&name)) {
                self.outbox.push(Command::Note(Note::LimitFound { limit, by: found.origin.as_str() }));
            }
        }
    }

    /// All limits as they count now: what was found is as it could be written.
    #[must_use]
    pub fn limits_in_force(&self) -> Vec<LimitSpec> {
        let counting = |limit: &LimitSpec| self.found(&limit.name).map_or_else(|| limit.clone(), FoundLimit::counting);
        self.resource.spec().limits.iter().map(counting).collect()
    }
}
