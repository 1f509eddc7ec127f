//! A core that discovers limits, and the calls under its permits.

use rampmeter_discovery::{DiscoveredSnapshot, Discovery};
use rampmeter_policy::Resource;
use rampmeter_policy::observation::Observation;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::spec::{LimitSpec, ResourceSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::request::Mode;
use rampmeter_protocol::status::LimitStatus;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::durability::snapshot::Snapshot;
use rampmeter_scheduler_core::event::{Ask, Event, Outcome, Settle};
use rampmeter_scheduler_core::scheduler::Scheduler;
use std::collections::BTreeMap;

/// A core, the discovery of its limits, and the starts that were granted, by the number of the
/// request.
pub(crate) struct World {
    core: Scheduler<usize>,
    pub(crate) discovery: Discovery,
    starts: BTreeMap<usize, Time>,
    asked: usize,
}

impl World {
    pub(crate) fn new(spec: &ResourceSpec) -> Self {
        let written = Resource::new(spec).unwrap();
        let discovery = Discovery::begin(&written, Time::ORIGIN, &[]);
        let core = Scheduler::new(discovery.extended(written), Epoch::FIRST, Time::ORIGIN);
        World { core, discovery, starts: BTreeMap::new(), asked: 0 }
    }

    /// The state of this world at `now`.
    pub(crate) fn state(&mut self, now: Time) -> (Snapshot, Vec<DiscoveredSnapshot>) {
        (self.core.snapshot(now, usize::MAX), self.discovery.snapshot(now))
    }

    /// A world that goes on from `state` at `now`.
    pub(crate) fn restored(spec: &ResourceSpec, now: Time, state: &(Snapshot, Vec<DiscoveredSnapshot>)) -> Self {
        let (snapshot, discovered) = state;
        let written = Resource::new(spec).unwrap();
        let discovery = Discovery::begin(&written, now, discovered);
        let core = Scheduler::restore(discovery.extended(written), Epoch::new(2), now, now, snapshot);
        // Its requests have other ids than those before.
        World { core, discovery, starts: BTreeMap::new(), asked: 1000 }
    }

    /// Asks for a call with these labels and costs, and returns the number of the
    /// request.
    pub(crate) fn ask_for(
        &mut self,
        now: Time,
        mode: Mode,
        labels: &[(&str, &str)],
        cost: &[(&str, f64)],
    ) -> Result<usize, Refusal> {
        let to = self.asked;
        self.asked += 1;
        let mut known = Labels::new();
        labels.iter().for_each(|(label, value)| known.set(*label, *value).unwrap());
        let cost = cost.iter().map(|(unit, units)| (*unit, Amount::new(*units).unwrap()));
        let resource = self.core.resource();
        let (bill, class) = (resource.bill(&known, cost)?, resource.default_class());
        self.handle(now, Event::Ask(Ask::new(to, id(to), bill, class, mode)));
        Ok(to)
    }

    /// Asks for a plain call.
    pub(crate) fn ask(&mut self, now: Time, mode: Mode) -> usize {
        self.ask_for(now, mode, &[], &[]).unwrap()
    }

    /// Ends the call of this request with the upstream's answer.
    pub(crate) fn settle(&mut self, now: Time, request: usize, answer: Observation) {
        let (id, outcome, observation) = (id(request), Outcome::Used(Vec::new()), Some(answer));
        let settle = Settle { to: Some(request), id, outcome, observation, is_throttled: false, call: None };
        self.handle(now, Event::Settle(settle));
    }

    /// Gives the permit of this request back.
    pub(crate) fn give_back(&mut self, now: Time, request: usize) {
        let outcome = Outcome::Unused;
        let settle = Settle { to: None, id: id(request), outcome, observation: None, is_throttled: false, call: None };
        self.handle(now, Event::Settle(settle));
    }

    pub(crate) fn next_wakeup(&self) -> Time {
        self.discovery.next_wakeup(&self.core).map_or(Time::NEVER, |wakeup| wakeup.at)
    }

    /// Lets time pass, with every requested wake-up.
    pub(crate) fn run_until(&mut self, end: Time) {
        while let Some(wakeup) = self.discovery.next_wakeup(&self.core).filter(|wakeup| wakeup.at <= end) {
            self.handle(wakeup.at, Event::Wake);
        }
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event<usize>) {
        self.discovery.handle(&mut self.core, now, event);
        while let Some(command) = self.core.poll_command() {
            if let Command::Grant(grant) = command {
                self.starts.insert(grant.to, now + grant.delay);
            }
        }
    }

    /// The start that a request was granted.
    pub(crate) fn start(&self, request: usize) -> Option<Time> {
        self.starts.get(&request).copied()
    }

    pub(crate) fn limits(&self) -> Vec<LimitSpec> {
        self.discovery.limits_in_force(self.core.resource())
    }

    pub(crate) fn status(&mut self, now: Time) -> Vec<LimitStatus> {
        let mut limits = self.core.limit_status(now);
        self.discovery.describe(&mut limits, now);
        limits
    }

    /// The status of the limit of this name.
    pub(crate) fn status_of(&mut self, now: Time, name: &str) -> LimitStatus {
        self.status(now).into_iter().find(|limit| *limit.name == *name).unwrap()
    }
}

fn id(request: usize) -> PermitId {
    PermitId::new(&format!("call-{request}")).unwrap()
}

pub(crate) fn ms(millis: u64) -> Time {
    Time::ORIGIN + Span::from_millis(millis)
}
