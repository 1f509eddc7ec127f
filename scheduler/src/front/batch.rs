//! The elements of one HTTP request, and their answers as they come in.

use super::element::{Answered, Ask, Outcome, SchedulerAnswer, Stamp, refuse};
use rampmeter_protocol::code::{Code, Remedy};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::lateness::{BaseDelay, OneWayDelay, Stamped};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::{Span, Time};

/// Tells a client that the permit under an id of its own lapsed here.
const LATE: &str = "the permit came so late that its start is past; it was given back: ask under a new id";

/// The elements of one request, in the order of their answers.
#[derive(Debug)]
pub(super) struct Batch<A> {
    slots: Vec<Slot<A>>,
    /// Where to look for the next answer's element first: the answers of one message come in order.
    cursor: usize,
    /// When the batch was sent last. Answers to earlier sendings are dropped before they get here.
    sent: Time,
    /// Permits that came too late, or lapsed, and are to be given back.
    lapsed: Vec<PermitId>,
}

#[derive(Debug)]
struct Slot<A> {
    /// `None` if the element could not be read.
    ask: Option<A>,
    answer: Option<Answered>,
    queued: bool,
    /// The first id that the front made up, and how many ids of this element have lapsed. `None` if
    /// the client gave an id.
    made: Option<(PermitId, u32)>,
    /// How long the last permit was on its way, if it came too late.
    late: Option<OneWayDelay>,
}

impl<A: Ask> Batch<A> {
    /// A batch of the requests that could be read. All other requests are refused. An ask without
    /// an id gets one from `make`, because a repetition without an id would be charged twice.
    pub(super) fn new(elements: impl IntoIterator<Item = Result<A, Answered>>, make: impl Fn() -> PermitId) -> Self {
        let slots = elements.into_iter().map(|element| match element {
            Ok(ask) => Slot::asking(ask, &make),
            Err(refusal) => Slot { answer: Some(refusal), ..Slot::default() },
        });
        Batch { slots: slots.collect(), cursor: 0, sent: Time::ORIGIN, lapsed: Vec::new() }
    }

    /// Whether everything is answered.
    pub(super) fn is_done(&self) -> bool {
        self.slots.iter().all(|slot| slot.answer.is_some())
    }

    /// Whether all asks without an answer are known to wait.
    pub(super) fn is_queued(&self) -> bool {
        self.open().all(|slot| slot.queued)
    }

    /// The latest time, counted from the beginning, at which all asks are answered; nothing if that
    /// has no bound.
    pub(super) fn longest_wait(&self) -> Option<Span> {
        let waits: Option<Vec<Span>> = self.open().map(|slot| slot.ask.as_ref().and_then(Ask::longest_wait)).collect();
        waits?.into_iter().max()
    }

    /// All asks without an answer, as a message at `now`, after they have waited for `waited`.
    pub(super) fn payload(&mut self, now: Time, waited: Span) -> Vec<u8> {
        self.sent = now;
        let asks: Vec<A> = self.open().filter_map(|slot| slot.ask.as_ref()).map(|ask| ask.after(waited)).collect();
        let written = match asks.as_slice() {
            [alone] => serde_json::to_vec(alone),
            many => serde_json::to_vec(many),
        };
        written.expect("messages are plain data")
    }

    /// Takes the answers of one message that came at `now`, and notes which answers are still to
    /// come. Permits that came too late, measured by earlier answers, are not passed on.
    pub(super) fn take(&mut self, now: Time, answers: Vec<SchedulerAnswer>, base_delay: &mut BaseDelay) {
        self.cursor = 0;
        answers.into_iter().for_each(|answer| self.take_one(now, answer, base_delay));
    }

    fn take_one(&mut self, now: Time, answer: SchedulerAnswer, base_delay: &mut BaseDelay) {
        let sent = self.sent;
        let stamped = |Stamp { at_ms, epoch }| Stamped { asked: sent, received: now, at_ms, epoch };
        match answer {
            SchedulerAnswer::Final(id, answered) => {
                let slot = self.slot_of(id.as_ref());
                let lapsed = slot.and_then(|slot| slot.take(answered, base_delay, stamped));
                self.lapsed.extend(lapsed);
            }
            SchedulerAnswer::Queued(id, stamp) => {
                base_delay.observe(stamped(stamp));
                if let Some(slot) = self.slot_of(id.as_ref()) {
                    slot.queued = true;
                }
            }
            SchedulerAnswer::Unavailable => {}
        }
    }

