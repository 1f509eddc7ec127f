//! The search for the limits of a resource that its configuration lacks.

use crate::discovered_limit::{DiscoveredLimit, DiscoveredSnapshot, Evidence};
use crate::headers::{CallResponse, name_of, period};
use crate::in_flight_cap::InFlightCap;
use crate::rate_search::RateSearch;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::adaptation::observation::{Observation, Reading, Scope, Verdict};
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::ids::LimitId;
use rampmeter_scheduler_core::policy::applies::MAX_KEY_LABELS;
use rampmeter_scheduler_core::policy::bill::Bill;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::{Algorithm, Discover, Learn, LimitSpec, MAX_LIMITS, MAX_PERIOD, Margin};
use rampmeter_scheduler_core::scheduler::settle::EndedCall;
use std::collections::BTreeMap;

/// The most limits that are discovered by headers. No response names so many, and a lying worker
/// cannot fill a resource with them.
const MAX_DISCOVERED: usize = 24;
/// The most routes of one limit.
const MAX_ROUTES: usize = 256;
/// With this many bytes of routes, no limit gets another one: the state record has to hold them.
const ROUTES_BYTES: usize = 16 << 10;

/// The name of the limit for a discovered rate.
const RATE: &str = "learned-rate";
/// The name of the limit for a discovered cap on calls in flight.
const IN_FLIGHT: &str = "learned-in-flight";

/// The pause after a refusal that names none.
const SILENT_PAUSE: Span = Span::from_secs(1);
/// The bucket of a discovered rate holds the refill of this time, so that calls come evenly.
const BURST: Span = Span::from_millis(50);
/// The limit for a discovered rate has one of these rates, in calls a second, as its nominal rate,
/// and steers the discovered one below it.
const BRACKETS: [f64; 5] = [4.0, 64.0, 1024.0, 16_384.0, 262_144.0];
/// A discovered rate is at most `HIGH` and at least `LOW` of the nominal rate that it is a part of.
const HIGH: f64 = 0.95;
const LOW: f64 = 0.02;
/// The most calls in flight that a cap allows.
const MAX_IN_FLIGHT: u64 = 65_536;
/// A place is held for longer than calls take, in this proportion and within these bounds.
const LEASE: (u64, u64) = (11, 10);
const MIN_LEASE: Span = Span::from_secs(1);
const LONGEST_LEASE: Span = Span::from_secs(60);

/// The cause of a refused call.
enum RejectionSource {
    /// A limit that the response names, or that other accounts have used up.
    KnownLimit,
    /// A rate: the upstream asks for this pause.
    Rate(Span),
    /// The number of calls in flight.
    Places,
}

/// The discovered limits, and what is known about limits to be discovered.
#[derive(Clone, Debug)]
pub(crate) struct LimitSearch {
    /// The resource without the discovered limits.
    pub(crate) written: Resource,
    scope: Discover,
    pub(crate) discovered: Vec<DiscoveredLimit>,
    /// The number of calls in flight besides the last one that was answered.
    in_flight: u64,
    cap: InFlightCap,
    rate: RateSearch,
    /// Whether the limits have changed since the last [`LimitSearch::take_event`].
    pub(crate) is_changed: bool,
    /// Discovered limits that the driver has not asked for yet.
    pub(crate) news: Vec<Name>,
}

impl LimitSearch {
    /// Begins a search if `resource` wants one, with the limits that a predecessor has discovered.
    pub(crate) fn begin(resource: &Resource, now: Time, known: &[DiscoveredSnapshot]) -> Option<Self> {
        let (scope, route) = (resource.spec().discover, resource.spec().discover_route.as_deref());
        let wanted = known.iter().filter(|known| is_wanted(resource, known)).take(MAX_DISCOVERED + 2);
        let by_name: BTreeMap<&Name, &DiscoveredSnapshot> = wanted.map(|known| (&known.name, known)).collect();
        let of = |evidence: Evidence| by_name.values().copied().filter(move |known| known.evidence == evidence);
        let rate = of(Evidence::Refusals).next().map(|known| known.capacity.units() / BURST.secs());
        let cap = of(Evidence::InFlight).next().map(|known| {
            let longest = Span::from_nanos(known.period.nanos() / LEASE.0 * LEASE.1);
            InFlightCap::restored(known.capacity.units() as u64, longest)
        });
        let mut search = LimitSearch {
            written: resource.clone(),
            scope,
            discovered: of(Evidence::Headers).map(|known| DiscoveredLimit::restored(known, route, now)).collect(),
            in_flight: 0,
            cap: cap.unwrap_or_default(),
            rate: rate.map_or_else(|| RateSearch::new(now), |rate| RateSearch::restored(now, rate)),
            is_changed: false,
            news: Vec::new(),
        };
        search.estimate(now);
        // The core begins with these limits, and restores what is left of them.
        search.is_changed = false;
        search.discovered.iter_mut().for_each(|limit| limit.left = None);
        search.news.retain(|name| !by_name.contains_key(name));
        (scope != Discover::Nothing).then_some(search)
    }

