//! What a worker has to pass before its call.

use crate::plain_rule::PlainRule;
use crate::simulated_scheduler::SimulatedScheduler;
use crate::strategy::Strategy;
use crate::world::World;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::policy::resource::Resource;

/// What a worker has to pass before its call.
pub(crate) enum Gate {
    /// Nothing.
    Open,
    /// Buckets of its own.
    Shares(Vec<PlainRule>),
    /// A counter for everybody.
    Counter(PlainRule),
    /// The real core.
    Scheduler(Box<SimulatedScheduler>),
}

impl Gate {
    /// In front of a world's workers; strangers have no part in it.
    pub(crate) fn new(world: &World, resource: Resource) -> Self {
        let (fleets, limits) = (&world.fleets, &world.resource.limits);
        let own: usize = fleets.iter().filter(|fleet| !fleet.foreign).map(|fleet| fleet.workers).sum();
        match world.strategy {
            Strategy::BackOff | Strategy::RetryAfter => Gate::Open,
            Strategy::StaticShare => Gate::Shares(vec![PlainRule::new(limits, own.max(1)); world.workers()]),
            Strategy::PlainRule => Gate::Counter(PlainRule::new(limits, 1)),
            Strategy::Reserve | Strategy::LateBinding => {
                Gate::Scheduler(Box::new(SimulatedScheduler::new(resource, world.reader())))
            }
        }
    }

    /// When it has something to do by itself.
    pub(crate) fn next_wakeup(&self) -> Time {
        self.scheduler().map_or(Time::NEVER, SimulatedScheduler::next_wakeup)
    }

    /// How many wait in front of it.
    pub(crate) fn waiting(&self) -> usize {
        self.scheduler().map_or(0, SimulatedScheduler::waiting)
    }

    /// The scheduler, where there is one.
    pub(crate) fn scheduler(&self) -> Option<&SimulatedScheduler> {
        match self {
            Gate::Scheduler(scheduler) => Some(scheduler),
            Gate::Open | Gate::Shares(_) | Gate::Counter(_) => None,
        }
    }

    /// The scheduler, where there is one.
    pub(crate) fn scheduler_mut(&mut self) -> Option<&mut SimulatedScheduler> {
        match self {
            Gate::Scheduler(scheduler) => Some(scheduler),
            Gate::Open | Gate::Shares(_) | Gate::Counter(_) => None,
        }
    }
}
