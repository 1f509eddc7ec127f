//! The discovery of limits between the driver of a scheduler and its core.

use crate::discovered_limit::{DiscoveredLimit, DiscoveredSnapshot, Evidence};
use crate::limit_search::LimitSearch;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{DiscoveredStatus, LimitStatus};
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::LimitSpec;
use rampmeter_scheduler_core::scheduler::{Scheduler, Wakeup, WakeupReason};

/// The discovery of limits for one resource, if the resource wants it.
///
/// The core has to begin with the [extended](Discovery::extended) resource. From then on, all
/// events go through [`handle`](Discovery::handle), and the driver asks for
/// [`next_wakeup`](Discovery::next_wakeup) here.
///
/// What an answer or a wake-up teaches is in force in the core before the core handles it, so that
/// all commands that follow from an event number limits alike. During a hand-over the limits stay as
/// they are.
#[derive(Clone, Debug)]
pub struct Discovery {
    search: Option<Box<LimitSearch>>,
    is_over: bool,
    /// The time of the latest event.
    now: Time,
}

impl Discovery {
    /// Begins to discover limits that `written` lacks. Those of a predecessor are known from then on.
    #[must_use]
    pub fn begin(written: &Resource, now: Time, known: &[DiscoveredSnapshot]) -> Self {
        Discovery { search: LimitSearch::begin(written, now, known).map(Box::new), is_over: false, now }
    }

    /// Returns the resource with the written limits, followed by the discovered ones.
    #[must_use]
    pub fn extended(&self, written: Resource) -> Resource {
        self.search.as_ref().map_or(written, |search| search.resource())
    }

    /// Returns the resource without discovered limits, of a core with the resource `in_force`.
    #[must_use]
    pub fn written<'a>(&'a self, in_force: &'a Resource) -> &'a Resource {
        self.search.as_ref().map_or(in_force, |search| &search.written)
    }

    /// Handles an event in `core`. What an answer teaches about limits comes into force first.
    ///
    /// # Panics
    /// If `now` is before the time of an earlier event.
    pub fn handle<R: Clone>(&mut self, core: &mut Scheduler<R>, now: Time, mut event: Event<R>) {
        self.now = now;
        self.is_over |= matches!(event, Event::HandOver);
        let Some(search) = self.search.as_mut() else { return core.handle(now, event) };
        let is_answer = if let Event::Settle(settle) = &mut event
            && !self.is_over
            && let Some((call, answer)) = core.call_ended_by(now, settle).zip(settle.observation.as_mut())
        {
            search.learn(core.resource(), now, call, answer);
            true
        } else {
            false
        };
        // Other events number limits as they are, and must not meet other ones.
        if is_answer || matches!(event, Event::Wake) && !self.is_over {
            search.review(now);
            if search.is_changed {
                core.handle(now, search.take_event());
            }
            steer(search, core, now);
        }
        if let Event::Limits(written) = event {
            search.written = *written;
            event = search.take_event();
        }
        core.handle(now, event);
        // Limits that had to wait for other changes may have come into force.
        steer(search, core, now);
    }

    /// Returns when to handle [`Event::Wake`], and why. An overdue wake-up is returned with the time of the last
    /// event.
    #[must_use]
    pub fn next_wakeup<R: Clone>(&self, core: &Scheduler<R>) -> Option<Wakeup> {
        let search = self.search.as_ref().filter(|_| !self.is_over);
        let next = search.map(|search| if core.waiting() > 0 { search.next_review() } else { search.next_lapse() });
        let review =
            next.filter(|at| *at < Time::NEVER).map(|at| Wakeup { at: at.max(self.now), reason: WakeupReason::Review });
        core.next_wakeup().into_iter().chain(review).min()
    }

    /// Returns the limits that were discovered since the last call, as a configuration would state them.
    pub fn take_news(&mut self) -> Vec<(LimitSpec, Evidence)> {
        let Some(search) = &mut self.search else { return Vec::new() };
        let news = std::mem::take(&mut search.news);
        let described = |name: &Name| search.unwritten(name).map(|limit| (limit.as_configuration(), limit.evidence));
        news.iter().filter_map(described).collect()
    }

    /// Returns all limits of a core with this resource, as a configuration would state them.
    #[must_use]
    pub fn limits_in_force(&self, resource: &Resource) -> Vec<LimitSpec> {
        let limits = resource.spec().limits.iter();
        limits
            .map(|limit| self.limit(&limit.name).map_or_else(|| limit.clone(), DiscoveredLimit::as_configuration))
            .collect()
    }

    /// Adds to the status of limits which of them were discovered, and by what evidence. Shows these as
    /// a configuration would state them.
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
        let discovered = self.search.iter().flat_map(|search| &search.discovered);
        discovered.map(|limit| limit.snapshot(now)).collect()
    }

    /// The discovered limit of this name, if it is not written as well.
    fn limit(&self, name: &str) -> Option<&DiscoveredLimit> {
        self.search.as_ref()?.unwritten(name)
    }
}

/// Puts the capacities of steered limits into force.
fn steer<R: Clone>(search: &LimitSearch, core: &mut Scheduler<R>, now: Time) {
    for limit in search.discovered.iter().filter(|limit| limit.spec.is_steered()) {
        let known = core.resource().limit(&limit.spec.name);
        let Some(id) = known.filter(|id| core.resource()[*id].spec().is_steered()) else { continue };
        if core.capacity_in_force(id) != Some(limit.in_force) {
            core.handle(now, Event::Capacity { limit: id, capacity: limit.in_force });
        }
    }
}
