//! Noticing clients that are gone: NATS says at once that an answer has reached no inbox.
//!
//! Every answer to a request that has waited carries a reply subject of this loop's own. The server answers a message that meets no
//! subscription there, with *no responders*, and only on the connection that has sent it.

use crate::serve::messages::reply::ReplyTo;
use crate::serve::permits::permit_loop::{LONGEST_BURST, PermitLoop};
use async_nats::{Message, StatusCode, Subject};
use futures::{FutureExt, StreamExt};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::scheduler::undelivered::Walk;
use std::collections::{BTreeMap, VecDeque};

/// The requests of one connection are probed no more often: what is on its way is known by then.
const PROBED_EVERY: Span = Span::from_secs(1);
/// Connections that may be gone and are remembered: more than hosts die at once. Requests of the others are found when their turns come.
const MAX_GONE: usize = 256;
/// Inboxes that are longer get no report: a server closes a connection whose subjects fill a line of 4 KiB together.
const LONGEST_INBOX: usize = 512;
/// Permits whose answers were repeated last: the server hands over a report and the question that led to the repetition almost at once.
const MAX_REPEATED: usize = 64;

/// What is known of answers that have reached no client.
#[derive(Debug)]
pub(crate) struct Undelivered {
    /// What the subjects of reports begin with. It has a random token, which is told only to clients that have waited, and no client is
    /// allowed to publish there.
    prefix: String,
    /// Answers to this process itself that nobody takes.
    here: Vec<PermitId>,
    /// Permits that somebody has asked for again: a report is of the answer before.
    repeated: VecDeque<PermitId>,
    /// Connections that may be gone, and when they were found to be.
    gone: BTreeMap<Box<str>, Time>,
    /// The walk along all others that wait.
    walk: Option<Walk>,
    /// Whether another connection was found since that began.
    again: bool,
}

impl Undelivered {
    pub(crate) fn new(subjects: &Subjects, resource: &Name) -> Self {
        Undelivered {
            prefix: format!("{}.", subjects.undelivered(resource, &format!("{:016x}", rand::random::<u64>()))),
            here: Vec::new(),
            repeated: VecDeque::new(),
            gone: BTreeMap::new(),
            walk: None,
            again: false,
        }
    }

    /// Where reports come in.
    pub(crate) fn all(&self) -> String {
        format!("{}>", self.prefix)
    }

    /// Where the server is to report that an answer about `id` has met no subscription to `inbox`; nowhere if that is too long.
    pub(crate) fn report_to(&self, id: &PermitId, inbox: &str) -> Option<Subject> {
        let report = || format!("{}{}.{inbox}", self.prefix, id.as_str().replace('.', "=")).into();
        (inbox.len() <= LONGEST_INBOX).then(report)
    }

    /// The permit and the inbox of a report. Anything else that comes in there is none.
    fn read<'a>(&self, report: &'a Message) -> Option<(PermitId, &'a str)> {
        let (id, inbox) = report.subject.strip_prefix(&self.prefix)?.split_once('.')?;
        let id = PermitId::new(&id.replace('=', ".")).ok()?;
        (report.status == Some(StatusCode::NO_RESPONDERS)).then_some((id, inbox))
    }

    /// Nobody in this process takes the answer about `id`.
    pub(crate) fn note_here(&mut self, id: PermitId) {
        self.here.push(id);
    }

    /// A permit was granted before, and has been asked for again.
    pub(crate) fn note_repeated(&mut self, id: &PermitId) {
        self.repeated.truncate(MAX_REPEATED - 1);
        self.repeated.push_front(id.clone());
    }

    /// A client has spoken: its connection is not gone, or is back.
    pub(crate) fn note_alive(&mut self, inbox: &str) {
        if !self.gone.is_empty() {
            self.gone.remove(connection(inbox));
        }
    }

    /// Has all others be probed that may have gone with `inbox`.
    fn suspect(&mut self, now: Time, inbox: &str) {
        if self.walk.is_none() {
            self.gone.retain(|_, found| now.since(*found) < PROBED_EVERY);
        }
        if self.gone.len() < MAX_GONE && !self.gone.contains_key(connection(inbox)) {
            self.gone.insert(connection(inbox).into(), now);
            self.again = self.walk.replace(self.walk.unwrap_or_default()).is_some();
        }
    }
}

