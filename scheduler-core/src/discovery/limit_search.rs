//! The search for unwritten limits of a resource.

use super::discovered_limit::{DiscoveredLimit, DiscoveredSnapshot, Evidence};
use super::headers::{CallResponse, name_of, period};
use super::in_flight_cap::InFlightCap;
use super::rate_probe::RateProbe;
use crate::adaptation::Reading;
use crate::ids::Connection;
use crate::policy::applies::MAX_KEY_LABELS;
use crate::policy::spec::{Discover, Learn, LimitSpec, MAX_LIMITS, Margin};
use crate::policy::{Algorithm, MAX_PERIOD, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::wall_clock::WallClockOrigin;
use std::collections::BTreeMap;

/// The most limits that are found by headers. No response names so many, and a lying worker
/// cannot fill a resource with them.
const MAX_FOUND: usize = 24;
/// The most routes of one limit.
const MAX_ROUTES: usize = 256;

/// The name of the limit for a found rate.
pub(crate) const RATE: &str = "learned-rate";
/// The name of the limit for a found cap on calls in flight.
pub(crate) const IN_FLIGHT: &str = "learned-in-flight";

/// The bucket of a found rate holds the refill of this time, so that calls come evenly.
const BURST: Span = Span::from_millis(50);
/// The guessed limit has one of these rates, in calls a second, as its nominal rate. Steps of
/// [`Rate::slowed`](crate::arithmetic::Rate::slowed) make the found rate of it.
const BRACKETS: [f64; 5] = [4.0, 64.0, 1024.0, 16_384.0, 262_144.0];
/// A found rate is at most `HIGH` and at least `LOW` of the nominal rate that it is a part of.
const HIGH: f64 = 0.95;
const LOW: f64 = 0.02;
/// The most calls in flight that a cap allows.
const MAX_IN_FLIGHT: u64 = 65_536;
/// A place is held for a little longer than calls take, within these bounds.
const MIN_LEASE: Span = Span::from_secs(1);
const LONGEST_LEASE: Span = Span::from_secs(60);

/// What is to blame for a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectionSource {
    /// A limit that the response names, or that other accounts have used up.
    KnownLimit,
    /// A rate: the upstream asks for this pause.
    Rate(Span),
    /// The number of calls in flight.
    Places,
}

/// The state of the search for unwritten limits.
#[derive(Clone, Debug)]
pub(crate) struct LimitSearch {
    written: Resource,
    scope: Discover,
    found: Vec<DiscoveredLimit>,
    /// The number of calls in flight that was last noted.
    in_flight: u64,
    cap: InFlightCap,
    rate: RateProbe,
    /// Whether the found limits have changed since the last [`LimitSearch::take_is_changed`].
    is_changed: bool,
    /// Found limits that no note has announced yet.
    news: Vec<Name>,
}

impl LimitSearch {
    /// A search if `resource` wants one, with what a predecessor has found.
    pub(crate) fn begin(resource: &Resource, now: Time, known: &[DiscoveredSnapshot]) -> Option<Self> {
        let (scope, route) = (resource.spec().discover, resource.spec().discover_route.as_deref());
        let wanted = known.iter().filter(|known| is_wanted(resource, known)).take(MAX_FOUND + 2);
        let by_name: BTreeMap<&Name, &DiscoveredSnapshot> = wanted.map(|known| (&known.name, known)).collect();
        let of = |evidence: Evidence| by_name.values().copied().filter(move |known| known.evidence == evidence);
        let rate = of(Evidence::Refusals).next().map(rate_of);
        let mut search = LimitSearch {
            written: resource.clone(),
            scope,
            found: of(Evidence::Headers).map(|known| DiscoveredLimit::restored(known, route, now)).collect(),
            in_flight: 0,
            cap: of(Evidence::InFlight).next().map_or_else(InFlightCap::default, cap_of),
            rate: rate.map_or_else(|| RateProbe::new(now), |rate| RateProbe::restored(now, rate)),
            is_changed: false,
            news: Vec::new(),
        };
        search.guess(now);
        (scope != Discover::Nothing).then_some(search)
    }

    /// The resource with the found limits. A written limit takes precedence over a found one of the
    /// same name.
    pub(crate) fn resource(&self) -> Resource {
        let places = MAX_LIMITS.saturating_sub(self.written.spec().limits.len());
        let found = self.found.iter().map(|found| &found.spec).filter(|spec| self.written.limit(&spec.name).is_none());
        let with = self.written.with_found(found.take(places).cloned());
        with.expect("what is found is a valid limit")
    }

    /// Replaces the written limits.
    pub(crate) fn rewrite(&mut self, written: Resource) {
        self.written = written;
    }

    pub(crate) fn set_wall_clock(&mut self, wall_clock: WallClockOrigin) {
        self.written = self.written.clone().with_wall_clock(wall_clock);
    }

    /// Notes how many calls are in flight.
    pub(crate) fn note_in_flight(&mut self, calls: u64) {
        self.in_flight = calls;
    }

