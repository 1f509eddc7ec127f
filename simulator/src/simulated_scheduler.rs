//! The real core behind the real protocol, with a record of its requests and grants.

use crate::incident::{FAILOVER, Incident};
use crate::outcome::{Granted, Levels, Request};
use crate::simulated_store::{SimulatedStore, StoredState};
use crate::workers::worker::Address;
use rampmeter_dialects::Reader;
use rampmeter_discovery::Discovery;
use rampmeter_policy::ids::{AccountId, ClassId};
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Limit, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::Incoming;
use rampmeter_protocol::news::News;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::{Fate, Settle};
use rampmeter_protocol::status::Rejections;
use rampmeter_protocol::time::{NANOS_PER_MILLI, Time};
use rampmeter_scheduler_core::command::Command;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::scheduler::Scheduler;
use rampmeter_scheduler_core::wire;
use rampmeter_worker_session::BatchNumber;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) to: Address,
    pub(crate) batch: BatchNumber,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) to: ReplyTo,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct SimulatedScheduler {
    leader: Leader,
    cut_off: Option<(Leader, Time)>,
    reader: Reader,
    pub(crate) answers: Vec<Answer>,
    pub(crate) news: Vec<Vec<u8>>,
    known: BTreeMap<PermitId, usize>,
    requests: Vec<Request>,
    grants: Vec<usize>,
    now: Time,
}

struct Leader {
    core: Scheduler<ReplyTo>,
    discovery: Discovery,
    /// The store, if the scheduler has one and reaches it.
    store: Option<SimulatedStore>,
    /// No message reaches it before.
    down_until: Time,
}

impl SimulatedScheduler {
    pub(crate) fn new(resource: Resource, reader: Reader, is_fenced: bool) -> Self {
        let discovery = Discovery::begin(&resource, Time::ORIGIN, &[]);
        let core = Scheduler::new(discovery.extended(resource), Epoch::FIRST, Time::ORIGIN);
        let leader = Leader {
            discovery,
            core: if is_fenced { core.fenced() } else { core },
            store: is_fenced.then(SimulatedStore::default),
            down_until: Time::ORIGIN,
        };
        SimulatedScheduler {
            leader,
            cut_off: None,
            now: Time::ORIGIN,
            reader,
            answers: Vec::new(),
            news: Vec::new(),
            known: BTreeMap::new(),
            requests: Vec::new(),
            grants: Vec::new(),
        }
    }

    pub(crate) fn next_wakeup(&self) -> Time {
        let of_cut_off = self.cut_off.as_ref().map_or(Time::NEVER, |(leader, until)| leader.next_wakeup().min(*until));
        self.leader.next_wakeup().min(of_cut_off).max(self.now)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.leader.core.waiting() + self.cut_off.as_ref().map_or(0, |(leader, _)| leader.core.waiting())
    }

    /// Returns the index of the request with this id, if it has arrived.
    pub(crate) fn request(&self, id: &PermitId) -> Option<usize> {
        self.known.get(id).copied()
    }

    pub(crate) fn causes(&self) -> Rejections {
        self.leader.core.counters().rejections
    }

    /// Returns all requests, and the indexes of the granted ones in the order of the grants.
    pub(crate) fn into_record(self) -> (Vec<Request>, Vec<usize>) {
        (self.requests, self.grants)
    }

    pub(crate) fn wake(&mut self, now: Time) {
        match &self.cut_off {
            Some((_, until)) if *until <= now => {
                self.cut_off = None;
                return self.announce();
            }
            Some((leader, _)) if leader.next_wakeup() <= now => {
                return self.as_cut_off(|cut_off| cut_off.handle(now, Event::Wake));
            }
            Some(_) | None => {}
        }
        if self.leader.next_wakeup() > now {
            return;
        }
        if let Some(written) = self.leader.store.as_mut().and_then(|store| store.take_written(now)) {
            return self.handle(now, Event::CheckpointStored(written));
        }
        let due = self.leader.core.next_checkpoint();
        if let Some(store) = self.leader.store.as_mut().filter(|store| store.next(due).is_some_and(|due| due <= now)) {
            return store.write(now, self.leader.core.checkpoint(now), self.leader.discovery.snapshot(now));
        }
        self.handle(now, Event::Wake);
    }

    pub(crate) fn meet(&mut self, now: Time, incident: &Incident) {
        match incident {
            Incident::Limits(spec) => {
                let resource = Resource::new(spec).expect("a world's limits are valid");
                self.handle(now.max(self.leader.down_until), Event::Limits(Box::new(resource)));
            }
            Incident::Drain(account, span) => {
                let limits = self.leader.core.resource().limits_of_account(account).unwrap_or_default();
                self.handle(now.max(self.leader.down_until), Event::Freeze { limits, span: *span });
            }
            Incident::StoreSilent(span) => {
                self.leader.store.iter_mut().for_each(|store| store.fall_silent(now, *span));
            }
            Incident::HandOver | Incident::Crash | Incident::CutOff(_) if now < self.leader.down_until => {}
            Incident::HandOver => self.hand_over(now),
            Incident::Crash => {
                self.fail_over(now, self.cut_off.is_none());
                self.announce();
            }
            Incident::CutOff(_) if self.cut_off.is_some() => {}
            Incident::CutOff(span) => {
                let cut_off = self.fail_over(now, false);
                self.cut_off = Some((cut_off, now + *span));
            }
        }
    }

