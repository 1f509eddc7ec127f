//! The discovery of limits, between the driver of a scheduler and its core.

use crate::discovered_limit::{DiscoveredLimit, DiscoveredSnapshot, Evidence};
use crate::headers::{described_limit, name_of, period};
use crate::in_flight_cap::InFlightCap;
use crate::rate_search::RateSearch;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::observation::{Observation, Reading, Scope, Verdict};
use rampmeter_policy::spec::{Algorithm, Discover, Learn, LimitSpec, MAX_KEY_LABELS, MAX_LIMITS, MAX_PERIOD, Margin};
use rampmeter_policy::{Bill, CallTraits, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{DiscoveredStatus, LimitStatus};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::scheduler::settle::EndedCall;
use rampmeter_scheduler_core::scheduler::{Scheduler, Wakeup, WakeupReason};
use std::collections::BTreeMap;

/// Most limits discovered by headers, so that a lying worker cannot fill a resource.
const MAX_DISCOVERED: usize = 24;
const MAX_ROUTES: usize = 256;
/// Bytes of routes beyond which no limit gets another one: the state record has to hold them.
const ROUTES_BYTES: usize = 16 << 10;

const RATE: &str = "learned-rate";
const IN_FLIGHT: &str = "learned-in-flight";

/// The pause after a rejection that states none.
const SILENT_PAUSE: Span = Span::from_secs(1);
/// The bucket of a discovered rate holds the refill of this time, so that calls are evenly spaced.
const BURST: Span = Span::from_millis(50);
/// Nominal rates, in calls per second, of the limit that steers a discovered rate below its own.
const BRACKETS: [f64; 5] = [4.0, 64.0, 1024.0, 16_384.0, 262_144.0];
/// A discovered rate lies between these fractions of its nominal rate.
const HIGH: f64 = 0.95;
const LOW: f64 = 0.02;
/// Highest cap on calls in flight.
const MAX_IN_FLIGHT: u64 = 65_536;
/// A place is held longer than calls take, by this proportion and within these bounds.
const LEASE: (u64, u64) = (11, 10);
const MIN_LEASE: Span = Span::from_secs(1);
const LONGEST_LEASE: Span = Span::from_secs(60);

enum RejectionSource {
    /// A limit that the response names, or that others have used up.
    KnownLimit,
    /// A rate: the upstream asks for this pause.
    Rate(Span),
    /// The number of calls in flight.
    Places,
}

/// The discovery of limits for one resource, if it wants that. The core has to begin with the
/// [extended](Discovery::extended) resource. From then on, all events go to [`handle`](Discovery::handle), and the
/// driver takes [`next_wakeup`](Discovery::next_wakeup) from here.
///
/// What a response or a wake-up teaches is in force in the core before the core handles it, so that
/// all commands that follow from an event number limits alike. No limits change in a hand-over.
#[derive(Clone, Debug)]
pub struct Discovery {
    written: Resource,
    scope: Discover,
    discovered: Vec<DiscoveredLimit>,
    /// The number of calls in flight besides the last one that was answered.
    in_flight: u64,
    cap: InFlightCap,
    rate: RateSearch,
    /// Whether the limits have changed since the last [`Discovery::take_event`].
    is_changed: bool,
    /// Discovered limits that the driver has not taken yet.
    news: Vec<Name>,
    is_over: bool,
    now: Time,
}

impl Discovery {
    /// Begins to discover limits that `written` lacks, with those that a predecessor discovered.
    #[must_use]
    pub fn begin(written: &Resource, now: Time, known: &[DiscoveredSnapshot]) -> Self {
        let (scope, route) = (written.spec().discover, written.spec().discover_route.as_deref());
        let wanted = known.iter().filter(|known| is_wanted(written, known)).take(MAX_DISCOVERED + 2);
        let by_name: BTreeMap<&Name, &DiscoveredSnapshot> = wanted.map(|known| (&known.name, known)).collect();
        let of = |evidence: Evidence| by_name.values().copied().filter(move |known| known.evidence == evidence);
        let rate = of(Evidence::Refusals).next().map(|known| known.capacity.units() / BURST.secs());
        let cap = of(Evidence::InFlight).next().map(|known| {
            let longest = Span::from_nanos(known.period.nanos() / LEASE.0 * LEASE.1);
            InFlightCap::restored(known.capacity.units() as u64, longest)
        });
        let mut discovery = Discovery {
            written: written.clone(),
            scope,
            discovered: of(Evidence::Headers).map(|known| DiscoveredLimit::restored(known, route, now)).collect(),
            in_flight: 0,
            cap: cap.unwrap_or_default(),
            rate: rate.map_or_else(|| RateSearch::new(now), |rate| RateSearch::restored(now, rate)),
            is_changed: false,
            news: Vec::new(),
            is_over: false,
            now,
        };
        discovery.estimate(now);
        // The core begins with these limits, and restores what is left of them.
        discovery.is_changed = false;
        discovery.discovered.iter_mut().for_each(|limit| limit.left = None);
        discovery.news.retain(|name| !by_name.contains_key(name));
        discovery
    }

    /// Returns the resource with the configured limits, followed by the discovered ones.
    #[must_use]
    pub fn extended(&self, written: Resource) -> Resource {
        if self.scope == Discover::Nothing { written } else { self.resource() }
    }

    /// Returns the resource `in_force` in a core without its discovered limits.
    #[must_use]
    pub fn written<'a>(&'a self, in_force: &'a Resource) -> &'a Resource {
        if self.scope == Discover::Nothing { in_force } else { &self.written }
    }

    /// Handles an event in `core`. What a response teaches about limits comes into force first.
    ///
    /// # Panics
    /// If `now` is before the time of an earlier event.
    pub fn handle<R: Clone>(&mut self, core: &mut Scheduler<R>, now: Time, mut event: Event<R>) {
        self.now = now;
        self.is_over |= matches!(event, Event::HandOver);
        if self.scope == Discover::Nothing {
            return core.handle(now, event);
        }
        let mut may_change = matches!(event, Event::Wake) && !self.is_over;
        if let Event::Settle(settle) = &mut event
            && !self.is_over
            && let Some((call, answer)) = core.call_ended_by(now, settle).zip(settle.observation.as_mut())
        {
            self.learn(core.resource(), now, call, answer);
            may_change = true;
        }
        // Other events number limits as they are, and must not meet others.
        if may_change {
            self.review(now);
            if self.is_changed {
                core.handle(now, self.take_event());
            }
            self.steer(core, now);
        }
        if let Event::Limits(written) = event {
            self.written = *written;
            event = self.take_event();
        }
        core.handle(now, event);
        // Limits that had to wait for other changes may have come into force.
        self.steer(core, now);
    }

    /// Returns when to handle [`Event::Wake`], and why. An overdue one has the last event's time.
    #[must_use]
    pub fn next_wakeup<R: Clone>(&self, core: &Scheduler<R>) -> Option<Wakeup> {
        let lapse = self.discovered.iter().filter_map(DiscoveredLimit::lapses).min();
        let growth = (self.scope == Discover::All && core.waiting() > 0).then(|| self.rate.next_review());
        let next = lapse.into_iter().chain(growth).min().filter(|_| !self.is_over);
        let review = next.map(|at| Wakeup { at: at.max(self.now), reason: WakeupReason::Review });
        core.next_wakeup().into_iter().chain(review).min()
    }

    /// Returns the limits discovered since the last call, as a configuration would state them.
    pub fn take_news(&mut self) -> Vec<(LimitSpec, Evidence)> {
        let news = std::mem::take(&mut self.news);
        let described = |name: &Name| self.limit(name).map(|limit| (limit.as_configuration(), limit.evidence));
        news.iter().filter_map(described).collect()
    }

    /// Returns all limits of a core with this resource, as a configuration would state them.
    #[must_use]
    pub fn limits_in_force(&self, resource: &Resource) -> Vec<LimitSpec> {
        let stated =
            |limit: &LimitSpec| self.limit(&limit.name).map_or(limit.clone(), DiscoveredLimit::as_configuration);
        resource.spec().limits.iter().map(stated).collect()
    }

    /// Adds the evidence to discovered limits' status, shown as a configuration would state them.
    pub fn describe(&self, limits: &mut [LimitStatus], now: Time) {
        for status in limits {
            let Some(limit) = self.limit(&status.name) else { continue };
            if limit.spec.is_steered() {
                let configuration = limit.as_configuration();
                (status.capacity, status.period_ms) = (configuration.capacity.units(), configuration.period.millis());
                status.learned = None;
            }
            status.found = Some(DiscoveredStatus {
                by: limit.evidence.as_str().to_owned(),
                for_ms: now.since(limit.since).millis(),
                routes: limit.routes().cloned().collect(),
                key: limit.spec.applies.key.clone(),
            });
        }
    }

    /// Returns the discovered limits, for a successor.
    #[must_use]
    pub fn snapshot(&self, now: Time) -> Vec<DiscoveredSnapshot> {
        self.discovered.iter().map(|limit| limit.snapshot(now)).collect()
    }

    /// Returns the resource with the discovered limits whose names the configuration does not use.
    fn resource(&self) -> Resource {
        let places = MAX_LIMITS.saturating_sub(self.written.spec().limits.len());
        let specs = self.discovered.iter().map(|limit| &limit.spec);
        let unwritten = specs.filter(|spec| self.written.limit(&spec.name).is_none());
        self.written.extended(unwritten.take(places).cloned()).expect("a discovered limit is valid")
    }

    /// Returns the limit of this name, if it was discovered and is not configured.
    fn limit(&self, name: &str) -> Option<&DiscoveredLimit> {
        let limit = self.discovered.iter().find(|limit| *limit.spec.name == *name);
        limit.filter(|_| self.written.limit(name).is_none())
    }

    /// Puts the capacities of steered limits into force.
    fn steer<R: Clone>(&self, core: &mut Scheduler<R>, now: Time) {
        for limit in self.discovered.iter().filter(|limit| limit.spec.is_steered()) {
            let known = core.resource().limit(&limit.spec.name);
            let Some(id) = known.filter(|id| core.resource()[*id].spec().is_steered()) else { continue };
            if core.capacity_in_force(id) != Some(limit.in_force) {
                core.handle(now, Event::Capacity { limit: id, capacity: limit.in_force });
            }
        }
    }

    /// Returns the change to the [resource](Discovery::resource), with what new limits have left.
    fn take_event<R>(&mut self) -> Event<R> {
        self.is_changed = false;
        let left = |limit: &mut DiscoveredLimit| Some((limit.spec.name.clone(), limit.left.take()?));
        let left = self.discovered.iter_mut().filter_map(left).collect();
        Event::Discovered { resource: Box::new(self.resource()), left }
    }

    /// Learns from a response to a call. If too many were in flight, a rejection becomes [`Verdict::Crowded`].
    fn learn(&mut self, in_force: &Resource, now: Time, call: EndedCall<'_>, answer: &mut Observation) {
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
        if self.scope != Discover::All || answer.readings.is_empty() {
            return;
        }
        let names: Vec<Option<Name>> = answer.readings.iter().map(name_of).collect();
        let charged: Vec<&Name> = call.bill.limits().map(|limit| &in_force[limit].spec().name).collect();
        let is_denied = |name: &Name| charged.contains(&name) && !names.contains(&Some(name.clone()));
        let denied = self.discovered.iter_mut().filter(|limit| is_denied(&limit.spec.name));
        denied.for_each(|limit| limit.denials += 1);
        answer.readings.iter().for_each(|reading| self.take_reading(now, call.bill.traits.as_deref(), reading));
    }

    fn refused_by(&self, in_force: &Resource, bill: &Bill, answer: &Observation) -> Option<RejectionSource> {
        let is_used_up = |reading: &Reading| is_used_up(in_force, bill, reading);
        // Far below the cap, places are free, so an unexplained rejection has another cause.
        let is_near_cap = self.cap.cap.is_none_or(|cap| (self.in_flight + 1) * 2 > cap);
        let blames_places = self.scope == Discover::InFlight && self.in_flight > 0 && is_near_cap;
        match &answer.verdict {
            Verdict::Passed => None,
            Verdict::Busy | Verdict::Crowded => Some(RejectionSource::Places),
            Verdict::Exhausted { .. } | Verdict::Limited { by_other_accounts: true, .. } => {
                Some(RejectionSource::KnownLimit)
            }
            Verdict::Limited { scope, .. } if !scope.may_be_unnamed() => Some(RejectionSource::KnownLimit),
            Verdict::Limited { .. } if answer.readings.iter().any(is_used_up) => Some(RejectionSource::KnownLimit),
            Verdict::Limited { retry_after: None, .. } if blames_places => Some(RejectionSource::Places),
            Verdict::Limited { retry_after, .. } => Some(RejectionSource::Rate(retry_after.unwrap_or(SILENT_PAUSE))),
        }
    }

    /// Lets the rate grow if that is due, and drops limits that responses no longer repeat.
    fn review(&mut self, now: Time) {
        self.rate.review(now);
        self.retain(|limit| !limit.is_doubtful(now));
        self.estimate(now);
    }

    fn take_reading(&mut self, now: Time, traits: Option<&CallTraits>, reading: &Reading) {
        let Some(name) = name_of(reading).filter(|name| !is_steered(name)) else { return };
        let routes_bytes: usize =
            self.discovered.iter().flat_map(DiscoveredLimit::routes).map(|route| route.len()).sum();
        let label = self.written.spec().discover_route.as_deref();
        let route = label.zip(traits.and_then(|traits| traits.route.as_deref()));
        let Some(limit) = self.discovered.iter_mut().find(|limit| limit.spec.name == name) else {
            let by_headers = self.discovered.iter().filter(|limit| limit.evidence == Evidence::Headers).count();
            let described = described_limit(reading, route, traits.map_or(&[], |traits| &traits.keys));
            if let Some(spec) = described.filter(|_| self.written.limit(&name).is_none() && by_headers < MAX_DISCOVERED)
            {
                // The remaining amount may not include other calls in flight.
                let left = self.beside_calls(reading.remaining);
                self.add(DiscoveredLimit::new(spec, Evidence::Headers, left, now));
            }
            return;
        };
        limit.confirm(now);
        let has_room = limit.routes().count() < MAX_ROUTES && routes_bytes < ROUTES_BYTES;
        let wider = route.filter(|_| has_room).is_some_and(|(label, route)| limit.add_route(label, route));
        let is_window = !reading.described.is_gradual && reading.described.period.is_none();
        let longer = period(reading).filter(|_| is_window).is_some_and(|shown| limit.lengthen(shown));
        let resized = reading.capacity.is_some_and(|stated| stated >= Amount::ONE && limit.resize(stated));
        self.is_changed |= wider || longer || resized;
    }

    fn retain(&mut self, stays: impl Fn(&DiscoveredLimit) -> bool) {
        let before = self.discovered.len();
        self.discovered.retain(stays);
        self.is_changed |= self.discovered.len() < before;
    }

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
        // In calls per second.
        let present = self.by(Evidence::Refusals).map(|limit| limit.spec.capacity.units() / BURST.secs());
        let present = present.filter(|bracket| (LOW * bracket..=HIGH * bracket).contains(&rate));
        let bracket = stock(present.unwrap_or_else(|| bracket_of(rate)));
        self.put(now, Evidence::Refusals, steered(RATE, Algorithm::TokenBucket, bracket, BURST), stock(rate));
    }

    fn put_cap(&mut self, now: Time, cap: u64) {
        let calls = |calls: u64| Amount::from_micros(calls.min(MAX_IN_FLIGHT) * 1_000_000).unwrap_or(Amount::ONE);
        let longest = self.cap.longest;
        let wanted = Span::from_nanos(longest.nanos() / LEASE.1 * LEASE.0).clamp(MIN_LEASE, LONGEST_LEASE);
        let present = self.by(Evidence::InFlight).map(|limit| limit.spec.period);
        let lease = present.filter(|present| *present >= longest.min(LONGEST_LEASE)).unwrap_or(wanted);
        let limit = steered(IN_FLIGHT, Algorithm::Concurrency, calls(MAX_IN_FLIGHT), lease);
        self.put(now, Evidence::InFlight, limit, calls(cap));
    }

    /// Returns the limit with this evidence; refusals and calls in flight have at most one.
    fn by(&self, evidence: Evidence) -> Option<&DiscoveredLimit> {
        self.discovered.iter().find(|limit| limit.evidence == evidence)
    }

    /// Puts a capacity of a steered limit into force. `spec` keeps the first amount, or the core would start it anew.
    fn put(&mut self, now: Time, evidence: Evidence, spec: LimitSpec, in_force: Amount) {
        let learn = Learn::Steered(in_force);
        let Some(known) = self.discovered.iter_mut().find(|limit| limit.evidence == evidence) else {
            let left = self.beside_calls(in_force).filter(|_| evidence == Evidence::InFlight);
            let mut limit = DiscoveredLimit::new(LimitSpec { learn, ..spec }, evidence, left, now);
            limit.in_force = in_force;
            return self.add(limit);
        };
        known.in_force = in_force;
        if known.spec != (LimitSpec { learn: known.spec.learn, ..spec.clone() }) {
            known.spec = LimitSpec { learn, ..spec };
            self.is_changed = true;
        }
    }

    /// What calls in flight leave of `stock`, if each takes one.
    fn beside_calls(&self, stock: Amount) -> Option<Amount> {
        let in_flight = Amount::ONE.micros().saturating_mul(self.in_flight);
        Amount::from_micros(stock.micros().saturating_sub(in_flight)).ok()
    }

    fn add(&mut self, limit: DiscoveredLimit) {
        self.news.push(limit.spec.name.clone());
        self.discovered.push(limit);
        self.is_changed = true;
    }
}

