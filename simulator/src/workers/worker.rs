//! One worker.

use crate::network::{Network, Way};
use crate::rng::Rng;
use crate::workers::fleet::Fleet;
use crate::workers::price::Price;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::{AskNumber, Event, Freeze, Grant, ResourceNumber, Session};
use std::sync::Arc;

pub(crate) const RESOURCE: ResourceNumber = ResourceNumber(0);

/// One life of a worker. Messages to an earlier life are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) worker: usize,
    pub(crate) life: u32,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) fleet: usize,
    pub(crate) address: Address,
    /// Its random choices, which do not depend on other workers.
    pub(crate) dice: Rng,
    /// Calls that it may still make; `None` if they are not counted.
    pub(crate) calls_left: Option<u32>,
    pub(crate) stage: Stage,
    /// The last permit that it asked for.
    pub(crate) ask: AskNumber,
    wanted: Option<WantedCall>,
    pub(crate) grant: Option<Grant>,
    pub(crate) sent: Time,
    pub(crate) session: Option<Box<Session>>,
    /// The last wake-up planned for its session.
    pub(crate) wakes: Option<Time>,
    pub(crate) to_scheduler: Way,
    pub(crate) from_scheduler: Way,
    pub(crate) labels: Labels<'static>,
}

#[derive(Clone, Debug)]
pub(crate) struct WantedCall {
    pub(crate) since: Time,
    pub(crate) price: Arc<Price>,
    /// How often the call was made and refused.
    pub(crate) attempts: u32,
    /// The accounts whose credentials the upstream has refused.
    pub(crate) not: Vec<Name>,
    /// The account that makes the call, once it is permitted, counted through the resource's.
    pub(crate) account: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It pauses after a response, or has nothing to do.
    Idle,
    /// It waits for a permit.
    Waiting,
    /// It has a permit and waits for its start.
    Permitted,
    /// It has made its call.
    Calling,
    /// It pauses after a 429.
    Pausing,
    /// It is dead and will start again.
    Dead,
    /// It has stopped for good.
    Gone,
}

impl Worker {
    pub(crate) fn new(
        fleet: usize,
        number: usize,
        config: &Fleet,
        labels: Labels<'static>,
        network: &Network,
        dice: Rng,
    ) -> Self {
        Worker {
            fleet,
            address: Address { worker: number, life: 0 },
            dice,
            calls_left: config.calls,
            stage: Stage::Idle,
            ask: AskNumber(0),
            wanted: None,
            grant: None,
            sent: Time::ORIGIN,
            session: None,
            wakes: None,
            to_scheduler: Way::new(network.request),
            from_scheduler: Way::new(network.grant),
            labels,
        }
    }

    pub(crate) fn wait(&mut self, wanted: WantedCall) {
        self.ask = AskNumber(self.ask.0 + 1);
        self.wanted = Some(wanted);
        self.stage = Stage::Waiting;
    }

    pub(crate) fn pause(&mut self, wanted: WantedCall) {
        self.wanted = Some(wanted);
        self.stage = Stage::Pausing;
    }

    /// Excludes no account any more, and returns whether it has excluded some.
    pub(crate) fn include_all(&mut self) -> bool {
        let excluded = self.wanted.as_mut().map(|wanted| std::mem::take(&mut wanted.not));
        excluded.is_some_and(|excluded| !excluded.is_empty())
    }

    /// Moves from one stage of a call to the next, and returns the call; `None` at another stage.
    pub(crate) fn advance(&mut self, ask: AskNumber, from: Stage, to: Stage) -> Option<WantedCall> {
        if (self.ask, self.stage) != (ask, from) {
            return None;
        }
        self.stage = to;
        self.wanted.clone()
    }

    pub(crate) fn ask(&mut self, now: Time, fleet: &Fleet, mode: Mode, price: &Price) {
        let request = PermitRequest {
            cost: Clone::clone(&price.cost),
            class: fleet.class.clone().map(Text::from),
            labels: self.labels.clone(),
            not: self.wanted.iter().flat_map(|wanted| wanted.not.clone()).collect(),
            mode,
            ..PermitRequest::default()
        };
        let (ask, resource, request, deadline) = (self.ask, RESOURCE, Box::new(request), Time::NEVER);
        self.handle(now, Event::Asked { ask, resource, request, deadline });
    }

    pub(crate) fn late(&self) -> Option<Span> {
        let grant = self.grant.as_ref()?;
        Some(grant.late? + self.sent.since(grant.start))
    }

    /// If the freeze voids its permit, returns it. The session asks at once for another of the same age.
    pub(crate) fn return_if_void(&mut self, now: Time, freeze: Freeze) {
        let held = self.grant.take_if(|grant| self.stage == Stage::Permitted && grant.is_voided_by(&freeze));
        let Some(Grant { mut request, since, .. }) = held else { return };
        let Some(id) = request.id.take() else { return };
        self.handle(now, Event::Settled { resource: RESOURCE, settle: Box::new(Settle::unused(id)) });
        (self.ask, self.stage) = (AskNumber(self.ask.0 + 1), Stage::Waiting);
        request.age_ms = Millis::from(now.since(since));
        self.handle(now, Event::Asked { ask: self.ask, resource: RESOURCE, request, deadline: Time::NEVER });
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event<'_>) {
        if let Some(session) = &mut self.session {
            session.handle(now, event);
        }
    }

    pub(crate) fn id(&mut self) -> Option<PermitId> {
        self.session.as_mut().map(|session| session.id(self.ask))
    }

    pub(crate) fn has_more(&self) -> bool {
        self.calls_left != Some(0)
    }

    pub(crate) fn is_free(&self) -> bool {
        self.stage == Stage::Idle && self.has_more()
    }

    /// The call that it makes or waits to make.
    pub(crate) fn unfinished(&self) -> Option<&WantedCall> {
        match self.stage {
            Stage::Waiting | Stage::Permitted | Stage::Calling | Stage::Pausing => self.wanted.as_ref(),
            Stage::Idle | Stage::Dead | Stage::Gone => None,
        }
    }

    /// Loses all its state and gets the address of a new life. Returns the unfinished call.
    pub(crate) fn die(&mut self) -> Option<WantedCall> {
        let unfinished = self.unfinished().cloned();
        self.address.life += 1;
        self.stage = Stage::Dead;
        self.session = None;
        self.wakes = None;
        unfinished
    }
}

impl WantedCall {
    pub(crate) fn new(since: Time, price: Arc<Price>) -> Self {
        WantedCall { since, price, attempts: 0, not: Vec::new(), account: None }
    }

    pub(crate) fn wait(&self, now: Time) -> Span {
        now.since(self.since)
    }
}