    /// The settle that gives back all permits that came too late since the last call; nothing if
    /// there are none.
    pub(super) fn take_lapsed(&mut self) -> Option<Vec<u8>> {
        let unused: Vec<Settle<'_>> = self.lapsed.drain(..).map(Settle::unused).collect();
        (!unused.is_empty()).then(|| serde_json::to_vec(&unused).expect("messages are plain data"))
    }

    /// Forgets which asks are known to wait.
    pub(super) fn forget_places(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.queued = false);
    }

    /// Answers all open asks with what `refusal` makes for them.
    pub(super) fn give_up(&mut self, refusal: impl Fn(Option<&PermitId>) -> Answered) {
        for slot in self.slots.iter_mut().filter(|slot| slot.answer.is_none()) {
            slot.answer = Some(refusal(slot.ask.as_ref().and_then(Ask::id)));
        }
    }

    /// The settle that gives back the permits of open asks, which may be charged. With `all` it
    /// gives back the granted permits too. `None` if there is no such permit.
    pub(super) fn withdrawal(&self, all: bool) -> Option<Vec<u8>> {
        let charged = |slot: &&Slot<A>| match slot.answer.as_ref().map(|answered| &answered.outcome) {
            None => true,
            Some(Outcome::Granted(_)) => all,
            Some(Outcome::Settled | Outcome::Refused(_)) => false,
        };
        let asks = self.slots.iter().filter(charged).filter_map(|slot| slot.ask.as_ref());
        let ids = asks.filter(|ask| ask.is_charged()).filter_map(Ask::id);
        let unused: Vec<Settle<'_>> = ids.map(|id| Settle::unused(id.clone())).collect();
        (!unused.is_empty()).then(|| serde_json::to_vec(&unused).expect("messages are plain data"))
    }

    /// The answers, in order.
    pub(super) fn take_answers(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.slots).into_iter().filter_map(|slot| slot.answer).collect()
    }

    fn open(&self) -> impl Iterator<Item = &Slot<A>> {
        self.slots.iter().filter(|slot| slot.answer.is_none())
    }

    /// The next open slot of this id: several elements may have the same id. An answer without an
    /// id is for the first open slot.
    fn slot_of(&mut self, id: Option<&PermitId>) -> Option<&mut Slot<A>> {
        let count = self.slots.len();
        let fits = |slot: &Slot<A>| {
            slot.answer.is_none() && id.is_none_or(|id| slot.ask.as_ref().and_then(Ask::id) == Some(id))
        };
        let found = (0..count).map(|step| (self.cursor + step) % count).find(|index| fits(&self.slots[*index]))?;
        self.cursor = found + 1;
        self.slots.get_mut(found)
    }
}

impl<A> Default for Slot<A> {
    fn default() -> Self {
        Slot { ask: None, answer: None, queued: false, made: None, late: None }
    }
}

impl<A: Ask> Slot<A> {
    fn asking(ask: A, make: impl Fn() -> PermitId) -> Self {
        let (id, made) = match ask.id() {
            Some(given) => (given.clone(), None),
            None => {
                let id = make();
                (id.clone(), Some((id, 0)))
            }
        };
        Slot { ask: Some(ask.with_id(id)), made, ..Slot::default() }
    }

    /// Takes the answer. Returns the id to give back, if the answer is not wanted any more.
    fn take(
        &mut self,
        answered: Answered,
        base_delay: &mut BaseDelay,
        stamped: impl Fn(Stamp) -> Stamped,
    ) -> Option<PermitId> {
        let id = self.ask.as_ref().and_then(Ask::id).cloned();
        match &answered.outcome {
            // A client waits out the whole delay from when the answer comes, so that the delay
            // makes up for no lateness.
            Outcome::Granted(granted) => match base_delay.start(stamped(granted.stamp), Span::ZERO, self.late) {
                Ok(_at_once) => self.answer = Some(answered),
                Err(way) => {
                    self.late = Some(way);
                    self.ask_anew(|| refuse(id.as_ref(), Code::Lapsed, LATE.to_owned(), None));
                    return id;
                }
            },
            Outcome::Refused(refused) if refused.code.remedy() == Remedy::ReturnAndReplace && self.made.is_some() => {
                self.ask_anew(|| answered);
                return id;
            }
            Outcome::Refused(_) | Outcome::Settled => self.answer = Some(answered),
        }
        None
    }