    fn as_cut_off(&mut self, act: impl FnOnce(&mut Self)) {
        let (other, until) = self.cut_off.take().expect("a leader is cut off");
        let present = std::mem::replace(&mut self.leader, other);
        act(self);
        let other = std::mem::replace(&mut self.leader, present);
        self.cut_off = Some((other, until));
    }

    /// Returns whether a worker reaches the leader that is cut off, as half of them do.
    fn reaches_cut_off(&self, worker: usize) -> bool {
        self.cut_off.is_some() && worker.is_multiple_of(2)
    }

    fn hand_over(&mut self, now: Time) {
        self.handle(now, Event::HandOver);
        while self.leader.core.waiting() > 0 {
            self.handle(now, Event::Wake);
        }
        let Leader { core, discovery, store, .. } = &mut self.leader;
        let state = StoredState { state: core.snapshot(now, usize::MAX), discovered: discovery.snapshot(now) };
        store.iter_mut().for_each(|store| store.end_term(now, state.clone()));
        self.succeed(now, now, &state);
        self.announce();
    }

    /// Lets another scheduler take over, and returns the previous one. Waiting requests are to be asked again. A
    /// write in progress arrives at even milliseconds. `is_gone` means that no former leader is left.
    fn fail_over(&mut self, now: Time, is_gone: bool) -> Leader {
        let waiting = self.requests.iter_mut().filter(|request| request.granted.is_none());
        waiting.for_each(|request| _ = request.returned.get_or_insert(now));
        let is_written = (now.nanos() / NANOS_PER_MILLI).is_multiple_of(2);
        let last = self.leader.store.as_mut().and_then(|store| store.last(is_written));
        // Nothing was granted before the first write.
        let (then, state) = last.unwrap_or((now + FAILOVER, StoredState::default()));
        let before = self.succeed(now + FAILOVER, then, &state);
        if is_gone {
            self.leader.core.lead_alone();
        }
        before
    }

    fn succeed(&mut self, now: Time, then: Time, known: &StoredState) -> Leader {
        let Leader { core, discovery, store, .. } = &mut self.leader;
        let written = discovery.written(core.resource()).clone();
        let discovery = Discovery::begin(&written, now, &known.discovered);
        let core = Scheduler::restore(discovery.extended(written), core.epoch().next(), now, then, &known.state);
        let store = store.take();
        let core = if store.is_some() { core.fenced() } else { core };
        std::mem::replace(&mut self.leader, Leader { core, discovery, store, down_until: now })
    }

    fn announce(&mut self) {
        let leader = News::Leader { epoch: self.leader.core.epoch(), leader: "successor".to_owned() };
        self.news.push(serde_json::to_vec(&leader).expect("news are plain data"));
    }

    pub(crate) fn take_requests(&mut self, now: Time, to: ReplyTo, payload: &[u8]) {
        match self.reaches_cut_off(to.to.worker) {
            true => self.as_cut_off(|cut_off| cut_off.receive_requests(now, to, payload)),
            false => self.receive_requests(now, to, payload),
        }
    }