impl PermitLoop {
    /// Whether the next step of a walk along those who wait can be taken.
    pub(crate) fn has_more_to_do(&self) -> bool {
        self.may_answer() && (self.undelivered.walk.is_some() || !self.purges.is_empty())
    }

    /// Takes the reports that have come in, for as long as a burst of messages may last.
    pub(crate) fn take_reports(&mut self, first: &Message) {
        let began = self.clock.now();
        self.take_report(began, first);
        while self.clock.now().since(began) <= LONGEST_BURST {
            let Some(Some(report)) = self.reports.next().now_or_never() else { return };
            self.take_report(self.clock.now(), &report);
        }
    }

    /// Takes reports if there are some. They came before the messages that are there with them: a client that was cut off has asked
    /// again behind them.
    pub(crate) fn took_reports(&mut self) -> bool {
        let Some(Some(report)) = self.reports.next().now_or_never() else { return false };
        self.take_reports(&report);
        true
    }

    /// Takes a report of the server's.
    fn take_report(&mut self, now: Time, report: &Message) {
        let Some((id, inbox)) = self.undelivered.read(report) else { return };
        if self.undelivered.repeated.contains(&id) {
            return;
        }
        self.undelivered.suspect(now, inbox);
        self.give_up_on(now, id);
    }

    /// Gives up on all those of this process that take no answers any more. Whether there were any.
    pub(crate) fn give_up_on_own(&mut self) -> bool {
        let own = std::mem::take(&mut self.undelivered.here);
        let any = !own.is_empty();
        // Whoever has asked again since listens elsewhere.
        let own: Vec<PermitId> = own.into_iter().filter(|id| !self.undelivered.repeated.contains(id)).collect();
        own.into_iter().for_each(|id| self.give_up_on(self.clock.now(), id));
        any
    }

    fn give_up_on(&mut self, now: Time, id: PermitId) {
        self.tally.undelivered += 1;
        self.handle(now, Event::Undelivered(id));
    }

    /// One step of the walk along those whose connections may be gone.
    pub(crate) fn probe_on(&mut self, now: Time) {
        let Some(walk) = self.undelivered.walk.take() else { return };
        let gone = &self.undelivered.gone;
        let may_be_gone = |to: &ReplyTo| to.inbox().is_some_and(|inbox| gone.contains_key(connection(inbox)));
        let next = self.core.probe(now, walk, may_be_gone);
        let again = next.is_none() && std::mem::take(&mut self.undelivered.again);
        self.undelivered.walk = next.or_else(|| again.then(Walk::default));
        self.handle(now, Event::Wake);
    }
}

/// What the inboxes of one connection have in common. Most clients subscribe once, and tell answers apart by the last token; an inbox with
/// fewer tokens has nothing in common with others.
fn connection(inbox: &str) -> &str {
    match inbox.rsplit_once('.') {
        Some((all, _)) if all.contains('.') => all,
        Some(_) | None => inbox,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(subject: Subject, status: Option<StatusCode>) -> Message {
        Message { subject, reply: None, payload: "".into(), headers: None, status, description: None, length: 0 }
    }

    #[test]
    fn a_report_names_a_permit_and_an_inbox_and_nobody_else_can_make_one() {
        let (subjects, hub) = (Subjects::default(), Name::new("hub").unwrap());
        let [own, other] = [(); 2].map(|()| Undelivered::new(&subjects, &hub));
        for id in ["a", "7.12", ".", "..", "a:b-c_d."] {
            let id = PermitId::new(id).unwrap();
            let subject = own.report_to(&id, "_INBOX.x.1").unwrap();
            assert_eq!(own.read(&report(subject.clone(), Some(StatusCode::NO_RESPONDERS))), Some((id, "_INBOX.x.1")));
            assert_eq!(own.read(&report(subject.clone(), None)), None, "a client has written there");
            assert_eq!(other.read(&report(subject, Some(StatusCode::NO_RESPONDERS))), None, "another leader's");
        }
    }

    #[test]
    fn a_connection_is_what_its_inboxes_begin_with() {
        let table = [
            ("_INBOX.x.1", "_INBOX.x"),
            ("_INBOX_worker.x.1", "_INBOX_worker.x"),
            ("_INBOX.x", "_INBOX.x"),
            ("inbox", "inbox"),
        ];
        for (inbox, expected) in table {
            assert_eq!(connection(inbox), expected);
        }
    }
}
