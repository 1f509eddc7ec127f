//! One client, a scheduler that changes, and a network between them that loses, copies and
//! reorders. After any faults of a network that has healed, every ask has ended exactly once, and no
//! call was made with a permit that was given back.

use crate::prelude::*;
use proptest::prelude::*;

const RESOURCE: ResourceNumber = ResourceNumber(0);
/// Asks of one run, spread over the time of the chaos.
const ASKS: u64 = 60;
const CHAOS_ENDS: Time = Time::from_nanos(40_000_000_000);
/// The end of a run. After the chaos it leaves time for the longest silence that the session
/// tolerates, and for what follows.
const HEALED: Time = Time::from_nanos(120_000_000_000);

/// How bad the network is until [`CHAOS_ENDS`].
#[derive(Clone, Copy, Debug)]
struct Chaos {
    loss_percent: u64,
    copy_percent: u64,
    slowness_ms: u64,
}

/// A message on its way, or a planned event.
#[derive(Clone, Debug)]
enum Happening {
    Ask(u64),
    Cancel(u64),
    Requests(BatchNumber, Vec<u8>),
    Answer(BatchNumber, Value),
    NoScheduler(BatchNumber),
    Grant { batch: BatchNumber, id: String, epoch: Epoch },
    NewLeader,
    News(Value),
    Disconnect,
    Connect,
}

struct World {
    session: Session,
    chance: u64,
    chaos: Chaos,
    agenda: BTreeMap<(Time, u64), Happening>,
    happenings: u64,
    epoch: Epoch,
    /// What the present leader has in its queue.
    queue: BTreeSet<String>,
    granted: BTreeSet<u64>,
    /// Asks that ended without a scheduler: at their deadline, or by the client's policy for
    /// unreachable schedulers.
    given_up: BTreeSet<u64>,
    ended: BTreeMap<u64, u32>,
    cancelled: BTreeSet<u64>,
    given_back: BTreeSet<u64>,
    /// Grants that reached the client after its caller stopped waiting.
    unwanted: BTreeSet<u64>,
}

impl World {
    fn new(seed: u64, chaos: Chaos) -> Self {
        let mut world = World {
            session: Session::new(seed.into()),
            chance: seed | 1,
            chaos,
            agenda: BTreeMap::new(),
            happenings: 0,
            epoch: Epoch::FIRST,
            queue: BTreeSet::new(),
            granted: BTreeSet::new(),
            given_up: BTreeSet::new(),
            ended: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            given_back: BTreeSet::new(),
            unwanted: BTreeSet::new(),
        };
        let policy = world.policy();
        world.session.set_unreachable(RESOURCE, policy);
        world.plan();
        world
    }

    fn policy(&mut self) -> Unreachable {
        let after = Patience::new(Duration::from_millis(100 + self.up_to(5000))).expect("a patience");
        let rate = SafeRate::new(1, Duration::from_millis(1 + self.up_to(2000))).expect("a safe rate");
        [Unreachable::Wait, Unreachable::Fail { after }, Unreachable::SafeRate { after, rate }][self.up_to(2) as usize]
    }

    fn plan(&mut self) {
        let end = CHAOS_ENDS.nanos();
        self.at(Time::ORIGIN, Happening::Connect);
        for ask in 0..ASKS {
            let time = Time::from_nanos(self.up_to(end));
            self.at(time, Happening::Ask(ask));
            if self.percent(20) {
                let later = time + Span::from_millis(self.up_to(20_000));
                self.at(later, Happening::Cancel(ask));
            }
        }
        for _ in 0..self.up_to(4) {
            let time = Time::from_nanos(self.up_to(end));
            self.at(time, Happening::NewLeader);
        }
        for _ in 0..self.up_to(3) {
            let time = Time::from_nanos(self.up_to(end));
            self.at(time, Happening::Disconnect);
            let back = time + Span::from_millis(self.up_to(5000));
            self.at(back, Happening::Connect);
        }
        self.at(CHAOS_ENDS + Span::from_secs(5), Happening::Connect);
    }

    /// The loop: whichever comes first of the next event and the session's wake-up.
    fn run(&mut self) {
        loop {
            let next = self.agenda.first_key_value().map(|((time, _), _)| *time);
            let wakeup = self.session.next_wakeup();
            let Some(now) = next.into_iter().chain(wakeup).min().filter(|now| *now < HEALED) else { return };
            if next == Some(now) {
                let (_, happening) = self.agenda.pop_first().expect("there is a next one");
                self.happen(now, happening);
            }
            while let Some(command) = self.session.poll(now) {
                self.execute(now, command);
            }
        }
    }

