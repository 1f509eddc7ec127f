//! Answers that have reached no client: NATS says at once that an inbox has no subscription.
//!
//! Every answer to a request that has waited carries a reply subject of this loop's own. If the
//! answer meets no subscription, the server says *no responders* there, and only on the connection
//! that has sent the answer.

use crate::messages::reply::{ReplyTo, Waited};
use async_nats::{Message, StatusCode, Subject};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::scheduler::waiting::QueueCursor;
use std::collections::{BTreeMap, VecDeque};

/// Pause between two probes of one connection's requests: probes under way are answered by then.
const PROBED_EVERY: Span = Span::from_secs(1);
/// The most connections that are remembered as perhaps gone: more than fail at once when hosts
/// fail. Requests of further connections are found when their turns come.
const MAX_GONE: usize = 256;
/// The token of a notice about the grant of a request that has waited.
const GRANT: &str = "g";
/// The token of a notice about an update.
const UPDATE: &str = "u";
/// Longer inboxes get no notice: a server closes a connection whose subjects fill a line of 4 KiB.
const LONGEST_INBOX: usize = 512;
/// The most permits that are remembered as repeated. A notice about the earlier answer and the
/// question that led to the repetition arrive almost at once.
const MAX_REPEATED: usize = 64;

/// Permits and connections whose answers have reached no client.
///
/// A walk is under way whenever a connection was found gone and its requests are not all probed.
#[derive(Debug)]
pub(crate) struct Undelivered {
    /// The beginning of the notices' subjects. It has a random token, which only clients that have
    /// waited know; no client may publish there.
    prefix: String,
    /// Answers that no task of this process takes.
    here: Vec<Waited>,
    /// Permits that were asked for again. A notice about one is about its earlier answer.
    repeated: VecDeque<PermitId>,
    /// Connections that may be gone, and when they were found to be.
    gone: BTreeMap<Box<str>, Time>,
    /// The walk along all other waiting requests.
    walk: Option<QueueCursor>,
    /// Whether another connection was found since the walk began.
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

    /// Where notices of *no responders* come in.
    pub(crate) fn all(&self) -> String {
        format!("{}>", self.prefix)
    }

    /// Where the server reports that an answer has met no subscription to `inbox`; nothing if the
    /// inbox is too long.
    pub(crate) fn notice_subject(&self, Waited { id, is_grant }: &Waited, inbox: &str) -> Option<Subject> {
        let kind = if *is_grant { GRANT } else { UPDATE };
        let subject = || format!("{}{kind}.{}.{inbox}", self.prefix, id.as_str().replace('.', "=")).into();
        (inbox.len() <= LONGEST_INBOX).then(subject)
    }

    /// The answer and the inbox of a notice; nothing for any other message on this subject.
    fn read<'a>(&self, notice: &'a Message) -> Option<(Waited, &'a str)> {
        let (kind, rest) = notice.subject.strip_prefix(&self.prefix)?.split_once('.')?;
        let (id, inbox) = rest.split_once('.')?;
        let waited = Waited { id: PermitId::new(&id.replace('=', ".")).ok()?, is_grant: kind == GRANT };
        (notice.status == Some(StatusCode::NO_RESPONDERS)).then_some((waited, inbox))
    }

    /// Notes that no task of this process takes an answer.
    pub(crate) fn note_here(&mut self, waited: Waited) {
        self.here.push(waited);
    }

    /// Notes that a permit which was granted before has been asked for again.
    pub(crate) fn note_repeated(&mut self, id: &PermitId) {
        self.repeated.truncate(MAX_REPEATED - 1);
        self.repeated.push_front(id.clone());
    }

    /// The permits of this process whose answers no task takes; nothing if there are none. A permit
    /// that was asked for again is left out: its new request listens elsewhere.
    pub(crate) fn take_own(&mut self) -> Option<Vec<Waited>> {
        if self.here.is_empty() {
            return None;
        }
        let mut own = std::mem::take(&mut self.here);
        own.retain(|waited| !self.repeated.contains(&waited.id));
        Some(own)
    }

    /// The answer to give up on, if `notice` says that it has reached no client.
    pub(crate) fn take_no_responders(&mut self, now: Time, notice: &Message) -> Option<Waited> {
        let (waited, inbox) = self.read(notice)?;
        if self.repeated.contains(&waited.id) {
            return None;
        }
        self.suspect(now, inbox);
        Some(waited)
    }

    pub(crate) fn has_walk(&self) -> bool {
        self.walk.is_some()
    }

    /// Has `probe` take one step of the walk, along requests whose connections may be gone. Returns
    /// whether there was a step to take.
    pub(crate) fn step(
        &mut self,
        probe: impl FnOnce(QueueCursor, &dyn Fn(&ReplyTo) -> bool) -> Option<QueueCursor>,
    ) -> bool {
        let Some(walk) = self.walk.take() else { return false };
        let gone = &self.gone;
        let next = probe(walk, &|to| to.inbox().is_some_and(|inbox| gone.contains_key(connection(inbox))));
        let again = next.is_none() && std::mem::take(&mut self.again);
        self.walk = next.or_else(|| again.then(QueueCursor::default));
        true
    }

    /// Notes that a client has spoken: its connection is not gone, or is back.
    pub(crate) fn note_alive(&mut self, inbox: &str) {
        if !self.gone.is_empty() {
            self.gone.remove(connection(inbox));
        }
    }

    /// Has all other waiting requests of the connection of `inbox` probed, because they may be gone
    /// too.
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

