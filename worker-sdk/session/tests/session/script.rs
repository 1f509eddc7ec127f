//! Scripts: events with their times, and what the session does about them.
//!
//! A line is `<milliseconds> <event>`. The event `asked` connects, asks, and expects the message with the
//! asks. A line that begins with `>` is what the session must have
//! done by the next line, in this order and nothing else. Its time is a number, or a range
//! `<from>..<to>` if chance has a part. A `*` at its end leaves the rest open. In a request,
//! `since` and `until` are the times that its `age_ms` and `max_wait_ms` mean. In answers `$1`
//! stands for the id of ask 1. An id that a client chose begins with `of-`. Settles are confirmed at once; behind
//! `by-receipt` they show the numbers of their messages, such as `s0`, and `confirm` names one.

use crate::prelude::*;
use rampmeter_protocol::price::Price;
use std::str::FromStr;

/// The wall clock of a script, which stands still.
const UNIX_MS: u64 = 1_000_000;

/// Runs a script with several seeds: no rule depends on one.
pub(crate) fn check(script: &str) {
    for seed in 0..20 {
        let mut play = Play { session: Session::new(seed), ids: Vec::new(), done: Vec::new(), by_receipt: false };
        let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.for_each(|line| play.line(line));
        assert!(play.done.is_empty(), "at the end, undone in the script: {:?}", play.done);
    }
}

struct Play {
    session: Session,
    /// Ids and their names, as scripts show them: the number of the ask, and how often it had
    /// another id before.
    ids: Vec<(String, String)>,
    /// Actions of the session that the script has not named yet.
    done: Vec<(Time, String)>,
    /// Whether schedulers confirm settles only as the script says.
    by_receipt: bool,
}

impl Play {
    fn line(&mut self, line: &str) {
        if let Some(expected) = line.strip_prefix("> ") {
            return self.expect(expected);
        }
        let (at, what) = line.split_once(' ').expect("time and event");
        if let Some(ask) = what.strip_prefix("asked ") {
            return self.asked(at, ask);
        }
        let now = millis(at);
        self.pass_until(now);
        assert!(self.done.is_empty(), "before {line:?}, not in the script: {:?}", self.done);
        self.happen(now, what);
        self.drain(now);
    }

    fn asked(&mut self, at: &str, ask: &str) {
        let sent = match ask.split(' ').next() {
            Some("1-2") => "[1, 2]",
            Some("1-3") => "[1, 2, 3]",
            _ => "1",
        };
        for line in ["connect", &format!("ask {ask}")] {
            self.line(&format!("{at} {line}"));
        }
        self.expect(&format!("{at} ask 0: {sent}"));
    }

    /// Time passes, from one wake-up to the next.
    fn pass_until(&mut self, now: Time) {
        while let Some(wakeup) = self.session.next_wakeup().filter(|wakeup| *wakeup <= now) {
            self.drain(wakeup);
        }
    }

    fn drain(&mut self, now: Time) {
        while let Some(command) = self.session.poll(now) {
            let text = self.text(now, command);
            self.done.push((now, text));
        }
    }

    /// Time passes until the session does something, if the script expects something.
    fn expect(&mut self, line: &str) {
        let (at, what) = line.split_once(' ').expect("time and command");
        let (from, to) = at.split_once("..").unwrap_or((at, at));
        while self.done.is_empty() {
            let wakeup = self.session.next_wakeup().filter(|wakeup| *wakeup <= millis(to));
            self.drain(wakeup.unwrap_or_else(|| panic!("nothing happens where {line:?} is expected")));
        }
        let (at, found) = self.done.remove(0);
        let alike = what.strip_suffix('*').map_or(found == what, |begin| found.starts_with(begin));
        let in_time = (millis(from)..=millis(to)).contains(&at);
        assert!(alike && in_time, "{at} {found:?} instead of {line:?}");
    }

    fn happen(&mut self, now: Time, what: &str) {
        let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
        let payload = self.with_ids(rest);
        match verb {
            "connect" => self.session.handle(now, Event::Connected),
            "disconnect" => self.session.handle(now, Event::Disconnected),
            "close" => self.session.handle(now, Event::Closed),
            "policy" => self.session.set_unreachable(ResourceNumber(0), policy(rest)),
            "wait" => {}
            "ask" => self.ask(now, rest),
            "most-asks" => self.session.options.most_asks = parsed(rest),
            "one-class" => self.session.options.one_class_per_message = true,
            "relay" => self.set(Session::relaying),
            "by-hand" => self.session.options.renews = false,
            "by-receipt" => self.by_receipt = true,
            "confirm" => self.session.handle(now, Event::Answered { batch: batch_number(rest), payload: b"" }),
            "report-silence" => self.session.options.reports_silence = true,
            "cancel" => {
                let (ask, resource) = (AskNumber(parsed(rest)), ResourceNumber(0));
                self.session.handle(now, Event::Cancelled { ask, resource });
            }
            "settle" => {
                let settle = Settle::used(self.session.id(AskNumber(parsed(rest))));
                self.session.handle(now, Event::Settled { resource: ResourceNumber(0), settle: Box::new(settle) });
            }
            "undelivered" => self.session.handle(now, Event::Undelivered { batch: batch_number(rest) }),
            "news" => {
                let resource = ResourceNumber(0);
                self.session.handle(now, Event::News { resource, payload: payload.as_bytes(), unix_ms: UNIX_MS });
            }
            "answer" => {
                let (batch, payload) = payload.split_once(' ').expect("a batch and its answer");
                let batch = BatchNumber(parsed(batch));
                self.session.handle(now, Event::Answered { batch, payload: payload.as_bytes() });
            }
            other => panic!("no such event: {other}"),
        }
    }