    /// Asks under a new id if the front made up the last one. Otherwise the client is told to do
    /// so.
    fn ask_anew(&mut self, refusal: impl FnOnce() -> Answered) {
        let Some((first, lapsed)) = &mut self.made else { return self.answer = Some(refusal()) };
        *lapsed += 1;
        let id = PermitId::new(&format!("{first}.{lapsed}")).expect("a number behind an id of the front's");
        self.ask = self.ask.take().map(|ask| ask.with_id(id));
        self.queued = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::element::scheduler_answers;
    use rampmeter_protocol::incoming::Incoming;
    use rampmeter_protocol::request::PermitRequest;

    /// A batch of `asks`, a JSON array; those without an id are named `front`.
    fn batch(asks: &str) -> Batch<PermitRequest<'_>> {
        let Incoming::Many(asks) = Incoming::<PermitRequest>::parse(asks.as_bytes()) else { panic!("{asks}") };
        let asks = asks.into_iter().map(|ask| match ask {
            Ok(ask) => Ok(ask),
            Err(invalid) => Err(refuse(None, Code::InvalidRequest, invalid.to_string(), None)),
        });
        Batch::new(asks, || PermitId::new("front").unwrap())
    }

    fn at(ms: u64) -> Time {
        Time::ORIGIN + Span::from_millis(ms)
    }

    fn sent(batch: &mut Batch<PermitRequest<'_>>, waited: Span) -> String {
        String::from_utf8(batch.payload(Time::ORIGIN + waited, waited)).unwrap()
    }

    fn take(batch: &mut Batch<PermitRequest<'_>>, payload: &str) {
        batch.take(at(0), scheduler_answers(payload.as_bytes()), &mut BaseDelay::default());
    }

    /// The first letters of the answers' statuses and their ids.
    fn answers(batch: &mut Batch<PermitRequest<'_>>) -> Vec<String> {
        let answers = batch.take_answers().into_iter();
        let read = |answered: Answered| serde_json::from_str::<serde_json::Value>(&answered.text).unwrap();
        answers.map(read).map(|answer| format!("{} {}", answer["status"], answer["id"]).replace('"', "")).collect()
    }

