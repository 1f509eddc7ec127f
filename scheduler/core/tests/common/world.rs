//! A scheduler and its answers.

use super::amount;
use rampmeter_policy::ids::AccountId;
use rampmeter_policy::observation::Observation;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::spec::ResourceSpec;
use rampmeter_policy::{Bill, BucketName, Call, Resource};
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::{Mode, PermitRequest, Way};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::command::{Command, FreezeNotice, Note};
use rampmeter_scheduler_core::durability::checkpoint::Checkpoint;
use rampmeter_scheduler_core::durability::snapshot::Snapshot;
use rampmeter_scheduler_core::event::{Ask, Event, Outcome, Settle};
use rampmeter_scheduler_core::identity::Identity;
use rampmeter_scheduler_core::scheduler::Scheduler;
use std::collections::BTreeMap;

/// A scheduler and its answers, by the number of the request.
pub(crate) struct World {
    pub(crate) scheduler: Scheduler<usize>,
    pub(crate) asked: usize,
    pub(crate) answers: Vec<(Time, usize, SentAnswer)>,
    pub(crate) notes: Vec<Note>,
    /// The buckets of starts ahead, by the number of the request.
    pub(crate) charged: BTreeMap<usize, Vec<BucketName>>,
    /// The accounts that make calls, by the number of the request.
    pub(crate) accounts: BTreeMap<usize, Name>,
    /// The ways in which calls are made that are not made as described.
    pub(crate) chosen_ways: BTreeMap<usize, u8>,
}

/// The address of answers to settles.
pub(crate) const SETTLER: usize = usize::MAX;
/// The address of announcements.
pub(crate) const BROADCAST: usize = usize::MAX - 1;
/// The address of answers that are dropped.
pub(crate) const NOBODY: usize = usize::MAX - 2;

/// An answer as a test reads it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SentAnswer {
    /// Start after this long.
    Granted(Span),
    Queued(u64, Span),
    Refused(Refusal),
    Settled,
    Extended,
    /// Starts within this time are void.
    Frozen(Vec<BucketName>, Span),
}

/// A request in a test.
#[derive(Clone, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) cost: Vec<(&'a str, f64)>,
    pub(crate) class: Option<&'a str>,
    pub(crate) mode: Mode,
    pub(crate) max_wait: Option<Span>,
    pub(crate) age: Span,
    pub(crate) progress: bool,
    pub(crate) client: Option<&'a str>,
    pub(crate) labels: Vec<(&'a str, &'a str)>,
    /// The sender; unknown by default.
    pub(crate) from: Option<&'a str>,
    /// The NATS user; empty by default, which is unknown.
    pub(crate) user: &'a str,
    /// The accounts that may not make the call.
    pub(crate) not: Vec<Name>,
    /// How long it is worth waiting for, and other ways to make the call.
    pub(crate) worth: Span,
    pub(crate) ways: Vec<Way<'static>>,
}

pub(crate) fn wish<'a>(mode: Mode, cost: &[(&'a str, f64)]) -> Wish<'a> {
    let (cost, labels, age) = (cost.to_vec(), Vec::new(), Span::ZERO);
    let (class, max_wait, client, from) = (None, None, None, None);
    Wish {
        id: None,
        cost,
        class,
        mode,
        max_wait,
        age,
        progress: false,
        client,
        labels,
        from,
        user: "",
        not: Vec::new(),
        worth: Span::ZERO,
        ways: Vec::new(),
    }
}

impl<'a> Wish<'a> {
    pub(crate) fn labelled(mut self, label: &'a str, value: &'a str) -> Self {
        self.labels.push((label, value));
        self
    }

    pub(crate) fn named(self, id: &'a str) -> Self {
        Wish { id: Some(id), ..self }
    }

    fn call(&self, cost: &Cost<'_>) -> Call {
        Call::new(&self.labels(), cost).not_by(self.not.clone()).or(self.worth, &self.ways)
    }