    /// Sets an option of a session that has not begun.
    fn set(&mut self, option: impl FnOnce(Session) -> Session) {
        let session = std::mem::replace(&mut self.session, Session::new(0));
        self.session = option(session);
    }

    /// `<number> <mode> [deadline in ms] [guild=<guild>] [class=<class>] [id=<id>] [price=<body>]`; a
    /// range `1-70` asks for each number.
    fn ask(&mut self, now: Time, words: &str) {
        let mut words = words.split(' ');
        let numbers = words.next().expect("an ask has a number and a mode");
        let mode = match words.next().expect("an ask has a number and a mode") {
            "wait" => Mode::Wait,
            "reserve" => Mode::Reserve,
            "allow" => Mode::Allow,
            other => panic!("no such mode: {other}"),
        };
        let words: Vec<&str> = words.collect();
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let class = option("class").map(|class| Text::from(class.to_owned()));
        let id = option("id").map(|id| PermitId::new(id).expect("an id"));
        let price = option("price").map(|body| Box::new(Price::new("sentinel-hub", "process", body).expect("JSON")));
        let mut labels = Labels::new();
        if let Some(guild) = option("guild") {
            labels.set("guild", guild.to_owned()).expect("a label");
        }
        let span = |text: &str| millis(text).since(Time::ORIGIN);
        let deadline = words.iter().find(|word| !word.contains('='));
        let deadline = deadline.map_or(Time::NEVER, |deadline| now + span(deadline));
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        for ask in parsed(first)..=parsed(last) {
            let request = Box::new(PermitRequest {
                id: id.clone(),
                mode,
                labels: labels.clone(),
                class: class.clone(),
                price: price.clone(),
                ..PermitRequest::default()
            });
            let (ask, resource) = (AskNumber(ask), ResourceNumber(0));
            self.session.handle(now, Event::Asked { ask, resource, request, deadline });
        }
    }

    fn with_ids(&mut self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut whole = parts.next().expect("a split has a first part").to_owned();
        for part in parts {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let (number, rest) = part.split_at(digits);
            let id = self.session.id(AskNumber(parsed(number)));
            whole += &format!("\"{id}\"{rest}");
        }
        whole
    }

    fn text(&mut self, now: Time, command: Command) -> String {
        match command {
            Command::Ask { class, batch, payload, .. } => {
                let of_class = class.map(|class| format!(" of {class}")).unwrap_or_default();
                format!("ask {}{of_class}: {}", batch.0, self.requests(now, &payload))
            }
            Command::Settle { batch, payload, .. } => {
                if self.by_receipt {
                    return format!("settle s{}: {}", u64::MAX - batch.0, self.settles(&payload));
                }
                self.session.handle(now, Event::Answered { batch, payload: b"" });
                format!("settle {}", self.settles(&payload))
            }
            Command::Renew { batch, payload, .. } => {
                format!("renew {}: {}", batch.0, listed(&payload, |settle| self.renewal(settle)))
            }
            Command::Unrenewed { id, code, .. } => {
                format!("unrenewed {} {}", self.name(id.as_str()), code.as_str())
            }
            Command::Silent { silence, .. } => format!("silent for {silence}"),
            Command::SilenceOver { .. } => "heard again".to_owned(),
            Command::Freeze { freeze, .. } => format!("freeze {}", freeze.until.since(Time::ORIGIN)),
            Command::Complete { ask, result: Ok(grant) } if grant.is_local() => {
                assert_eq!((grant.received, grant.start), (now, now));
                assert!(grant.lapses().is_some(), "a local permit lapses");
                format!("granted {} locally", ask.0)
            }
            Command::Complete { ask, result: Ok(grant) } => {
                let id = grant.request.id.as_ref().expect("a scheduler's permit has an id");
                assert!(*id == self.session.id(ask) || id.as_str().starts_with("of-"), "{id}");
                assert_eq!(grant.received, now);
                format!("granted {} starts {}", ask.0, grant.start.since(Time::ORIGIN))
            }
            Command::Complete { ask, result: Err(why) } => denial(ask.0, &why),
        }
    }