    /// Returns the resource with the discovered limits. A written limit takes precedence over a discovered
    /// one of the same name.
    pub(crate) fn resource(&self) -> Resource {
        let places = MAX_LIMITS.saturating_sub(self.written.spec().limits.len());
        let specs = self.discovered.iter().map(|limit| &limit.spec);
        let unwritten = specs.filter(|spec| self.written.limit(&spec.name).is_none());
        self.written.extended(unwritten.take(places).cloned()).expect("a discovered limit is valid")
    }

    /// Returns the limit of this name, if it was discovered and is not written.
    pub(crate) fn unwritten(&self, name: &str) -> Option<&DiscoveredLimit> {
        let limit = self.discovered.iter().find(|limit| *limit.spec.name == *name);
        limit.filter(|_| self.written.limit(name).is_none())
    }

    /// Returns the change of limits to the [resource](LimitSearch::resource), with what is left of
    /// limits that are new in it.
    pub(crate) fn take_event<R>(&mut self) -> Event<R> {
        self.is_changed = false;
        let left = |limit: &mut DiscoveredLimit| Some((limit.spec.name.clone(), limit.left.take()?));
        let left = self.discovered.iter_mut().filter_map(left).collect();
        Event::Discovered { resource: Box::new(self.resource()), left }
    }

    /// Learns from the answer to a call. If the number of calls in flight is to blame for a refusal,
    /// the verdict becomes [`Verdict::Crowded`]. `in_force` is the resource of the core.
    pub(crate) fn learn(&mut self, in_force: &Resource, now: Time, call: EndedCall<'_>, answer: &mut Observation) {
        self.in_flight = call.beside;
        match self.refused_by(in_force, call.bill, answer) {
            None => {
                self.cap.note_served(now.since(call.at), self.in_flight);
                self.rate.note_served(now);
            }
            Some(RejectionSource::KnownLimit) => {}
            Some(RejectionSource::Rate(pause)) => self.rate.note_refused(now, call.at, pause),
            Some(RejectionSource::Places) => {
                self.cap.note_refused(now, call.at, self.in_flight);
                answer.verdict = Verdict::Crowded;
            }
        }
        self.estimate(now);
        if self.scope != Discover::All || answer.readings.is_empty() {
            return;
        }
        let names: Vec<Option<Name>> = answer.readings.iter().map(name_of).collect();
        let charged: Vec<&Name> = call.bill.limits().map(|limit| &in_force[limit].spec().name).collect();
        for limit in self.discovered.iter_mut().filter(|limit| charged.contains(&&limit.spec.name)) {
            if !names.contains(&Some(limit.spec.name.clone())) {
                limit.deny();
            }
        }
        let route_label = in_force.spec().discover_route.as_deref();
        let response = CallResponse { now, traits: call.bill.traits(), route_label };
        answer.readings.iter().for_each(|reading| self.take_reading(&response, reading));
        self.drop_doubtful(now);
    }

    /// Returns the cause if the call was refused.
    fn refused_by(&self, in_force: &Resource, bill: &Bill, answer: &Observation) -> Option<RejectionSource> {
        let is_used_up = |reading: &Reading| is_used_up(in_force, bill, reading);
        match &answer.verdict {
            Verdict::Passed => None,
            Verdict::Busy | Verdict::Crowded => Some(RejectionSource::Places),
            Verdict::Exhausted { .. } | Verdict::Limited { by_other_accounts: true, .. } => {
                Some(RejectionSource::KnownLimit)
            }
            Verdict::Limited { scope, .. } if !scope.may_be_unnamed() => Some(RejectionSource::KnownLimit),
            Verdict::Limited { .. } if answer.readings.iter().any(is_used_up) => Some(RejectionSource::KnownLimit),
            Verdict::Limited { retry_after: None, .. } if self.blames_places() => Some(RejectionSource::Places),
            Verdict::Limited { retry_after, .. } => Some(RejectionSource::Rate(retry_after.unwrap_or(SILENT_PAUSE))),
        }
    }