/// What the inboxes of one connection have in common. Most clients subscribe once, and tell answers
/// apart by the last token. An inbox with fewer tokens has nothing in common with other inboxes.
fn connection(inbox: &str) -> &str {
    match inbox.rsplit_once('.') {
        Some((all, _)) if all.contains('.') => all,
        Some(_) | None => inbox,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(id: &str) -> Waited {
        Waited { id: PermitId::new(id).unwrap(), is_grant: true }
    }

    fn notice(subject: Subject, status: Option<StatusCode>) -> Message {
        Message { subject, reply: None, payload: "".into(), headers: None, status, description: None, length: 0 }
    }

    #[test]
    fn a_notice_names_a_permit_and_an_inbox_and_no_other_process_can_make_one() {
        let (subjects, hub) = (Subjects::default(), Name::new("hub").unwrap());
        let [own, other] = [(); 2].map(|()| Undelivered::new(&subjects, &hub));
        for (id, is_grant) in [("a", true), ("7.12", false), (".", true), ("..", false), ("a:b-c_d.", true)] {
            let waited = Waited { id: PermitId::new(id).unwrap(), is_grant };
            let subject = own.notice_subject(&waited, "_INBOX.x.1").unwrap();
            let unheard = notice(subject.clone(), Some(StatusCode::NO_RESPONDERS));
            assert_eq!(own.read(&unheard), Some((waited, "_INBOX.x.1")));
            assert_eq!(own.read(&notice(subject.clone(), None)), None, "a client has written there");
            assert_eq!(other.read(&notice(subject, Some(StatusCode::NO_RESPONDERS))), None, "another leader's");
        }
    }

    #[test]
    fn one_notice_starts_a_walk_and_a_second_connection_another_one() {
        let (subjects, hub) = (Subjects::default(), Name::new("hub").unwrap());
        let mut undelivered = Undelivered::new(&subjects, &hub);
        let ids = ["a", "b", "c"].map(grant);
        let of = |undelivered: &Undelivered, id: &Waited, inbox: &str| {
            notice(undelivered.notice_subject(id, inbox).unwrap(), Some(StatusCode::NO_RESPONDERS))
        };
        undelivered.note_repeated(&ids[0].id);
        let repeated = of(&undelivered, &ids[0], "_INBOX.x.1");
        assert_eq!(undelivered.take_no_responders(Time::ORIGIN, &repeated), None, "the notice is of the answer before");
        assert!(!undelivered.has_walk());
        for (id, inbox) in [(&ids[1], "_INBOX.x.2"), (&ids[2], "_INBOX.y.1")] {
            let notice = of(&undelivered, id, inbox);
            assert_eq!(undelivered.take_no_responders(Time::ORIGIN, &notice).as_ref(), Some(id));
        }
        let mut steps = 0;
        while undelivered.step(|_, _| None) {
            steps += 1;
        }
        assert_eq!(steps, 2, "one walk for each connection");
    }

    /// Reaches `undelivered::MAX_REPEATED`.
    #[test]
    fn the_last_repeated_permits_are_remembered() {
        let mut undelivered = Undelivered::new(&Subjects::default(), &Name::new("hub").unwrap());
        let ids: Vec<Waited> = (0..100).map(|number: usize| grant(&number.to_string())).collect();
        ids.iter().for_each(|waited| undelivered.note_repeated(&waited.id));
        ids.iter().for_each(|id| undelivered.note_here(id.clone()));
        assert_eq!(undelivered.take_own().unwrap(), ids[..100 - MAX_REPEATED]);
    }

    #[test]
    fn permits_of_this_process_are_given_up_unless_asked_for_again() {
        let mut undelivered = Undelivered::new(&Subjects::default(), &Name::new("hub").unwrap());
        let ids = ["a", "b"].map(grant);
        assert_eq!(undelivered.take_own(), None);
        ids.iter().for_each(|id| undelivered.note_here(id.clone()));
        undelivered.note_repeated(&ids[0].id);
        assert_eq!(undelivered.take_own(), Some(vec![ids[1].clone()]));
        assert_eq!(undelivered.take_own(), None);
    }

    #[test]
    fn connections_that_may_be_gone_are_bounded() {
        let (subjects, hub) = (Subjects::default(), Name::new("hub").unwrap());
        let mut undelivered = Undelivered::new(&subjects, &hub);
        let id = grant("a");
        for connection in 0..=MAX_GONE {
            let subject = undelivered.notice_subject(&id, &format!("_INBOX.{connection}.1")).unwrap();
            let notice = notice(subject, Some(StatusCode::NO_RESPONDERS));
            assert_eq!(undelivered.take_no_responders(Time::ORIGIN, &notice).as_ref(), Some(&id), "each goes back");
        }
        assert_eq!(undelivered.gone.len(), MAX_GONE);
    }
}