    /// The name of an id. An id that is new belongs to its ask now.
    fn name(&mut self, id: &str) -> String {
        if let Some((_, name)) = self.ids.iter().find(|(known, _)| known == id) {
            return name.clone();
        }
        let name = match self.session.ask_of(id).filter(|_| !id.starts_with("of-")) {
            Some(AskNumber(ask)) => {
                let is_of = |(_, name): &&(String, String)| name.split('.').next() == Some(&ask.to_string());
                match self.ids.iter().filter(is_of).count() {
                    0 => ask.to_string(),
                    before => format!("{ask}.{before}"),
                }
            }
            None => id.rsplit_once('-').expect("an id of this session").1.to_owned(),
        };
        self.ids.push((id.to_owned(), name.clone()));
        name
    }

    /// The name of a message's id.
    fn number(&mut self, message: &Value) -> String {
        self.name(message["id"].as_str().expect("an id"))
    }

    /// With the cost and the labels of the permit's request, if there are any.
    fn renewal(&mut self, settle: &Value) -> String {
        assert_eq!((&settle["extend"], &settle["used"]), (&Value::Bool(true), &Value::Bool(true)));
        let (number, asked) = (self.number(settle), settle["asked"].to_string());
        if asked == "{}" { number } else { format!("{number} {asked}") }
    }

    fn requests(&mut self, now: Time, payload: &[u8]) -> String {
        listed(payload, |request| {
            assert_eq!(request.get("progress").is_some(), request["mode"] == "wait");
            let field = |name: &str| request.get(name).and_then(Value::as_f64);
            let (since, until, epoch) = (field("age_ms"), field("max_wait_ms"), field("epoch"));
            let now = now.since(Time::ORIGIN).millis();
            let times = [
                since.map(|age| format!(" since={}", now.floor() - age)),
                until.map(|wait| format!(" until={}", now + wait)),
                epoch.map(|epoch| format!(" epoch={epoch}")),
            ];
            format!("{}{}", self.number(request), times.into_iter().flatten().collect::<String>())
        })
    }

    fn settles(&mut self, payload: &[u8]) -> String {
        listed(payload, |settle| {
            let how = if settle["used"] == true { "used" } else { "unused" };
            format!("{} {how}{}", self.number(settle), if settle["asked"].is_null() { "" } else { " asked" })
        })
    }
}

/// An array with more than three elements is shown as its count.
fn listed(payload: &[u8], mut text: impl FnMut(&Value) -> String) -> String {
    let all = elements(payload);
    match &*all {
        [one] => text(one),
        [first, _, _, _, ..] => format!("{} from {}", all.len(), text(first)),
        few => format!("[{}]", few.iter().map(&mut text).collect::<Vec<_>>().join(", ")),
    }
}

/// `wait`, `fail <patience in ms>`, or `rate <patience in ms> <calls> <per ms>`.
fn policy(words: &str) -> Unreachable {
    let duration = |word: &str| Duration::from_millis(parsed(word));
    let patience = |word| Patience::new(duration(word)).expect("a patience");
    match words.split(' ').collect::<Vec<_>>()[..] {
        ["wait"] => Unreachable::Wait,
        ["fail", after] => Unreachable::Fail { after: patience(after) },
        ["rate", after, calls, per] => {
            let rate = SafeRate::new(parsed(calls), duration(per)).expect("a safe rate");
            Unreachable::SafeRate { after: patience(after), rate }
        }
        _ => panic!("no such policy: {words}"),
    }
}

fn denial(ask: u64, why: &Denial) -> String {
    match why {
        Denial::Refused(refused) => format!("refused {} {ask}", refused.code.as_str()),
        Denial::TimedOut { answered: false, .. } => format!("timed out unheard {ask}"),
        Denial::TimedOut { answered: true, .. } => format!("timed out {ask}"),
        Denial::Unreachable { silence, retry_after } => {
            format!("unreachable {ask} since {silence}, to come back in {retry_after}")
        }
        Denial::TooManyAsks { bound } => format!("too many asks {ask}: {bound}"),
        Denial::Closed => format!("closed {ask}"),
    }
}

/// A message with asks, or with settles, which begin with `s` and count from the other end.
fn batch_number(text: &str) -> BatchNumber {
    BatchNumber(text.strip_prefix('s').map_or_else(|| parsed(text), |settles| u64::MAX - parsed::<u64>(settles)))
}

fn parsed<T: FromStr>(text: &str) -> T {
    text.parse().ok().unwrap_or_else(|| panic!("not a number: {text}"))
}

fn millis(text: &str) -> Time {
    Time::ORIGIN + Span::from_nanos((parsed::<f64>(text) * 1e6) as u64)
}