    /// Whether a refusal without explanation blames the number of calls in flight.
    fn blames_places(&self) -> bool {
        // Far below the cap, places are free, so the refusal has another cause.
        let is_near = self.cap.cap.is_none_or(|cap| (self.in_flight + 1) * 2 > cap);
        self.scope == Discover::InFlight && self.in_flight > 0 && is_near
    }

    /// When a limit is dropped unless a response repeats it.
    pub(crate) fn next_lapse(&self) -> Time {
        self.discovered.iter().filter_map(DiscoveredLimit::lapses).min().unwrap_or(Time::NEVER)
    }

    /// When to [review](LimitSearch::review) the limits.
    pub(crate) fn next_review(&self) -> Time {
        let lapse = self.next_lapse();
        if self.scope == Discover::All { lapse.min(self.rate.next_review()) } else { lapse }
    }

    /// Lets the rate grow, and drops limits that no response repeats, if that is due.
    pub(crate) fn review(&mut self, now: Time) {
        if now < self.next_review() {
            return;
        }
        self.rate.review(now);
        self.drop_doubtful(now);
        self.estimate(now);
    }

    fn take_reading(&mut self, answer: &CallResponse, reading: &Reading) {
        let Some(name) = name_of(reading).filter(|name| !is_steered(name)) else { return };
        let routes_bytes: usize =
            self.discovered.iter().flat_map(DiscoveredLimit::routes).map(|route| route.len()).sum();
        let is_written = self.written.limit(&name).is_some();
        let Some(limit) = self.discovered.iter_mut().find(|limit| limit.spec.name == name) else {
            let by_headers = self.discovered.iter().filter(|limit| limit.evidence == Evidence::Headers).count();
            if let Some(new) = answer.limit(reading).filter(|_| !is_written && by_headers < MAX_DISCOVERED) {
                // The remaining amount may not include other calls in flight.
                self.add(new, self.beside_calls(reading.remaining));
            }
            return;
        };
        limit.confirm(answer.now);
        let route = answer.route_label.zip(answer.traits.and_then(|traits| traits.route.as_deref()));
        let has_room = limit.routes().count() < MAX_ROUTES && routes_bytes < ROUTES_BYTES;
        let wider = route.filter(|_| has_room).is_some_and(|(label, route)| limit.add_route(label, route));
        let is_window = !reading.described.is_gradual && reading.described.period.is_none();
        let longer = period(reading).filter(|_| is_window).is_some_and(|shown| limit.lengthen(shown));
        let resized = reading.capacity.is_some_and(|stated| stated >= Amount::ONE && limit.resize(stated));
        self.is_changed |= wider || longer || resized;
    }

    fn drop_doubtful(&mut self, now: Time) {
        self.retain(|limit| !limit.is_doubtful(now));
    }

    fn retain(&mut self, stays: impl Fn(&DiscoveredLimit) -> bool) {
        let before = self.discovered.len();
        self.discovered.retain(stays);
        self.is_changed |= self.discovered.len() < before;
    }

    /// Updates the limits for the rate and for calls in flight.
    fn estimate(&mut self, now: Time) {
        if self.scope == Discover::All {
            self.put_rate(now);
        }
        match self.cap.cap {
            Some(cap) => self.put_cap(now, cap),
            None => self.retain(|limit| limit.evidence != Evidence::InFlight),
        }
    }

    fn put_rate(&mut self, now: Time) {
        let rate = self.rate.rate;
        let present = self.bracket().filter(|bracket| (LOW * bracket..=HIGH * bracket).contains(&rate));
        let bracket = stock(present.unwrap_or_else(|| bracket_of(rate)));
        self.put(now, Evidence::Refusals, steered(RATE, Algorithm::TokenBucket, bracket, BURST), stock(rate));
    }

