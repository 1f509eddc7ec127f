//! The search for unwritten limits.
//!
//! Found limits are in force from the end of the event that found them. A limit from headers
//! begins with the amount that the headers say is left. A guessed limit begins with a part of its
//! capacity, and this part changes without a change of limits.

use crate::adaptation::{ObservedCall, Reading, RecentCalls, Scope, Verdict, may_mean_guess};
use crate::command::Note;
use crate::discovery::discovered_limit::DiscoveredSnapshot;
use crate::discovery::{CallResponse, DiscoveredLimit, LimitSearch, RejectionSource};
use crate::ids::LimitId;
use crate::ledger::Ledger;
use crate::policy::spec::LimitSpec;
use crate::policy::{Bill, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;

/// The pause after a refusal that names none.
const SILENT_PAUSE: Span = Span::from_secs(1);

/// The search for unwritten limits, if the resource wants one.
///
/// Invariant: between two events, all found limits are in force, unless too many changes are
/// under way. The methods that take a resource expect the one in force.
#[derive(Debug)]
pub(crate) struct UnwrittenLimits(Option<Box<LimitSearch>>);

impl UnwrittenLimits {
    /// The search for limits that `written` lacks, with those that a predecessor has found.
    pub(crate) fn new(written: &Resource, now: Time, found: &[DiscoveredSnapshot]) -> Self {
        UnwrittenLimits(LimitSearch::begin(written, now, found).map(Box::new))
    }

    pub(crate) fn search(&self) -> Option<&LimitSearch> {
        self.0.as_deref()
    }

    /// The written limits with those that were found.
    pub(crate) fn complete(&self, written: Resource) -> Resource {
        self.search().map_or(written, LimitSearch::resource)
    }

    /// Replaces the written limits, and returns them with the found ones.
    pub(crate) fn rewrite(&mut self, written: Resource) -> Resource {
        let Some(search) = &mut self.0 else { return written };
        search.rewrite(written);
        search.take_is_changed();
        search.resource()
    }

    pub(crate) fn set_wall_clock(&mut self, wall_clock: WallClockOrigin) {
        self.0.iter_mut().for_each(|search| search.set_wall_clock(wall_clock));
    }

    /// Learns from the answer to a call. Returns what is to blame if the call was refused.
    pub(crate) fn learn(
        &mut self,
        resource: &Resource,
        calls: &RecentCalls,
        call: ObservedCall<'_>,
    ) -> Option<RejectionSource> {
        let search = self.0.as_mut()?;
        let ObservedCall { now, connection, bill, .. } = call;
        let at = call.at();
        search.note_in_flight(calls.in_flight().count_young(now));
        let blame = blame(search, resource, call);
        match blame {
            Some(blame) => search.note_refused(now, at, blame),
            None => search.note_served(now, now.since(at)),
        }
        let (traits, route_label) = (bill.traits.as_deref(), resource.spec().discover_route.as_deref());
        let answer = CallResponse { now, connection, traits, route_label, in_flight: search.in_flight() };
        let charged: Vec<Name> = bill.applicable().limits().map(|limit| resource[limit].spec().name.clone()).collect();
        search.take_readings(&answer, &call.observation.readings, &charged);
        blame
    }

    /// When what was found is to be reviewed.
    pub(crate) fn next_review(&self) -> Option<Time> {
        self.search().map(LimitSearch::next_review).filter(|at| *at < Time::NEVER)
    }

    /// Reviews the found limits. Returns the resource with them, if they have changed.
    pub(crate) fn review(&mut self, now: Time) -> Option<Resource> {
        let search = self.0.as_mut()?;
        if search.next_review() <= now {
            search.review(now);
        }
        search.take_is_changed().then(|| search.resource())
    }

    /// Sets the stock of limits that were just found to the amount that the responses said was
    /// left.
    pub(crate) fn begin_found(&mut self, now: Time, resource: &Resource, ledger: &mut Ledger) {
        let Some(search) = &mut self.0 else { return };
        for (limit, spec) in resource.limits_by_id() {
            let left = search.take_left(&spec.spec().name).filter(|_| !spec.is_keyed());
            if let Some(left) = left {
                let level = spec.rate().credit(left).min(spec.full());
                ledger.adaptive_mut(limit).set_level(now, level);
            }
        }
    }

    /// Puts the present guesses into force.
    pub(crate) fn enforce_found(&self, now: Time, resource: &Resource, ledger: &mut Ledger) {
        let Some(search) = &self.0 else { return };
        for found in search.found().filter(|found| found.spec.guessed) {
            let Some(limit) = resource.limit(&found.spec.name) else { continue };
            if resource[limit].spec().guessed && ledger.adaptive(limit).capacity_in_force() != Some(found.in_force) {
                ledger.adaptive_mut(limit).set_capacity_in_force(now, found.in_force);
            }
        }
    }

    /// Notes about the limits that were just found.
    pub(crate) fn take_notes(&mut self, resource: &Resource) -> Vec<Note> {
        let Some(search) = &mut self.0 else { return Vec::new() };
        let news = search.take_news();
        let note = |name: &Name| {
            let (limit, found) = (resource.limit(name)?, search.discovered_limit(name)?);
            Some(Note::LimitFound { limit, evidence: found.evidence })
        };
        news.iter().filter_map(note).collect()
    }

    /// The found limit of this name, if it is unwritten.
    pub(crate) fn found(&self, name: &str) -> Option<&DiscoveredLimit> {
        self.search()?.discovered_limit(name)
    }

    /// A limit in force. A found limit is shown as a configuration would state it.
    pub(crate) fn as_configuration(&self, limit: &LimitSpec) -> LimitSpec {
        self.found(&limit.name).map_or_else(|| limit.clone(), DiscoveredLimit::as_configuration)
    }
}

fn blame(search: &LimitSearch, resource: &Resource, call: ObservedCall<'_>) -> Option<RejectionSource> {
    let is_used_up = |reading: &Reading| is_used_up(resource, call.bill, reading);
    match &call.observation.verdict {
        Verdict::Passed => None,
        Verdict::Busy => Some(RejectionSource::Places),
        Verdict::Exhausted { .. } | Verdict::Limited { by_other_accounts: true, .. } => {
            Some(RejectionSource::KnownLimit)
        }
        Verdict::Limited { scope, .. } if !may_mean_guess(scope) => Some(RejectionSource::KnownLimit),
        Verdict::Limited { .. } if call.observation.readings.iter().any(is_used_up) => {
            Some(RejectionSource::KnownLimit)
        }
        Verdict::Limited { retry_after: None, .. } if search.blames_places() => Some(RejectionSource::Places),
        Verdict::Limited { retry_after, .. } => Some(RejectionSource::Rate(retry_after.unwrap_or(SILENT_PAUSE))),
    }
}

/// Whether the remaining amount of a reading does not suffice for another call with this bill.
fn is_used_up(resource: &Resource, bill: &Bill, reading: &Reading) -> bool {
    let unit = if let Scope::Unit(unit) = &reading.scope { Some(unit) } else { None };
    let counts = |limit: &LimitId| unit.is_none_or(|unit| *resource[*limit].spec().unit == **unit);
    let cost = bill.charged().filter(counts).map(|limit| bill.get(limit)).max();
    reading.remaining < cost.unwrap_or(Amount::ONE)
}
