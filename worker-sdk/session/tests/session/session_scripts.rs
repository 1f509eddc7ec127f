//! The session plays the scripts of all clients: `protocol/session-scripts/README.md` says how to
//! read them.
//!
//! What happens at one time is compared without its order, because settles and requests travel in
//! messages of their own.

use crate::prelude::*;
use std::path::{Path, PathBuf};

const FOLDER: &str = "../../protocol/session-scripts";
const RESOURCE: ResourceNumber = ResourceNumber(0);
/// When a script begins: requests may be older.
const ORIGIN: Time = Time::from_nanos(1_000_000_000_000);
/// A time that is shorter than the distance of any two times in a script.
const A_MOMENT: Span = Span::from_nanos(1_000);
/// How often a session is woken for settles that wait for the next message.
const MAX_WAKEUPS: usize = 20;

#[test]
fn the_session_plays_the_scripts_of_all_clients() {
    let scripts: Vec<PathBuf> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER))
        .expect("the folder of the scripts")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    let played = scripts.iter().filter(|script| play(script)).count();
    assert!(played >= scripts.len() - 2 && played > 15, "{played} of {} scripts were played", scripts.len());
}

/// Plays a script with several seeds: no rule depends on one. Returns whether the script is for
/// clients over NATS.
fn play(path: &Path) -> bool {
    let script: &'static str = std::fs::read_to_string(path).expect("a script").leak();
    let is_of_a_front = script.contains(" hangup") || script.contains("\"epoch\": 0");
    for seed in (0..20).filter(|_| !is_of_a_front) {
        let mut play = Play::new(seed, format!("{} with seed {seed}", path.display()));
        script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).for_each(|line| play.line(line));
        play.end();
    }
    !is_of_a_front
}

struct Play {
    name: String,
    session: Session,
    now: Time,
    /// The ids of the request, the first one first.
    ids: Vec<String>,
    asks: u64,
    batch: BatchNumber,
    /// A permit whose start is awaited, and when the caller goes on.
    grant: Option<Grant>,
    freezes: Freezes,
    /// What the script expects to happen next, and not before the first of these times.
    pause: Option<(Time, Time)>,
    done: Vec<String>,
    /// What is to be given back with the next message.
    owed: Vec<String>,
}

impl Play {
    fn new(seed: u128, name: String) -> Self {
        let mut session = Session::new(seed);
        session.handle(ORIGIN, Event::Connected);
        Play {
            name,
            session,
            now: ORIGIN,
            ids: Vec::new(),
            asks: 0,
            batch: BatchNumber(0),
            grant: None,
            freezes: Freezes::default(),
            pause: None,
            done: Vec::new(),
            owed: Vec::new(),
        }
    }

    fn line(&mut self, line: &'static str) {
        if let Some(effect) = line.strip_prefix("> ") {
            return self.expect(effect);
        }
        if let Some(effect) = line.strip_prefix(">? ") {
            self.take(effect);
            return;
        }
        self.is_quiet();
        let (at, event) = line.split_once(' ').expect("a time and an event");
        let at = millis(at);
        if event == "wake" {
            self.wait_until(at);
        }
        self.now = at;
        let (what, rest) = event.split_once(' ').unwrap_or((event, ""));
        self.happen(what, rest);
        self.drain();
    }

    /// The session does nothing before the pause may end, and asks to be woken before it must.
    fn wait_until(&mut self, end: Time) {
        let (from, to) = self.pause.take().expect("a wake-up ends a pause");
        assert!(to <= end, "{}: a pause is played to its end", self.name);
        let next = self.grant.as_ref().map(|grant| grant.start).or(self.session.next_wakeup());
        assert!(next.is_some_and(|next| next <= to), "{}: it wakes at {next:?}, not by {to}", self.name);
        let before = from - A_MOMENT;
        if before > self.now {
            self.now = before;
            self.drain();
            self.is_quiet();
        }
    }