    fn labels(&self) -> Labels<'a> {
        let mut labels = Labels::new();
        self.labels.iter().for_each(|(label, value)| labels.set(*label, *value).unwrap());
        labels
    }

    fn identity(&self, cost: &Cost<'_>) -> Identity {
        if self.from.is_none() && self.user.is_empty() {
            return Identity::default();
        }
        let request = PermitRequest {
            from: self.from.map(Into::into),
            class: self.class.map(Into::into),
            cost: cost.clone(),
            labels: self.labels(),
            ..PermitRequest::default()
        };
        Identity::of(self.user, &request)
    }

    pub(crate) fn of_class(self, class: &'a str) -> Self {
        Wish { class: Some(class), ..self }
    }
}

impl World {
    pub(crate) fn new(spec: &ResourceSpec) -> Self {
        World::of(Scheduler::new(Resource::new(spec).unwrap(), Epoch::FIRST, Time::ORIGIN))
    }

    /// A scheduler with a store, which holds no checkpoint yet.
    pub(crate) fn fenced(spec: &ResourceSpec, now: Time) -> Self {
        World::of(Scheduler::new(Resource::new(spec).unwrap(), Epoch::FIRST, now).fenced())
    }

    /// A successor at `now` with a snapshot that was taken at `then`.
    pub(crate) fn restored(spec: &ResourceSpec, now: Time, then: Time, snapshot: &Snapshot) -> Self {
        World::of(Scheduler::restore(Resource::new(spec).unwrap(), Epoch::new(2), now, then, snapshot))
    }

    pub(crate) fn of(scheduler: Scheduler<usize>) -> Self {
        World {
            scheduler,
            asked: 0,
            answers: Vec::new(),
            notes: Vec::new(),
            charged: BTreeMap::new(),
            accounts: BTreeMap::new(),
            chosen_ways: BTreeMap::new(),
        }
    }

    /// Takes a checkpoint, and stores it.
    pub(crate) fn checkpointed(&mut self, now: Time) -> Checkpoint {
        let checkpoint = self.scheduler.checkpoint(now).unwrap();
        self.handle(now, Event::CheckpointStored(checkpoint.number));
        checkpoint
    }

    /// Asks and returns the number of the request.
    pub(crate) fn ask(&mut self, now: Time, wish: &Wish<'_>) -> usize {
        let to = self.asked;
        self.asked += 1;
        let resource = self.scheduler.resource();
        let class = wish.class.map_or(resource.default_class(), |class| resource.class(class).unwrap());
        let mut by_unit = Cost::new();
        wish.cost.iter().for_each(|(unit, units)| by_unit.set(*unit, amount(*units)).unwrap());
        let call = Some(Box::new(wish.call(&by_unit)));
        let bill = match self.bill(wish) {
            Ok(bill) => bill,
            Err(refusal) => {
                self.answers.push((now, to, SentAnswer::Refused(refusal)));
                return to;
            }
        };
        let id = wish.id.map_or(PermitId::secret(u128::from(self.scheduler.epoch().get()) << 64 | to as u128), |id| {
            PermitId::new(id).unwrap()
        });
        let identity = wish.identity(&by_unit);
        let client = wish.client.map(Into::into);
        let Wish { mode, max_wait, age, progress, .. } = *wish;
        self.handle(
            now,
            Event::Ask(Ask {
                to,
                id,
                identity,
                bill,
                class,
                mode,
                max_wait,
                age,
                progress,
                client,
                counted_for: None,
                call,
            }),
        );
        to
    }

    /// The bill of the call that `wish` asks for.
    pub(crate) fn bill(&self, wish: &Wish<'_>) -> Result<Bill, Refusal> {
        let mut cost = Cost::new();
        wish.cost.iter().for_each(|(unit, units)| cost.set(*unit, amount(*units)).unwrap());
        let resource = self.scheduler.resource();
        let class = wish.class.map_or(resource.default_class(), |class| resource.class(class).unwrap());
        resource.bill_of_ways(&wish.call(&cost), class)
    }