    fn put_cap(&mut self, now: Time, cap: u64) {
        let calls = |calls: u64| Amount::from_micros(calls.min(MAX_IN_FLIGHT) * 1_000_000).unwrap_or(Amount::ONE);
        let longest = self.cap.longest;
        let wanted = Span::from_nanos(longest.nanos() / LEASE.1 * LEASE.0).clamp(MIN_LEASE, LONGEST_LEASE);
        let present =
            self.discovered.iter().find(|limit| limit.evidence == Evidence::InFlight).map(|limit| limit.spec.period);
        let lease = present.filter(|present| *present >= longest.min(LONGEST_LEASE)).unwrap_or(wanted);
        let limit = steered(IN_FLIGHT, Algorithm::Concurrency, calls(MAX_IN_FLIGHT), lease);
        self.put(now, Evidence::InFlight, limit, calls(cap));
    }

    /// The bracket of the rate, in calls a second.
    fn bracket(&self) -> Option<f64> {
        let limit = self.discovered.iter().find(|limit| *limit.spec.name == *RATE)?;
        Some(limit.spec.capacity.units() / BURST.secs())
    }

    /// Puts `in_force` into force as the capacity of a steered limit. The amount with which the limit
    /// began stays in its specification: a limit whose specification changes begins anew in the core.
    fn put(&mut self, now: Time, evidence: Evidence, spec: LimitSpec, in_force: Amount) {
        let learn = Learn::Steered(in_force);
        if let Some(known) = self.discovered.iter_mut().find(|limit| limit.spec.name == spec.name) {
            if known.spec != (LimitSpec { learn: known.spec.learn, ..spec.clone() }) {
                known.spec = LimitSpec { learn, ..spec };
                self.is_changed = true;
            }
            known.in_force = in_force;
            return;
        }
        let left = self.beside_calls(in_force).filter(|_| evidence == Evidence::InFlight);
        let mut limit = DiscoveredLimit::new(LimitSpec { learn, ..spec }, evidence, now);
        limit.in_force = in_force;
        self.add(limit, left);
    }

    /// What calls in flight leave of `stock`, if each takes one.
    fn beside_calls(&self, stock: Amount) -> Option<Amount> {
        let in_flight = Amount::ONE.micros().saturating_mul(self.in_flight);
        Amount::from_micros(stock.micros().saturating_sub(in_flight)).ok()
    }

    fn add(&mut self, mut limit: DiscoveredLimit, left: Option<Amount>) {
        limit.left = left;
        self.news.push(limit.spec.name.clone());
        self.discovered.push(limit);
        self.is_changed = true;
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
    !is_steered(&known.name) && known.key.len() <= MAX_KEY_LABELS && known.period <= MAX_PERIOD
}

/// A limit that counts requests, to be [put](LimitSearch::put) into force.
fn steered(name: &str, algorithm: Algorithm, capacity: Amount, period: Span) -> LimitSpec {
    let valid = |name| Name::new(name).expect("a valid name");
    LimitSpec {
        algorithm,
        margin: Margin::Fixed(Amount::ZERO),
        ..LimitSpec::new(valid(name), valid(REQUESTS), capacity, period)
    }
}

fn is_steered(name: &str) -> bool {
    [RATE, IN_FLIGHT].contains(&name)
}

/// The capacity of the bucket for a rate in calls a second.
fn stock(rate: f64) -> Amount {
    Amount::round_up((rate * BURST.secs()).max(1e-6)).unwrap_or(Amount::ONE)
}

fn bracket_of(rate: f64) -> f64 {
    BRACKETS.into_iter().find(|bracket| rate <= HIGH * bracket).unwrap_or(BRACKETS[BRACKETS.len() - 1])
}

/// Whether the remaining amount of a reading does not suffice for another call with this bill.
fn is_used_up(in_force: &Resource, bill: &Bill, reading: &Reading) -> bool {
    let unit = if let Scope::Unit(unit) = &reading.scope { Some(unit) } else { None };
    let counts = |limit: &LimitId| unit.is_none_or(|unit| *in_force[*limit].spec().unit == **unit);
    let cost = bill.charged().filter(counts).map(|limit| bill.get(limit)).max();
    reading.remaining < cost.unwrap_or(Amount::ONE)
}