    fn receive_requests(&mut self, now: Time, to: ReplyTo, payload: &[u8]) {
        if now < self.leader.down_until {
            return;
        }
        each(Incoming::parse(payload), |request: PermitRequest<'_>| {
            let Some(id) = request.id.clone() else { unreachable!("sessions name their permits") };
            match wire::ask(self.leader.core.resource(), to, "", id, &request, None) {
                Ok(ask) => {
                    self.record(now, to, ask.class, &request);
                    self.handle(now, Event::Ask(ask));
                }
                Err((to, refusal)) => self.answer(now, Command::Refuse { to, id: request.id, refusal }),
            }
        });
    }

    pub(crate) fn take_settles(&mut self, now: Time, payload: &[u8]) {
        each(Incoming::parse(payload), |settle: Settle<'_>| {
            let worker = self.request(&settle.id).map(|request| self.requests[request].worker);
            match worker.is_some_and(|worker| self.reaches_cut_off(worker)) {
                true => self.as_cut_off(|cut_off| cut_off.take_settle(now, &settle)),
                false => self.take_settle(now, &settle),
            }
        });
    }

    fn take_settle(&mut self, now: Time, settle: &Settle<'_>) {
        if now < self.leader.down_until {
            return;
        }
        if let Some(request) = self.request(&settle.id) {
            let request = &mut self.requests[request];
            match settle.fate {
                Fate::Unused => drop(request.returned.get_or_insert(now)),
                Fate::Used(_) => drop(request.settled.get_or_insert(now)),
                Fate::Extended => {}
            }
        }
        let observation = settle.response().map(|response| self.reader.read(response, unix_ms(now)).observation);
        let settle = wire::settle(&self.leader.core, None, settle, observation);
        self.handle(now, Event::Settle(settle));
    }

    /// Handles the upstream's levels by unit. It is unknown which of several limits of a unit a level belongs to.
    pub(crate) fn read_levels(&mut self, now: Time, asked: Time, levels: &Levels) {
        if now < self.leader.down_until {
            return;
        }
        let resource = self.leader.core.resource();
        let known = levels.micros.iter().filter_map(|(unit, micros)| {
            let mut counting = resource.limits().iter().map(Limit::spec).filter(|limit| *limit.unit == **unit);
            let (Some(only), None) = (counting.next(), counting.next()) else { return None };
            let limit = resource.limit(&only.name)?;
            Some((limit, Amount::from_micros(*micros).expect("an upstream's level is an amount")))
        });
        let levels = known.collect();
        self.handle(now, Event::Levels { asked, answered: now, levels });
    }

    fn handle(&mut self, now: Time, event: Event<ReplyTo>) {
        self.now = now;
        let Leader { core, discovery, .. } = &mut self.leader;
        discovery.handle(core, now, event);
        while let Some(command) = self.leader.core.poll_command() {
            self.answer(now, command);
        }
    }

    fn record(&mut self, now: Time, to: ReplyTo, class: ClassId, request: &PermitRequest<'_>) {
        let Some(id) = &request.id else { return };
        // A refused request is judged again.
        if self.request(id).is_some_and(|known| self.requests[known].spent.is_none()) {
            return;
        }
        self.known.insert(id.clone(), self.requests.len());
        self.requests.push(Request {
            worker: to.to.worker,
            class,
            not: request.not.clone(),
            cost: Arc::new(request.cost.clone().into_owned()),
            arrived: now,
            age: request.age_ms.span(),
            estimate: None,
            granted: None,
            returned: None,
            spent: None,
            settled: None,
        });
    }

    fn answer(&mut self, now: Time, command: Command<ReplyTo>) {
        self.note(now, &command);
        let (resource, epoch) = (self.leader.core.resource(), self.leader.core.epoch());
        if let Command::Announce(announcement) = &command {
            let news = wire::news(resource, epoch, announcement);
            self.news.push(serde_json::to_vec(&news).expect("news are plain data"));
        }
        wire::answer(resource, now, epoch, command, wire::Extras::default(), |to, answer| {
            let payload = serde_json::to_vec(answer).expect("answers are plain data");
            self.answers.push(Answer { to, payload });
        });
    }

    fn note(&mut self, now: Time, command: &Command<ReplyTo>) {
        match command {
            Command::Grant(grant) if !grant.repeated => {
                let Some(request) = self.request(&grant.id) else { return };
                let account = grant.account.map(AccountId::index);
                self.requests[request].granted = Some(Granted { at: now, start: now + grant.delay, account });
                self.grants.push(request);
            }
            Command::Queued { id, eta, .. } => {
                let Some(request) = self.request(id) else { return };
                self.requests[request].estimate.get_or_insert(*eta);
            }
            // A lapsed start stays charged until it is returned, and a settled call was made.
            Command::Refuse { refusal: Refusal::Lapsed | Refusal::AlreadySettled, .. } => {}
            Command::Refuse { id: Some(id), refusal, .. } => {
                let Some(request) = self.request(id) else { return };
                self.requests[request].returned.get_or_insert(now);
                if let Refusal::QuotaSpent { limit, .. } = refusal {
                    let limit = &self.leader.core.resource().limits()[limit.index()];
                    self.requests[request].spent = Some(limit.spec().name.clone());
                }
            }
            Command::Grant(_)
            | Command::Refuse { id: None, .. }
            | Command::RefuseSettle { .. }
            | Command::Settled { .. }
            | Command::Announce(_)
            | Command::Note(_) => {}
        }
    }
}

impl Leader {
    fn next_wakeup(&self) -> Time {
        let core = self.discovery.next_wakeup(&self.core).map_or(Time::NEVER, |wakeup| wakeup.at);
        let write = self.store.as_ref().and_then(|store| store.next(self.core.next_checkpoint()));
        core.min(write.unwrap_or(Time::NEVER)).max(self.down_until)
    }
}

/// The origin of time is the beginning of 1970.
fn unix_ms(now: Time) -> u64 {
    now.nanos() / NANOS_PER_MILLI
}

/// Handles every valid item of a message. Sessions write no other.
fn each<T>(incoming: Incoming<T>, mut take: impl FnMut(T)) {
    let all = match incoming {
        Incoming::One(one) => vec![one],
        Incoming::Many(all) => all,
    };
    all.into_iter().for_each(|one| take(one.expect("a session writes what the protocol reads")));
}
