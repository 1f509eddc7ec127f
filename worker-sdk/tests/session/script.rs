//! Scripts: what happens when, and what the session does about it.
//!
//! A line is `<milliseconds> <what happens>`; a line that begins with `>` is what the session must
//! have done by the next line, in this order and nothing else. Its time is a number or a range
//! `<from>..<to>` where chance has a part, and a `*` at its end leaves the rest open. In answers `$1`
//! stands for the id of ask 1.

use crate::network::elements;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_sdk::session::{AskNumber, BatchNumber, Command, Denial, Event, ResourceNumber, Session};
use serde_json::Value;
use std::str::FromStr;

/// Runs a script with several seeds: no rule depends on one.
pub(crate) fn check(script: &str) {
    for seed in 0..20 {
        let mut play = Play { session: Session::new(seed), done: Vec::new() };
        let lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.for_each(|line| play.line(line));
        assert!(play.done.is_empty(), "at the end, undone in the script: {:?}", play.done);
    }
}

struct Play {
    session: Session,
    /// What the session did and the script has not said yet.
    done: Vec<(Time, String)>,
}

impl Play {
    fn line(&mut self, line: &str) {
        if let Some(expected) = line.strip_prefix("> ") {
            return self.expect(expected);
        }
        let (at, what) = line.split_once(' ').expect("time and event");
        let now = millis(at);
        self.pass_until(now);
        assert!(self.done.is_empty(), "before {line:?}, not in the script: {:?}", self.done);
        self.happen(now, what);
        self.drain(now);
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

    /// Time passes until the session does something, if the script wants something of it.
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
            "wait" => {}
            "ask" => self.ask(now, rest),
            "cancel" => {
                let (ask, resource) = (AskNumber(parsed(rest)), ResourceNumber(0));
                self.session.handle(now, Event::Cancelled { ask, resource });
            }
            "settle" => {
                let settle = Settle::used(self.session.id(AskNumber(parsed(rest))));
                self.session.handle(now, Event::Settled { resource: ResourceNumber(0), settle });
            }
            "undelivered" => self.session.handle(now, Event::Undelivered { batch: BatchNumber(parsed(rest)) }),
            "news" => {
                let resource = ResourceNumber(0);
                self.session.handle(now, Event::News { resource, payload: payload.as_bytes() });
            }
            "answer" => {
                let (batch, payload) = payload.split_once(' ').expect("a batch and its answer");
                let batch = BatchNumber(parsed(batch));
                self.session.handle(now, Event::Answered { batch, payload: payload.as_bytes() });
            }
            other => panic!("no such event: {other}"),
        }
    }

    /// `<number> <mode> [deadline in ms]`; a number range `1-70` asks as often.
    fn ask(&mut self, now: Time, words: &str) {
        let mut words = words.split(' ');
        let numbers = words.next().expect("an ask has a number and a mode");
        let mode = match words.next().expect("an ask has a number and a mode") {
            "wait" => Mode::Wait,
            "reserve" => Mode::Reserve,
            "allow" => Mode::Allow,
            other => panic!("no such mode: {other}"),
        };
        let deadline = words.next().map_or(Time::NEVER, |deadline| now + millis(deadline).since(Time::ORIGIN));
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        for ask in parsed(first)..=parsed(last) {
            let request = Box::new(PermitRequest { mode, ..PermitRequest::default() });
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
            whole += &format!("\"{}\"{rest}", self.session.id(AskNumber(parsed(number))));
        }
        whole
    }

    fn text(&mut self, now: Time, command: Command) -> String {
        match command {
            Command::Ask { batch, payload, .. } => format!("ask {}: {}", batch.0, self.requests(&payload)),
            Command::Settle { payload, .. } => format!("settle {}", self.settles(&payload)),
            Command::Freeze { freeze, .. } => format!("freeze {}", freeze.until.since(Time::ORIGIN)),
            Command::Complete { ask, result: Ok(grant) } => {
                assert_eq!(grant.request.id, Some(self.session.id(ask)));
                assert_eq!(grant.received, now);
                format!("granted {} starts {}", ask.0, grant.start.since(Time::ORIGIN))
            }
            Command::Complete { ask, result: Err(why) } => format!("{} {}", denial(&why), ask.0),
        }
    }

    fn requests(&self, payload: &[u8]) -> String {
        listed(payload, |request| {
            let fields = ["age_ms", "max_wait_ms", "epoch"].iter();
            let told: Vec<String> =
                fields.filter_map(|field| Some(format!(" {field}={}", request.get(*field)?.as_f64()?))).collect();
            assert_eq!(request.get("progress").is_some(), request["mode"] == "wait");
            format!("{}{}", number(request), told.concat())
        })
    }

    fn settles(&self, payload: &[u8]) -> String {
        listed(payload, |settle| {
            format!("{} {}", number(settle), if settle["used"] == true { "used" } else { "unused" })
        })
    }
}

/// More than three elements are a matter of their count.
fn listed(payload: &[u8], text: impl Fn(&Value) -> String) -> String {
    let all = elements(payload);
    match &*all {
        [one] => text(one),
        [first, _, _, _, ..] => format!("{} from {}", all.len(), text(first)),
        few => format!("[{}]", few.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}

fn number(message: &Value) -> &str {
    message["id"].as_str().and_then(|id| id.split_once('-')).expect("an id of this session").1
}

fn denial(why: &Denial) -> String {
    match why {
        Denial::Refused { code, .. } => format!("refused {}", code.as_str()),
        Denial::TimedOut { heard: false, .. } => "timed out unheard".to_owned(),
        Denial::TimedOut { heard: true, .. } => "timed out".to_owned(),
        Denial::Closed => "closed".to_owned(),
    }
}

fn parsed<T: FromStr>(text: &str) -> T {
    text.parse().ok().unwrap_or_else(|| panic!("not a number: {text}"))
}

fn millis(text: &str) -> Time {
    Time::ORIGIN + Span::from_nanos((parsed::<f64>(text) * 1e6) as u64)
}
