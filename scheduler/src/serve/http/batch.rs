//! The elements of one HTTP request, and their answers as they come in.

use super::element::{Answered, Ask, Outcome, Word};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::Span;

/// Asks in the order in which they are to be answered.
#[derive(Debug)]
pub(super) struct Batch<A> {
    slots: Vec<Slot<A>>,
    /// Where to look for the next answer's element first: those of one message come in order.
    cursor: usize,
}

#[derive(Debug)]
struct Slot<A> {
    /// Absent where there was nothing to ask.
    ask: Option<A>,
    answer: Option<Answered>,
    queued: bool,
}

impl<A: Ask> Batch<A> {
    /// Of what could be read, and of the refusals of what could not.
    pub(super) fn new(elements: impl IntoIterator<Item = Result<A, Answered>>) -> Self {
        let slots = elements.into_iter().map(|element| match element {
            Ok(ask) => Slot { ask: Some(ask), answer: None, queued: false },
            Err(refusal) => Slot { ask: None, answer: Some(refusal), queued: false },
        });
        Batch { slots: slots.collect(), cursor: 0 }
    }

    /// Whether everything is answered.
    pub(super) fn is_done(&self) -> bool {
        self.slots.iter().all(|slot| slot.answer.is_some())
    }

    /// Whether all that is not answered is known to wait in line.
    pub(super) fn is_queued(&self) -> bool {
        self.open().all(|slot| slot.queued)
    }

    /// When the last of what is not answered is, at the latest after its beginning; nothing if that has no bound.
    pub(super) fn longest_wait(&self) -> Option<Span> {
        let waits: Option<Vec<Span>> = self.open().map(|slot| slot.ask.as_ref().and_then(Ask::longest_wait)).collect();
        waits?.into_iter().max()
    }

    /// What is not answered, as a message; `waited` is for how long already.
    pub(super) fn payload(&self, waited: Span) -> Vec<u8> {
        let asks: Vec<A> = self.open().filter_map(|slot| slot.ask.as_ref()).map(|ask| ask.after(waited)).collect();
        let written = match asks.as_slice() {
            [alone] => serde_json::to_vec(alone),
            many => serde_json::to_vec(many),
        };
        written.expect("messages are plain data")
    }

    /// Takes the answers of one message, and the news that others will come.
    pub(super) fn take(&mut self, words: Vec<Word>) {
        self.cursor = 0;
        words.into_iter().for_each(|word| self.take_one(word));
    }

    fn take_one(&mut self, word: Word) {
        match word {
            Word::Final(id, answered) => {
                if let Some(slot) = self.slot_of(id.as_ref()) {
                    slot.answer = Some(answered);
                }
            }
            Word::Queued(id) => {
                if let Some(slot) = self.slot_of(id.as_ref()) {
                    slot.queued = true;
                }
            }
            Word::Unavailable => {}
        }
    }

    /// Nobody is known to have anything in line any more.
    pub(super) fn forget_places(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.queued = false);
    }

    /// Gives what is not answered yet the answer that `refusal` makes for it.
    pub(super) fn give_up(&mut self, refusal: impl Fn(Option<&PermitId>) -> Answered) {
        for slot in self.slots.iter_mut().filter(|slot| slot.answer.is_none()) {
            slot.answer = Some(refusal(slot.ask.as_ref().and_then(Ask::id)));
        }
    }

    /// The settle that gives back what is or may be charged; nothing where nothing is. With `all` also what was granted.
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

    /// The next open slot of this id: one id may stand there several times. A word without an id is about the next of all.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::http::element::{refuse, words};
    use rampmeter_protocol::code::Code;
    use rampmeter_protocol::incoming::Incoming;
    use rampmeter_protocol::request::PermitRequest;

    /// A batch of `asks`, a JSON array; those without an id are named `front`.
    fn batch(asks: &str) -> Batch<PermitRequest<'_>> {
        let Incoming::Many(asks) = Incoming::<PermitRequest>::parse(asks.as_bytes()) else { panic!("{asks}") };
        Batch::new(asks.into_iter().map(|ask| match ask {
            Ok(ask) => Ok(ask.with_id(|| PermitId::new("front").unwrap())),
            Err(invalid) => Err(refuse(None, Code::InvalidRequest, invalid.to_string(), None)),
        }))
    }

    fn sent(batch: &Batch<PermitRequest<'_>>, waited: Span) -> String {
        String::from_utf8(batch.payload(waited)).unwrap()
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
            batch.take(words(payload.as_bytes()));
        }
        assert!(batch.is_done());
        assert_eq!(answers(&mut batch), ["granted a", "refused null", "granted b", "refused a"]);
    }

    #[test]
    fn what_is_asked_again_is_what_is_not_answered_with_its_age() {
        let mut batch = batch(r#"[{"id":"a"},{"mode":"wait","max_wait_ms":5000,"age_ms":100}]"#);
        let first = r#"[{"id":"a","mode":"reserve"},{"id":"front","mode":"wait","max_wait_ms":5000.0,"age_ms":100.0,"progress":true}]"#;
        assert_eq!(sent(&batch, Span::ZERO), first);
        batch.take(words(br#"{"status":"granted","id":"a","delay_ms":0,"epoch":1}"#));
        let again = r#"{"id":"front","mode":"wait","max_wait_ms":4000.0,"age_ms":1100.0,"progress":true}"#;
        assert_eq!(sent(&batch, Span::from_secs(1)), again);
    }

    #[test]
    fn what_nobody_takes_is_given_back() {
        let mut batch = batch(r#"[{"id":"a"},{"id":"b"},{"id":"c"}]"#);
        let answers = br#"[{"status":"granted","id":"a","delay_ms":0,"epoch":1},{"status":"refused","id":"b","code":"never_fits","message":"","epoch":1}]"#;
        batch.take(words(answers));
        let ids = |payload: Option<Vec<u8>>| {
            let settles: Vec<serde_json::Value> = serde_json::from_slice(&payload.unwrap()).unwrap();
            assert!(settles.iter().all(|settle| settle["used"] == false));
            settles.iter().map(|settle| settle["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ids(batch.withdrawal(true)), ["a", "c"]);
        assert_eq!(ids(batch.withdrawal(false)), ["c"]);
    }
}