    fn happen(&mut self, what: &str, rest: &'static str) {
        let (now, batch) = (self.now, self.batch);
        match what {
            "policy" => self.session.set_unreachable(RESOURCE, policy(&json(rest))),
            "ask" => self.ask(rest),
            "answer" => {
                let mut answer = json(rest);
                answer["id"] = self.ids.last().expect("a request was sent").as_str().into();
                let payload = answer.to_string();
                self.session.handle(now, Event::Answered { batch, payload: payload.as_bytes() });
            }
            "silence" => self.session.handle(now, Event::Undelivered { batch }),
            "freeze" => {
                let (length, buckets) = rest.split_once(' ').unwrap_or((rest, "[]"));
                let payload =
                    format!(r#"{{"event":"freeze","limits":[],"buckets":{buckets},"for_ms":{length},"epoch":1}}"#);
                self.session.handle(now, Event::News { resource: RESOURCE, payload: payload.as_bytes(), unix_ms: 1 });
            }
            "wake" => {
                self.drain();
                if let Some(grant) = self.grant.take() {
                    self.start(grant);
                }
            }
            other => panic!("{}: no such event: {other}", self.name),
        }
    }

    fn ask(&mut self, fields: &'static str) {
        let mut told = json(fields);
        let wait = told.as_object_mut().expect("fields").remove("max_wait_ms");
        let deadline = wait.map_or(Time::NEVER, |wait| self.now + span(wait.as_f64().expect("a number")));
        let mut request = Box::new(serde_json::from_str::<PermitRequest<'static>>(fields).expect("a request"));
        request.max_wait_ms = None;
        self.send(request, deadline);
    }

    fn send(&mut self, request: Box<PermitRequest<'static>>, deadline: Time) {
        let ask = AskNumber(self.asks);
        self.asks += 1;
        self.session.handle(self.now, Event::Asked { ask, resource: RESOURCE, request, deadline });
    }

    /// The start has come. A permit that is void by then goes back, and its caller asks at its age,
    /// as `Permit::ready` of the SDK does.
    fn start(&mut self, grant: Grant) {
        let is_void = self.freezes.void(&grant) || grant.lapses().is_some_and(|lapses| lapses <= self.now);
        if !is_void {
            let local = if grant.is_local() { " local" } else { "" };
            let account = grant.answer.account.as_ref().map_or(String::new(), |account| format!(" by {account}"));
            let way = grant.answer.way.map_or(String::new(), |way| format!(" in way {way}"));
            self.done.push(format!("granted {}{local}{account}{way}", grant.start.since(ORIGIN).millis()));
            if grant.answer.lease_ms.is_some() {
                self.done.push(format!("asked {}", serde_json::to_string(&grant.asked()).expect("JSON")));
            }
            return;
        }
        let mut request = grant.request;
        let id = request.id.take().expect("a permit that was waited for is a scheduler's");
        self.session.handle(self.now, Event::Settled { resource: RESOURCE, settle: Box::new(Settle::unused(id)) });
        request.age_ms = Millis::from(self.now.since(grant.since));
        self.send(request, Time::NEVER);
    }

    fn drain(&mut self) {
        while let Some(command) = self.session.poll(self.now) {
            self.note(command);
        }
    }

    fn note(&mut self, command: Command) {
        match command {
            Command::Ask { batch, payload, .. } => {
                self.batch = batch;
                for mut request in elements(&payload) {
                    let id = request.as_object_mut().and_then(|fields| fields.remove("id")).expect("an id");
                    let number = self.number(id.as_str().expect("an id is a text"));
                    self.done.push(format!("send {number} {request}"));
                }
            }
            Command::Settle { batch, payload, .. } => {
                self.session.handle(self.now, Event::Answered { batch, payload: b"" });
                for settle in elements(&payload) {
                    assert_eq!(settle["used"], false, "{}: no call was made", self.name);
                    let number = self.number(settle["id"].as_str().expect("an id is a text"));
                    self.done.push(format!("give back {number}"));
                }
            }
            Command::Freeze { freeze, .. } => self.freezes.add(freeze),
            Command::Complete { result: Ok(grant), .. } => {
                let starts = grant.request.mode == Mode::Reserve || grant.start <= self.now;
                if starts { self.start(grant) } else { self.grant = Some(grant) }
            }
            Command::Complete { result: Err(why), .. } => self.done.push(denial(&why)),
            Command::Renew { .. }
            | Command::Unrenewed { .. }
            | Command::Silent { .. }
            | Command::SilenceOver { .. } => {
                panic!("{}: {command:?}", self.name)
            }
        }
    }

    /// Which id of the request this is. Ids are in the order in which they were first used.
    fn number(&mut self, id: &str) -> usize {
        let known = self.ids.iter().position(|known| known == id);
        1 + known.unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        })
    }