    /// How many calls are in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn found(&self) -> impl Iterator<Item = &DiscoveredLimit> {
        self.found.iter()
    }

    /// The limit of this name, if it was found and is not written.
    pub(crate) fn discovered_limit(&self, name: &str) -> Option<&DiscoveredLimit> {
        let found = self.found.iter().find(|found| *found.spec.name == *name);
        found.filter(|_| self.written.limit(name).is_none())
    }

    /// Takes the stock that was left of the limit of this name when it was found.
    pub(crate) fn take_left(&mut self, name: &str) -> Option<Amount> {
        self.found.iter_mut().find(|found| *found.spec.name == *name)?.left.take()
    }

    /// Whether the found limits have changed since the last [`LimitSearch::take_is_changed`].
    pub(crate) fn take_is_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The limits that were found since the last call.
    pub(crate) fn take_news(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.news)
    }

    /// Notes that a call was served after `taken`.
    pub(crate) fn note_served(&mut self, now: Time, taken: Span) {
        self.cap.note_served(taken, self.in_flight);
        self.rate.note_served(now);
        self.guess(now);
    }

    /// Notes that a call, started at `at`, was refused.
    pub(crate) fn note_refused(&mut self, now: Time, at: Time, blame: RejectionSource) {
        match blame {
            RejectionSource::KnownLimit => {}
            RejectionSource::Rate(pause) => self.rate.note_refused(now, at, pause),
            RejectionSource::Places => self.cap.note_refused(now, at, self.in_flight),
        }
        self.guess(now);
    }

    /// Whether a refusal without explanation blames the number of calls in flight.
    pub(crate) fn blames_places(&self) -> bool {
        // Far below the cap, places are free, so the refusal has another cause.
        let is_near = self.cap.cap().is_none_or(|cap| (self.in_flight + 1) * 2 > cap);
        self.scope == Discover::InFlight && self.in_flight > 0 && is_near
    }

    pub(crate) fn finds_all(&self) -> bool {
        self.scope == Discover::All
    }

    pub(crate) fn next_review(&self) -> Time {
        let lapse = self.found.iter().filter_map(DiscoveredLimit::lapses).min().unwrap_or(Time::NEVER);
        if self.finds_all() { lapse.min(self.rate.next_review()) } else { lapse }
    }

    /// Lets the rate grow, and drops limits that no response repeats.
    pub(crate) fn review(&mut self, now: Time) {
        self.rate.review(now);
        self.drop_doubtful(now);
        self.guess(now);
    }

    /// Takes the readings of a response. `charged` names the limits that the call was charged to.
    pub(crate) fn take_readings(&mut self, answer: &CallResponse, readings: &[Reading], charged: &[Name]) {
        if !self.finds_all() || readings.is_empty() {
            return;
        }
        let names: Vec<Option<Name>> = readings.iter().map(name_of).collect();
        for found in self.found.iter_mut().filter(|found| charged.contains(&found.spec.name)) {
            if !names.contains(&Some(found.spec.name.clone())) {
                found.deny(answer.connection);
            }
        }
        readings.iter().for_each(|reading| self.take_reading(answer, reading));
        self.drop_doubtful(answer.now);
    }

    fn take_reading(&mut self, answer: &CallResponse, reading: &Reading) {
        let Some(name) = name_of(reading).filter(|name| !is_guess(name)) else { return };
        let is_written = self.written.limit(&name).is_some();
        let Some(found) = self.found.iter_mut().find(|found| found.spec.name == name) else {
            let by_headers = self.found.iter().filter(|found| found.evidence == Evidence::Headers).count();
            let new = answer.limit(reading).filter(|_| !is_written && by_headers < MAX_FOUND);
            self.is_changed |= new.is_some();
            self.news.extend(new.iter().map(|found| found.spec.name.clone()));
            self.found.extend(new);
            return;
        };
        found.confirm(answer.now, answer.connection);
        let route = answer.route_label.zip(answer.traits.and_then(|traits| traits.route.as_deref()));
        let has_room = found.routes().count() < MAX_ROUTES;
        let wider = route.filter(|_| has_room).is_some_and(|(label, route)| found.add_route(label, route));
        let is_window = !reading.described.is_gradual && reading.described.period.is_none();
        let longer = period(reading).filter(|_| is_window).is_some_and(|shown| found.lengthen(shown));
        let resized = reading.capacity.is_some_and(|stated| stated >= Amount::ONE && found.resize(stated));
        self.is_changed |= wider || longer || resized;
    }

    fn drop_doubtful(&mut self, now: Time) {
        self.retain(|found| !found.is_doubtful(now));
    }

    fn retain(&mut self, stays: impl Fn(&DiscoveredLimit) -> bool) {
        let before = self.found.len();
        self.found.retain(stays);
        self.is_changed |= self.found.len() < before;
    }

    /// Updates the guessed limits.
    fn guess(&mut self, now: Time) {
        if self.finds_all() {
            self.guess_rate(now);
        }
        match self.cap.cap() {
            Some(cap) => self.guess_cap(now, cap),
            None => self.retain(|found| found.evidence != Evidence::InFlight),
        }
    }

    fn guess_rate(&mut self, now: Time) {
        let rate = self.rate.rate();
        let present = self.bracket().filter(|bracket| (LOW * bracket..=HIGH * bracket).contains(&rate));
        let bracket = stock(present.unwrap_or_else(|| bracket_of(rate)));
        self.put(now, Evidence::Refusals, guessed(RATE, Algorithm::TokenBucket, bracket, BURST), stock(rate));
    }

    fn guess_cap(&mut self, now: Time, cap: u64) {
        let calls = |calls: u64| Amount::from_micros(calls.min(MAX_IN_FLIGHT) * 1_000_000).unwrap_or(Amount::ONE);
        let longest = self.cap.longest();
        let wanted = lease_for(longest).clamp(MIN_LEASE, LONGEST_LEASE);
        let present =
            self.found.iter().find(|found| found.evidence == Evidence::InFlight).map(|found| found.spec.period);
        let lease = present.filter(|present| *present >= longest.min(LONGEST_LEASE)).unwrap_or(wanted);
        let limit = guessed(IN_FLIGHT, Algorithm::Concurrency, calls(MAX_IN_FLIGHT), lease);
        self.put(now, Evidence::InFlight, limit, calls(cap));
    }

    /// The bracket of the rate, in calls a second.
    fn bracket(&self) -> Option<f64> {
        let found = self.found.iter().find(|found| *found.spec.name == *RATE)?;
        Some(found.spec.capacity.units() / BURST.secs())
    }

    fn put(&mut self, now: Time, evidence: Evidence, spec: LimitSpec, in_force: Amount) {
        if let Some(found) = self.found.iter_mut().find(|found| found.spec.name == spec.name) {
            self.is_changed |= found.spec != spec;
            (found.spec, found.in_force) = (spec, in_force);
            return;
        }
        let in_flight = Amount::ONE.micros().saturating_mul(self.in_flight);
        let left = Amount::from_micros(in_force.micros().saturating_sub(in_flight)).ok();
        let left = left.filter(|_| evidence == Evidence::InFlight);
        self.news.push(spec.name.clone());
        let mut found = DiscoveredLimit::new(spec, evidence, now, Connection::UNKNOWN);
        (found.in_force, found.left) = (in_force, left);
        self.found.push(found);
        self.is_changed = true;
    }

    /// The found limits, for a successor.
    pub(crate) fn snapshot(&self, now: Time) -> Vec<DiscoveredSnapshot> {
        self.found.iter().map(|found| found.snapshot(now)).collect()
    }
}