    /// The rules, checked from outside.
    fn judge(&self) {
        for ask in 0..ASKS {
            let ends = self.ended.get(&ask).copied().unwrap_or(0);
            let cancelled = self.cancelled.contains(&ask);
            assert!(ends == 1 || (ends == 0 && cancelled), "ask {ask} ended {ends} times");
            let used = self.granted.contains(&ask) && !cancelled;
            assert!(!(used && self.given_back.contains(&ask)), "ask {ask} was used and given back");
        }
        let kept = self.unwanted.difference(&self.given_back).next();
        assert_eq!(kept, None, "a grant without a waiting caller was not given back");
        assert_eq!(self.session.next_wakeup(), None, "all asks have ended, but it still wants to wake up");
    }

    fn happen(&mut self, now: Time, happening: Happening) {
        match happening {
            Happening::Ask(ask) => self.ask(now, ask),
            Happening::Cancel(ask) => self.cancel(now, ask),
            Happening::Requests(batch, payload) => self.serve(now, batch, &payload),
            Happening::Grant { batch, id, epoch } => self.grant(now, batch, &id, epoch),
            Happening::Answer(batch, answer) => self.answer(now, batch, &answer),
            Happening::NoScheduler(batch) => self.session.handle(now, Event::Undelivered { batch }),
            Happening::NewLeader => self.change_leader(now),
            Happening::News(news) => {
                let payload = news.to_string();
                self.session.handle(now, Event::News { resource: RESOURCE, payload: payload.as_bytes(), unix_ms: 0 });
            }
            Happening::Disconnect => self.session.handle(now, Event::Disconnected),
            Happening::Connect => self.session.handle(now, Event::Connected),
        }
    }

    fn ask(&mut self, now: Time, ask: u64) {
        let mode = [Mode::Wait, Mode::Wait, Mode::Reserve, Mode::Allow][self.up_to(3) as usize];
        let request = Box::new(PermitRequest { mode, ..PermitRequest::default() });
        let deadline = if self.percent(30) { now + Span::from_millis(self.up_to(20_000)) } else { Time::NEVER };
        self.session.handle(now, Event::Asked { ask: AskNumber(ask), resource: RESOURCE, request, deadline });
    }

    /// Only a caller that still waits can cancel.
    fn cancel(&mut self, now: Time, ask: u64) {
        if !self.ended.contains_key(&ask) {
            self.cancelled.insert(ask);
            self.session.handle(now, Event::Cancelled { ask: AskNumber(ask), resource: RESOURCE });
        }
    }

    fn execute(&mut self, now: Time, command: Command) {
        match command {
            Command::Ask { batch, payload, .. } => self.travel(now, &Happening::Requests(batch, payload)),
            Command::Settle { batch, payload, .. } => {
                self.settle(&payload);
                self.session.handle(now, Event::Answered { batch, payload: b"" });
            }
            Command::Complete { ask, result } => {
                *self.ended.entry(ask.0).or_default() += 1;
                match result {
                    Ok(grant) if grant.is_local() => drop(self.given_up.insert(ask.0)),
                    Ok(_) => drop(self.granted.insert(ask.0)),
                    Err(Denial::TimedOut { .. } | Denial::Unreachable { .. }) => drop(self.given_up.insert(ask.0)),
                    Err(Denial::Refused(_) | Denial::TooManyAsks { .. } | Denial::Closed) => {}
                }
            }
            Command::Freeze { .. } => panic!("no freeze was announced"),
            Command::Renew { .. } | Command::Unrenewed { .. } => panic!("no call holds a place"),
            Command::Silent { .. } | Command::SilenceOver { .. } => panic!("it does not report silence"),
        }
    }

    /// The ask that a message is about.
    fn number(&self, message: &Value) -> u64 {
        let ask = message["id"].as_str().and_then(|id| self.session.ask_of(id));
        ask.expect("an id of the session").0
    }

    fn settle(&mut self, payload: &[u8]) {
        for settle in elements(payload) {
            let ask = self.number(&settle);
            self.given_back.insert(ask);
            assert_eq!(settle["used"], false);
        }
    }