    pub(crate) fn settle(&mut self, now: Time, id: &str, outcome: Outcome) -> SentAnswer {
        self.settle_with(now, id, outcome, None, None)
    }

    /// Settles a call, and tells what it was asked for.
    pub(crate) fn settle_call(&mut self, now: Time, id: &str, outcome: Outcome, call: Bill) -> SentAnswer {
        self.settle_with(now, id, outcome, None, Some(Box::new(call)))
    }

    /// Settles a call at its estimate, with the upstream's response.
    pub(crate) fn settle_answered(&mut self, now: Time, id: &str, answer: Observation) -> SentAnswer {
        self.settle_with(now, id, Outcome::Used(Vec::new()), Some(answer), None)
    }

    fn settle_with(
        &mut self,
        now: Time,
        id: &str,
        outcome: Outcome,
        observation: Option<Observation>,
        call: Option<Box<Bill>>,
    ) -> SentAnswer {
        let (to, id) = (Some(SETTLER), PermitId::new(id).unwrap());
        self.handle(now, Event::Settle(Settle { to, id, outcome, observation, is_throttled: false, call }));
        self.last_answer(SETTLER).expect("a settle is answered at once")
    }

    /// Lets time pass, with every requested wake-up.
    pub(crate) fn run_until(&mut self, end: Time) {
        while let Some(wakeup) = self.scheduler.next_wakeup()
            && wakeup.at <= end
        {
            self.handle(wakeup.at, Event::Wake);
        }
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event<usize>) {
        self.scheduler.handle(now, event);
        while let Some(command) = self.scheduler.poll_command() {
            self.note(now, command);
        }
    }

    /// Notes a command at `now`.
    pub(crate) fn note(&mut self, now: Time, command: Command<usize>) {
        let (to, answer) = match command {
            Command::Grant(grant) => {
                let account =
                    |account: AccountId| self.scheduler.resource().spec().accounts[account.index()].name.clone();
                self.accounts.extend(grant.account.map(|chosen| (grant.to, account(chosen))));
                self.chosen_ways.extend((grant.way > 0).then_some((grant.to, grant.way)));
                self.charged.extend(Some((grant.to, grant.charged)).filter(|(_, charged)| !charged.is_empty()));
                (grant.to, SentAnswer::Granted(grant.delay))
            }
            Command::Queued { to, position, eta, .. } => (to, SentAnswer::Queued(position, eta)),
            Command::Refuse { to, refusal, .. } => (to, SentAnswer::Refused(refusal)),
            Command::RefuseSettle { to, refusal, .. } => (to.unwrap_or(NOBODY), SentAnswer::Refused(refusal)),
            Command::Settled { to, extended, .. } => {
                (to, if extended { SentAnswer::Extended } else { SentAnswer::Settled })
            }
            Command::Announce(FreezeNotice { buckets, span }) => (BROADCAST, SentAnswer::Frozen(buckets, span)),
            Command::Note(note) => return self.notes.push(note),
        };
        self.answers.push((now, to, answer));
    }

    /// The last answer to a request.
    pub(crate) fn last_answer(&self, request: usize) -> Option<SentAnswer> {
        self.answers.iter().rev().find(|(_, to, _)| *to == request).map(|(_, _, answer)| answer.clone())
    }

    /// The start that a request was granted.
    pub(crate) fn start(&self, request: usize) -> Option<Time> {
        self.answers.iter().filter(|(_, to, _)| *to == request).find_map(|(at, _, answer)| match answer {
            SentAnswer::Granted(delay) => Some(*at + *delay),
            SentAnswer::Queued(..)
            | SentAnswer::Refused(_)
            | SentAnswer::Settled
            | SentAnswer::Extended
            | SentAnswer::Frozen(..) => None,
        })
    }

    /// The level of the first limit in millionths, with all promises paid.
    pub(crate) fn level_micros(&mut self, now: Time) -> i128 {
        self.scheduler.snapshot(now, 0).levels[0].micros.into()
    }
}
