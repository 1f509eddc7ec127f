//! What a worker has to pass before its call.

use crate::plain_rule::PlainRule;
use crate::strategy::Strategy;
use crate::worker::WorkerId;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::resource::Resource;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_scheduler_core::spec::LimitSpec;

/// What a worker has to pass before its call.
pub(crate) enum Gate {
    /// Nothing.
    Open,
    /// Buckets of its own.
    Shares(Vec<PlainRule>),
    /// A counter for everybody.
    Counter(PlainRule),
    /// The real core.
    Scheduler(Box<Scheduler<WorkerId>>),
}

impl Gate {
    pub(crate) fn new(strategy: Strategy, resource: Resource, limits: &[LimitSpec], workers: usize) -> Self {
        match strategy {
            Strategy::BackOff | Strategy::RetryAfter => Gate::Open,
            Strategy::StaticShare => Gate::Shares(vec![PlainRule::new(limits, workers); workers]),
            Strategy::PlainRule => Gate::Counter(PlainRule::new(limits, 1)),
            Strategy::Reserve | Strategy::LateBinding => {
                Gate::Scheduler(Box::new(Scheduler::new(resource, 1, Time::ORIGIN)))
            }
        }
    }

    /// When it has something to do by itself.
    pub(crate) fn next_wakeup(&self) -> Time {
        match self {
            Gate::Scheduler(scheduler) => scheduler.next_wakeup().map_or(Time::NEVER, |wakeup| wakeup.at),
            Gate::Open | Gate::Shares(_) | Gate::Counter(_) => Time::NEVER,
        }
    }

    /// How many wait in front of it.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Gate::Scheduler(scheduler) => scheduler.waiting(),
            Gate::Open | Gate::Shares(_) | Gate::Counter(_) => 0,
        }
    }
}