    fn serve(&mut self, now: Time, batch: BatchNumber, payload: &[u8]) {
        if now < CHAOS_ENDS && self.percent(10) {
            return self.travel(now, &Happening::NoScheduler(batch));
        }
        for request in elements(payload) {
            let id = request["id"].as_str().expect("an id").to_owned();
            match request["mode"].as_str() {
                Some("wait") => self.enqueue(now, batch, id),
                Some("allow") if self.percent(50) => self.refuse(now, batch, &id, "not_in_time"),
                Some(_) if self.percent(10) => self.refuse(now, batch, &id, "unavailable"),
                Some(_) => self.grant_now(now, batch, &id),
                None => panic!("the session names its mode"),
            }
        }
    }

    fn enqueue(&mut self, now: Time, batch: BatchNumber, id: String) {
        if self.percent(5) {
            return self.refuse(now, batch, &id, "queue_full");
        }
        self.queue.insert(id.clone());
        let queued = json!({"status": "queued", "id": &id, "position": 1, "eta_ms": 1, "epoch": self.epoch});
        self.travel(now, &Happening::Answer(batch, queued));
        let turn = now + Span::from_millis(self.up_to(8000));
        let epoch = self.epoch;
        self.at(turn, Happening::Grant { batch, id, epoch });
    }

    /// Grants a request, unless its leader has gone and has taken the queue along.
    fn grant(&mut self, now: Time, batch: BatchNumber, id: &str, epoch: Epoch) {
        if epoch == self.epoch && self.queue.contains(id) {
            self.grant_now(now, batch, id);
        }
    }

    fn grant_now(&mut self, now: Time, batch: BatchNumber, id: &str) {
        let granted = json!({"status": "granted", "id": id, "delay_ms": 1, "epoch": self.epoch});
        self.travel(now, &Happening::Answer(batch, granted));
    }

    fn refuse(&mut self, now: Time, batch: BatchNumber, id: &str, code: &str) {
        let refused = json!({
            "status": "refused", "id": id, "code": code, "message": "", "retry_after_ms": 500, "epoch": self.epoch,
        });
        self.travel(now, &Happening::Answer(batch, refused));
    }

    fn change_leader(&mut self, now: Time) {
        self.epoch = self.epoch.next();
        self.queue.clear();
        let news = json!({"event": "leader", "epoch": self.epoch, "leader": "x"});
        self.travel(now, &Happening::News(news));
    }

    fn answer(&mut self, now: Time, batch: BatchNumber, answer: &Value) {
        let ask = self.number(answer);
        let given_up = self.cancelled.contains(&ask) || self.given_up.contains(&ask);
        if answer["status"] == "granted" && given_up {
            self.unwanted.insert(ask);
        }
        let payload = answer.to_string();
        self.session.handle(now, Event::Answered { batch, payload: payload.as_bytes() });
    }

    /// Sends something through the network: it arrives late, never, or twice.
    fn travel(&mut self, now: Time, happening: &Happening) {
        let chaos = now < CHAOS_ENDS;
        if chaos && self.percent(self.chaos.loss_percent) {
            return;
        }
        let copies = if chaos && self.percent(self.chaos.copy_percent) { 2 } else { 1 };
        for _ in 0..copies {
            let slowness = if chaos { self.up_to(self.chaos.slowness_ms) } else { 1 };
            self.at(now + Span::from_millis(slowness), happening.clone());
        }
    }

    fn at(&mut self, time: Time, happening: Happening) {
        self.agenda.insert((time, self.happenings), happening);
        self.happenings += 1;
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.up_to(99) < percent
    }

    fn up_to(&mut self, most: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 11) % (most + 1)
    }
}

/// The messages of a payload, which is one or an array of several.
pub(crate) fn elements(payload: &[u8]) -> Vec<Value> {
    let message: Value = serde_json::from_slice(payload).expect("the session writes JSON");
    let several = message.as_array().cloned();
    if let Some(several) = &several {
        assert!(several.len() > 1, "one alone travels without brackets");
    }
    several.unwrap_or_else(|| vec![message])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_ask_ends_exactly_once(seed: u64, loss in 0u64..60, copies in 0u64..40, slowness_ms in 0u64..8000) {
        let mut world = World::new(seed, Chaos { loss_percent: loss, copy_percent: copies, slowness_ms });
        world.run();
        world.judge();
    }
}