    fn expect(&mut self, effect: &str) {
        if let Some(time) = effect.strip_prefix("pause ") {
            self.pause = Some(times(time));
        } else if !self.take(effect) {
            assert!(effect.starts_with("give back "), "{}: {effect:?} is not in {:?}", self.name, self.done);
            self.owed.push(effect.to_owned());
        }
    }

    /// Whether this was done.
    fn take(&mut self, effect: &str) -> bool {
        let found = self.done.iter().position(|done| is_alike(effect, done));
        found.map(|at| self.done.remove(at)).is_some()
    }

    /// All that was done is in the script, except what travels with the next message.
    fn is_quiet(&mut self) {
        self.done.retain(|done| match self.owed.iter().position(|owed| owed == done) {
            Some(at) => {
                self.owed.remove(at);
                false
            }
            None => true,
        });
        assert!(self.done.is_empty(), "{}, at {}: not in the script: {:?}", self.name, self.now, self.done);
    }

    fn end(&mut self) {
        self.is_quiet();
        for _ in 0..MAX_WAKEUPS {
            let Some(next) = self.session.next_wakeup().filter(|_| !self.owed.is_empty()) else { break };
            self.now = next.max(self.now);
            self.drain();
            self.is_quiet();
        }
        assert!(self.owed.is_empty() && self.grant.is_none(), "{}: at the end, {:?}", self.name, self.owed);
    }
}

fn is_alike(expected: &str, done: &str) -> bool {
    let word = |text: &'static str| Some((expected.strip_prefix(text)?, done.strip_prefix(text)?));
    if let Some((expected, done)) = word("send ") {
        let parts = |text: &'_ str| text.split_once(' ').map(|(id, fields)| (id.to_owned(), json(fields)));
        let (Some((id, fields)), Some((sent_id, sent))) = (parts(expected), parts(done)) else { return false };
        return id == sent_id && has_fields(&sent, &fields);
    }
    if let Some((expected, done)) = word("asked ") {
        return has_fields(&json(done), &json(expected));
    }
    if let Some((expected, done)) = word("granted ") {
        let ((time, rest), (done, local)) = (split(expected), split(done));
        let (from, to) = times(time);
        return rest == local && (from..=to).contains(&millis(done));
    }
    expected == done
}

/// The first word and the rest.
fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Whether `told` has these fields.
fn has_fields(told: &Value, fields: &Value) -> bool {
    fields.as_object().is_some_and(|fields| fields.iter().all(|(name, value)| is_equal(value, &told[name])))
}

/// 1 and 1.0 are one number.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(name, value)| is_equal(value, &other[name]))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (one, other) => one == other || (one.is_number() && one.as_f64() == other.as_f64()),
    }
}

fn denial(why: &Denial) -> String {
    match why {
        Denial::Refused(refused) => format!("refused {}", refused.code.as_str()),
        Denial::TimedOut { .. } => "refused not_in_time".to_owned(),
        Denial::Unreachable { .. } => "unreachable".to_owned(),
        Denial::TooManyAsks { .. } | Denial::Closed => panic!("no script has this: {why:?}"),
    }
}

fn policy(told: &Value) -> Unreachable {
    let duration = |name: &str| Duration::from_millis(told[name].as_u64().expect("milliseconds"));
    let patience = |name: &str| Patience::new(duration(name)).expect("a patience");
    if told.get("fail_after_ms").is_some() {
        return Unreachable::Fail { after: patience("fail_after_ms") };
    }
    let rate = SafeRate::new(1, duration("safe_rate_ms")).expect("a safe rate");
    Unreachable::SafeRate { after: patience("after_ms"), rate }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A time, or the first and the last one of a range.
fn times(text: &str) -> (Time, Time) {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    (millis(from), millis(to))
}

fn millis(text: &str) -> Time {
    ORIGIN + span(text.parse().unwrap_or_else(|_| panic!("no time: {text}")))
}

fn span(millis: f64) -> Span {
    Span::from_nanos((millis * 1e6).round() as u64)
}
