//! A thousand waiting workers, each a client of its own, and schedulers that come and go.

use crate::prelude::*;

/// From a client to its scheduler, and back.
const ROUND_TRIP: Span = Span::from_millis(1);

/// The circumstances that a fleet's messages meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Weather {
    /// A scheduler that puts every request into its queue.
    Fair { epoch: Epoch },
    /// Servers without a scheduler behind them.
    NoScheduler,
    /// No server.
    Disconnected,
}

/// A message of requests that a client sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Time,
    pub(crate) by: usize,
    pub(crate) of: ResourceNumber,
    pub(crate) asks: Vec<u64>,
}

enum Happening {
    Answers(BatchNumber, Vec<Value>),
    Undelivered(BatchNumber),
}

/// Clients, and a record of what they sent.
pub(crate) struct Fleet {
    sessions: Vec<Session>,
    wakes: BTreeSet<(Time, usize)>,
    planned: Vec<Option<Time>>,
    agenda: BTreeMap<(Time, u64), (usize, Happening)>,
    happenings: u64,
    weather: Weather,
    sent: Vec<Sent>,
    granted: Vec<(Time, usize)>,
}

impl Fleet {
    pub(crate) fn new(clients: usize, weather: Weather) -> Self {
        let mut fleet = Fleet {
            sessions: (0..clients).map(|seed| Session::new(seed as u128)).collect(),
            wakes: BTreeSet::new(),
            planned: vec![None; clients],
            agenda: BTreeMap::new(),
            happenings: 0,
            weather,
            sent: Vec::new(),
            granted: Vec::new(),
        };
        (0..clients).for_each(|client| fleet.tell(Time::ORIGIN, client, Event::Connected));
        fleet
    }

    /// Sets what all clients do while no scheduler answers for the first resource.
    pub(crate) fn set_unreachable(&mut self, policy: Unreachable) {
        self.sessions.iter_mut().for_each(|session| session.set_unreachable(ResourceNumber(0), policy));
    }

    /// Makes one client ask for permits of one resource.
    pub(crate) fn ask(&mut self, now: Time, client: usize, of: ResourceNumber, asks: Range<u64>) {
        self.pass_until(now);
        for ask in asks {
            let request = Box::new(PermitRequest { mode: Mode::Wait, ..PermitRequest::default() });
            let (ask, resource, deadline) = (AskNumber(ask), of, Time::NEVER);
            self.sessions[client].handle(now, Event::Asked { ask, resource, request, deadline });
        }
        self.drain(now, client);
    }

    /// Changes the weather of all clients in one moment.
    pub(crate) fn change(&mut self, now: Time, weather: Weather) {
        self.pass_until(now);
        let before = std::mem::replace(&mut self.weather, weather);
        for client in 0..self.sessions.len() {
            match (before, weather) {
                (_, Weather::Disconnected) => self.tell(now, client, Event::Disconnected),
                (Weather::Disconnected, _) => self.tell(now, client, Event::Connected),
                (_, Weather::Fair { epoch }) => self.announce(now, client, epoch),
                (_, Weather::NoScheduler) => {}
            }
        }
    }

    /// Plays everything that is due until `now`.
    pub(crate) fn pass_until(&mut self, now: Time) {
        loop {
            let event = self.agenda.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
            let wake = self.wakes.first().map_or(Time::NEVER, |(at, _)| *at);
            if event.min(wake) > now {
                return;
            }
            if event <= wake {
                let ((at, _), (client, happening)) = self.agenda.pop_first().expect("there is one");
                self.happen(at, client, happening);
            } else {
                let (at, client) = self.wakes.pop_first().expect("there is one");
                self.planned[client] = None;
                self.drain(at, client);
            }
        }
    }

    /// The messages that were sent in that time.
    pub(crate) fn sent_in(&self, from: Time, until: Time) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.at >= from && sent.at < until)
    }

    /// The permits that clients granted themselves: the time and the client of each.
    pub(crate) fn granted(&self) -> &[(Time, usize)] {
        &self.granted
    }

    /// Has a new leader announce itself to all clients of the first resource.
    fn announce(&mut self, now: Time, client: usize, epoch: Epoch) {
        let news = json!({"event": "leader", "epoch": epoch, "leader": "x"}).to_string();
        self.tell(now, client, Event::News { resource: ResourceNumber(0), payload: news.as_bytes(), unix_ms: 0 });
    }

    fn happen(&mut self, now: Time, client: usize, happening: Happening) {
        match happening {
            Happening::Undelivered(batch) => self.tell(now, client, Event::Undelivered { batch }),
            Happening::Answers(batch, answers) => {
                let payload = Value::from(answers).to_string();
                self.tell(now, client, Event::Answered { batch, payload: payload.as_bytes() });
            }
        }
    }

    fn tell(&mut self, now: Time, client: usize, event: Event<'_>) {
        self.sessions[client].handle(now, event);
        self.drain(now, client);
    }

    fn drain(&mut self, now: Time, client: usize) {
        while let Some(command) = self.sessions[client].poll(now) {
            match command {
                Command::Ask { resource, batch, payload, .. } => self.carry(now, client, resource, batch, &payload),
                Command::Complete { result, .. } => {
                    assert!(result.is_ok_and(|grant| grant.is_local()), "no scheduler grants, no caller gives up");
                    self.granted.push((now, client));
                }
                Command::Settle { .. } => {}
                Command::Freeze { .. } => panic!("no freeze is announced"),
                Command::Renew { .. } | Command::Unrenewed { .. } => panic!("no call holds a place"),
                Command::Silent { .. } | Command::SilenceOver { .. } => panic!("it does not report silence"),
            }
        }
        let wakes = self.sessions[client].next_wakeup();
        if let Some(planned) = std::mem::replace(&mut self.planned[client], wakes) {
            self.wakes.remove(&(planned, client));
        }
        self.wakes.extend(wakes.map(|at| (at, client)));
    }

    fn carry(&mut self, now: Time, by: usize, of: ResourceNumber, batch: BatchNumber, payload: &[u8]) {
        let requests = elements(payload);
        let answer = match self.weather {
            Weather::Fair { epoch } => Happening::Answers(batch, requests.iter().map(|it| queued(it, epoch)).collect()),
            Weather::NoScheduler => Happening::Undelivered(batch),
            Weather::Disconnected => panic!("nothing is sent while disconnected"),
        };
        self.agenda.insert((now + ROUND_TRIP, self.happenings), (by, answer));
        self.happenings += 1;
        let number = |request: &Value| self.sessions[by].ask_of(request["id"].as_str()?).map(|ask| ask.0);
        let asks = requests.iter().map(|request| number(request).expect("an id of the session")).collect();
        self.sent.push(Sent { at: now, by, of, asks });
    }
}

fn queued(request: &Value, epoch: Epoch) -> Value {
    json!({"status": "queued", "id": request["id"], "position": 1, "eta_ms": 1, "epoch": epoch})
}

/// The most of `times` within one `span`, wherever the span begins.
pub(crate) fn peak(times: &[Time], span: Span) -> usize {
    let mut times = times.to_vec();
    times.sort_unstable();
    let within = |first: usize| times[first..].partition_point(|at| *at < times[first] + span);
    (0..times.len()).map(within).max().unwrap_or(0)
}
