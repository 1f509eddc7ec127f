//! How workers get permission to call.

use crate::incident::Incident;
use crate::simulated_scheduler::SimulatedScheduler;
use crate::workers::plain_rule::PlainRule;
use crate::workers::strategy::Strategy;
use crate::world::World;
use rampmeter_policy::Resource;
use rampmeter_policy::spec::LimitSpec;
use rampmeter_protocol::time::Time;

pub(crate) enum PermitSource {
    /// Every call may start at once.
    Open,
    /// Each worker has buckets of its own.
    Shares(Vec<PlainRule>),
    /// All workers share one counter.
    Counter(PlainRule),
    /// The real core.
    Scheduler(Box<SimulatedScheduler>),
}

impl PermitSource {
    /// Creates the source for a world's workers, which strangers bypass.
    pub(crate) fn new(world: &World, resource: Resource) -> Self {
        let fleets = &world.fleets;
        let limits: Vec<LimitSpec> = resource.limits().iter().map(|limit| limit.spec().clone()).collect();
        let own: usize = fleets.iter().filter(|fleet| !fleet.foreign).map(|fleet| fleet.workers).sum();
        match world.strategy {
            Strategy::BackOff | Strategy::RetryAfter => PermitSource::Open,
            Strategy::StaticShare => PermitSource::Shares(vec![PlainRule::new(&limits, own.max(1)); world.workers()]),
            Strategy::PlainRule => PermitSource::Counter(PlainRule::new(&limits, 1)),
            Strategy::Reserve | Strategy::LateBinding => {
                let is_fenced = world
                    .incidents
                    .iter()
                    .any(|(_, incident)| matches!(incident, Incident::Crash | Incident::CutOff(_)));
                PermitSource::Scheduler(Box::new(SimulatedScheduler::new(resource, world.reader(), is_fenced)))
            }
        }
    }

    pub(crate) fn next_wakeup(&self) -> Time {
        self.scheduler().map_or(Time::NEVER, SimulatedScheduler::next_wakeup)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.scheduler().map_or(0, SimulatedScheduler::waiting)
    }

    pub(crate) fn scheduler(&self) -> Option<&SimulatedScheduler> {
        if let PermitSource::Scheduler(scheduler) = self { Some(scheduler) } else { None }
    }

    pub(crate) fn scheduler_mut(&mut self) -> Option<&mut SimulatedScheduler> {
        if let PermitSource::Scheduler(scheduler) = self { Some(scheduler) } else { None }
    }
}
