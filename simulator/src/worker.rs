//! One worker.

use crate::dice::Dice;
use crate::fleet::Fleet;
use crate::network::{Network, Way};
use crate::price::Price;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::{AskNumber, Event, Freeze, Grant, ResourceNumber, Session};
use std::sync::Arc;

/// The one resource of a session.
pub(crate) const RESOURCE: ResourceNumber = ResourceNumber(0);

/// A worker in one of its lives: what is meant for an earlier one reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) worker: usize,
    pub(crate) life: u32,
}

/// One worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) fleet: usize,
    pub(crate) address: Address,
    /// What it does by chance: the same whatever others do.
    pub(crate) dice: Dice,
    /// Calls it may still make; `None` if it is not to count them.
    pub(crate) calls_left: Option<u32>,
    pub(crate) stage: Stage,
    /// The last permit that it asked for.
    pub(crate) ask: AskNumber,
    wish: Option<Wish>,
    /// The permit that it holds, where a scheduler gave it one.
    grant: Option<Grant>,
    /// Its end of the protocol, where it asks a scheduler.
    pub(crate) session: Option<Box<Session>>,
    /// When its session was last said to wake.
    pub(crate) wakes: Option<Time>,
    /// To the scheduler.
    pub(crate) there: Way,
    /// From the scheduler.
    pub(crate) back: Way,
    pub(crate) labels: Labels<'static>,
}

/// A call that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Since when.
    pub(crate) since: Time,
    pub(crate) price: Arc<Price>,
    /// How often it was made and answered with 429.
    pub(crate) attempts: u32,
}

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It thinks, or nothing is to be done.
    Idle,
    /// It waits for a permit.
    Waiting,
    /// It has a permit, and makes its call when the time has come.
    Permitted,
    /// It has made its call.
    Calling,
    /// It pauses after a 429.
    Pausing,
    /// It is dead for a while.
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
        dice: Dice,
    ) -> Self {
        Worker {
            fleet,
            address: Address { worker: number, life: 0 },
            dice,
            calls_left: config.calls,
            stage: Stage::Idle,
            ask: AskNumber(0),
            wish: None,
            grant: None,
            session: None,
            wakes: None,
            there: Way::new(network.request),
            back: Way::new(network.grant),
            labels,
        }
    }

    /// Begins to wait for what it wishes.
    pub(crate) fn wait(&mut self, wish: Wish) {
        self.ask = AskNumber(self.ask.0 + 1);
        self.wish = Some(wish);
        self.stage = Stage::Waiting;
    }

    /// Pauses, to wish for the same again.
    pub(crate) fn pause(&mut self, wish: Wish) {
        self.wish = Some(wish);
        self.stage = Stage::Pausing;
    }

    /// Goes from one stage of a call to the next, and says what the call is for; nothing if it is
    /// at something else.
    pub(crate) fn advance(&mut self, ask: AskNumber, from: Stage, to: Stage) -> Option<Wish> {
        if (self.ask, self.stage) != (ask, from) {
            return None;
        }
        self.stage = to;
        self.wish.clone()
    }

    /// Has its session ask for a permit.
    pub(crate) fn ask(&mut self, now: Time, fleet: &Fleet, mode: Mode, price: &Price) {
        let request = PermitRequest {
            cost: Clone::clone(&price.cost),
            class: fleet.class.clone().map(Text::from),
            labels: self.labels.clone(),
            mode,
            ..PermitRequest::default()
        };
        let (ask, resource, request, deadline) = (self.ask, RESOURCE, Box::new(request), Time::NEVER);
        self.tell(now, Event::Asked { ask, resource, request, deadline });
    }

    /// Keeps a permit until its start.
    pub(crate) fn hold(&mut self, grant: Grant) {
        self.grant = Some(grant);
    }

    /// Gives its permit back and asks for another as old as that, if the freeze makes it void. When
    /// it is asked for anew, which is right away, it is waited for as before.
    pub(crate) fn heed(&mut self, now: Time, freeze: Freeze) {
        let held = self.grant.take_if(|grant| self.stage == Stage::Permitted && grant.is_voided_by(freeze));
        let Some(Grant { mut request, since, .. }) = held else { return };
        let Some(id) = request.id.take() else { return };
        self.tell(now, Event::Settled { resource: RESOURCE, settle: Settle::unused(id) });
        (self.ask, self.stage) = (AskNumber(self.ask.0 + 1), Stage::Waiting);
        request.age_ms = Millis::from(now.since(since));
        self.tell(now, Event::Asked { ask: self.ask, resource: RESOURCE, request, deadline: Time::NEVER });
    }

    /// Tells its session something, where it has one.
    pub(crate) fn tell(&mut self, now: Time, event: Event<'_>) {
        if let Some(session) = &mut self.session {
            session.handle(now, event);
        }
    }

    /// The name of its permit.
    pub(crate) fn id(&mut self) -> Option<PermitId> {
        self.session.as_mut().map(|session| session.id(self.ask))
    }

    /// Whether it has another call to make.
    pub(crate) fn has_more(&self) -> bool {
        self.calls_left != Some(0)
    }

    /// Whether nothing keeps it from work that comes.
    pub(crate) fn is_free(&self) -> bool {
        self.stage == Stage::Idle && self.has_more()
    }

    /// What it is at, or waits to be at.
    pub(crate) fn unfinished(&self) -> Option<&Wish> {
        match self.stage {
            Stage::Waiting | Stage::Permitted | Stage::Calling | Stage::Pausing => self.wish.as_ref(),
            Stage::Idle | Stage::Dead | Stage::Gone => None,
        }
    }

    /// Forgets everything, and lives on under another address. Says what it was at.
    pub(crate) fn die(&mut self) -> Option<Wish> {
        let unfinished = self.unfinished().cloned();
        self.address.life += 1;
        self.stage = Stage::Dead;
        self.session = None;
        self.wakes = None;
        unfinished
    }
}

impl Wish {
    /// From when it came up.
    pub(crate) fn wait(&self, now: Time) -> Span {
        now.since(self.since)
    }
}