/// Whether the configuration of `resource` still wants this limit of a predecessor's search.
fn is_wanted(resource: &Resource, known: &DiscoveredSnapshot) -> bool {
    let spec = resource.spec();
    let has_routes = || known.routes.is_empty() || spec.discover_route.is_some();
    match known.evidence {
        Evidence::Headers => spec.discover == Discover::All && is_valid(known) && has_routes(),
        Evidence::Refusals => spec.discover == Discover::All && *known.name == *RATE,
        Evidence::InFlight => spec.discover != Discover::Nothing,
    }
}

/// Whether headers could have described the limit in a record.
fn is_valid(known: &DiscoveredSnapshot) -> bool {
    !is_guess(&known.name) && known.key.len() <= MAX_KEY_LABELS && known.period <= MAX_PERIOD
}

/// A guessed limit that counts requests.
fn guessed(name: &str, algorithm: Algorithm, capacity: Amount, period: Span) -> LimitSpec {
    let valid = |name| Name::new(name).expect("a valid name");
    LimitSpec {
        algorithm,
        margin: Margin::Fixed(Amount::ZERO),
        learn: Learn::Never,
        guessed: true,
        ..LimitSpec::new(valid(name), valid(REQUESTS), capacity, period)
    }
}

fn is_guess(name: &str) -> bool {
    [RATE, IN_FLIGHT].contains(&name)
}

/// The capacity of the bucket for a rate in calls a second.
fn stock(rate: f64) -> Amount {
    Amount::round_up((rate * BURST.secs()).max(1e-6)).unwrap_or(Amount::ONE)
}

/// The rate, in calls a second, that a record's capacity stands for.
fn rate_of(known: &DiscoveredSnapshot) -> f64 {
    known.capacity.units() / BURST.secs()
}

/// The cap on calls in flight in a record.
fn cap_of(known: &DiscoveredSnapshot) -> InFlightCap {
    InFlightCap::restored(known.capacity.units() as u64, call_time_of(known.period))
}

/// The lease for calls that take at most `call_time`: a tenth longer.
fn lease_for(call_time: Span) -> Span {
    Span::from_nanos(call_time.nanos() / 10 * 11)
}

/// The longest call time that `lease` was chosen for.
fn call_time_of(lease: Span) -> Span {
    Span::from_nanos(lease.nanos() / 11 * 10)
}

fn bracket_of(rate: f64) -> f64 {
    BRACKETS.into_iter().find(|bracket| rate <= HIGH * bracket).unwrap_or(BRACKETS[BRACKETS.len() - 1])
}