/// Returns whether the configuration of `resource` still wants this limit of a predecessor.
fn is_wanted(resource: &Resource, known: &DiscoveredSnapshot) -> bool {
    let spec = resource.spec();
    let has_routes = || known.routes.is_empty() || spec.discover_route.is_some();
    // What headers could have described.
    let is_valid = !is_steered(&known.name) && known.key.len() <= MAX_KEY_LABELS && known.period <= MAX_PERIOD;
    match known.evidence {
        Evidence::Headers => spec.discover == Discover::All && is_valid && has_routes(),
        Evidence::Refusals => spec.discover == Discover::All && *known.name == *RATE,
        Evidence::InFlight => spec.discover != Discover::Nothing,
    }
}

/// A limit of requests, to be [put](Discovery::put) into force.
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

fn stock(rate: f64) -> Amount {
    Amount::round_up((rate * BURST.secs()).max(1e-6)).unwrap_or(Amount::ONE)
}

fn bracket_of(rate: f64) -> f64 {
    BRACKETS.into_iter().find(|bracket| rate <= HIGH * bracket).unwrap_or(BRACKETS[BRACKETS.len() - 1])
}

/// Returns whether the reading's remaining amount does not suffice for another such call.
fn is_used_up(in_force: &Resource, bill: &Bill, reading: &Reading) -> bool {
    let unit = if let Scope::Unit(unit) = &reading.scope { Some(unit) } else { None };
    let counts = |limit: &LimitId| unit.is_none_or(|unit| *in_force[*limit].spec().unit == **unit);
    let cost = bill.charged().filter(counts).map(|limit| bill.get(limit)).max();
    reading.remaining < cost.unwrap_or(Amount::ONE)
}