    #[test]
    fn answers_find_their_elements_in_whatever_order_they_come() {
        let mut batch = batch(r#"[{"id":"a"},{"cost":1},{"id":"b","mode":"wait"},{"id":"a"}]"#);
        for payload in [
            r#"{"status":"queued","id":"b","position":1,"eta_ms":5,"epoch":1}"#,
            r#"{"status":"granted","id":"b","delay_ms":0,"epoch":1}"#,
            r#"[{"status":"granted","id":"a","delay_ms":0,"epoch":1},{"status":"refused","id":"a","code":"not_in_time","message":"","epoch":1}]"#,
        ] {
            assert!(!batch.is_done());
            take(&mut batch, payload);
        }
        assert!(batch.is_done());
        assert_eq!(answers(&mut batch), ["granted a", "refused null", "granted b", "refused a"]);
    }

    #[test]
    fn requests_without_an_answer_are_asked_again_with_their_age() {
        let mut batch = batch(r#"[{"id":"a"},{"mode":"wait","max_wait_ms":5000,"age_ms":100}]"#);
        let first = r#"[{"id":"a","mode":"reserve"},{"id":"front","mode":"wait","max_wait_ms":5000.0,"age_ms":100.0,"progress":true}]"#;
        assert_eq!(sent(&mut batch, Span::ZERO), first);
        take(&mut batch, r#"{"status":"granted","id":"a","delay_ms":0,"epoch":1}"#);
        let again = r#"{"id":"front","mode":"wait","max_wait_ms":4000.0,"age_ms":1100.0,"progress":true}"#;
        assert_eq!(sent(&mut batch, Span::from_secs(1)), again);
    }

    #[test]
    fn a_late_permit_is_asked_for_anew_if_its_id_was_made_here() {
        let mut batch = batch(r#"[{"id":"own"},{},{"cost":{"requests":2}}]"#);
        let mut base_delay = BaseDelay::default();
        batch.payload(at(0), Span::ZERO);
        let granted =
            |id: &str, at_ms| format!(r#"{{"status":"granted","id":"{id}","delay_ms":0,"at_ms":{at_ms},"epoch":1}}"#);
        let late = format!("[{},{}]", granted("own", 100), granted("front", 100));
        batch.take(at(3000), scheduler_answers(late.as_bytes()), &mut base_delay);
        batch.take(
            at(3000),
            scheduler_answers(br#"{"status":"refused","id":"front","code":"lapsed","message":"","epoch":1}"#),
            &mut base_delay,
        );
        let given_back = r#"[{"id":"own","used":false},{"id":"front","used":false},{"id":"front","used":false}]"#;
        assert_eq!(String::from_utf8(batch.take_lapsed().unwrap()).unwrap(), given_back);
        assert_eq!(batch.take_lapsed(), None);
        let again: Vec<serde_json::Value> =
            serde_json::from_slice(&batch.payload(at(3000), Span::from_secs(3))).unwrap();
        assert!(
            again.len() == 2 && again.iter().all(|ask| ask["id"] == "front.1" && ask["age_ms"] == 3000.0),
            "{again:?}"
        );
        for _ in 0..2 {
            batch.take(at(3010), scheduler_answers(granted("front.1", 3001).as_bytes()), &mut base_delay);
        }
        assert_eq!(answers(&mut batch), ["refused own", "granted front.1", "granted front.1"]);
    }

    #[test]
    fn answers_that_no_client_takes_are_given_back() {
        let mut batch = batch(r#"[{"id":"a"},{"id":"b"},{"id":"c"}]"#);
        let answers = br#"[{"status":"granted","id":"a","delay_ms":0,"epoch":1},{"status":"refused","id":"b","code":"never_fits","message":"","epoch":1}]"#;
        take(&mut batch, std::str::from_utf8(answers).unwrap());
        let ids = |payload: Option<Vec<u8>>| {
            let settles: Vec<serde_json::Value> = serde_json::from_slice(&payload.unwrap()).unwrap();
            assert!(settles.iter().all(|settle| settle["used"] == false));
            settles.iter().map(|settle| settle["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ids(batch.withdrawal(true)), ["a", "c"]);
        assert_eq!(ids(batch.withdrawal(false)), ["c"]);
    }

    /// Session scripts that hold for the front, too. Pauses between its requests belong to the
    /// conversation, and its clients wait out the delays.
    const SCRIPTS: [&str; 5] = [
        include_str!("../../../protocol/session-scripts/granted.txt"),
        include_str!("../../../protocol/session-scripts/lapsed.txt"),
        include_str!("../../../protocol/session-scripts/late.txt"),
        include_str!("../../../protocol/session-scripts/refused.txt"),
        include_str!("../../../protocol/session-scripts/reservation.txt"),
    ];

    #[test]
    fn the_front_keeps_the_rules_of_sessions() {
        SCRIPTS.into_iter().for_each(play);
    }

    /// Plays a script; `protocol/session-scripts/README.md` says how to read it.
    fn play(script: &str) {
        let (mut lines, mut base_delay) = (script.lines().filter(|line| !line.starts_with('#')), BaseDelay::default());
        let asks = format!("[{}]", lines.next().unwrap().strip_prefix("0 ask ").unwrap());
        let mut batch = batch(&asks);
        let (mut ids, mut now, mut answered) = (Vec::new(), 0, 0);
        for line in lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                [">", "send", number, ..] => {
                    let sent: serde_json::Value =
                        serde_json::from_str(&sent(&mut batch, Span::from_millis(now))).unwrap();
                    ids.truncate(number.parse::<usize>().unwrap() - 1);
                    let id = sent["id"].as_str().unwrap().to_owned();
                    assert!(!ids.contains(&id), "{id} is not new in {script}");
                    ids.push(id);
                    let expected = serde_json::from_str(line.splitn(4, ' ').last().unwrap()).unwrap();
                    assert!(has(&sent, &expected), "{sent} in {script}");
                }
                [">", "give", "back", number] => {
                    let given_back =
                        format!(r#"[{{"id":"{}","used":false}}]"#, ids[number.parse::<usize>().unwrap() - 1]);
                    assert_eq!(batch.take_lapsed(), Some(given_back.into_bytes()), "{script}");
                }
                [">", "granted" | "refused", what] => {
                    let outcome = match &batch.take_answers()[0].outcome {
                        Outcome::Granted(granted) => (answered + granted.delay.nanos() / 1_000_000).to_string(),
                        Outcome::Refused(refused) => refused.code.as_str().to_owned(),
                        Outcome::Settled => panic!("{script}"),
                    };
                    assert_eq!(outcome, what, "{script}");
                }
                [">", "pause", _] => {}
                [ms, "wake"] => now = ms.parse().unwrap(),
                [ms, "answer", ..] => {
                    (now, answered) = (ms.parse().unwrap(), ms.parse().unwrap());
                    let answer = line.splitn(3, ' ').last().unwrap().replacen(
                        '{',
                        &format!(r#"{{"id":"{}","#, ids.last().unwrap()),
                        1,
                    );
                    batch.take(at(now), scheduler_answers(answer.as_bytes()), &mut base_delay);
                }
                _ => panic!("{line} in {script}"),
            }
        }
    }

    /// Whether all that is in `expected` is in `value`, however its numbers are written.
    fn has(value: &serde_json::Value, expected: &serde_json::Value) -> bool {
        match expected.as_object() {
            Some(fields) => fields.iter().all(|(name, field)| has(&value[name], field)),
            None => value == expected || value.as_f64().is_some() && value.as_f64() == expected.as_f64(),
        }
    }
}
