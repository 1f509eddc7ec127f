//! Detects answers that have reached no client.
//!
//! Every answer to a request that has waited carries a reply subject of this loop. If nothing receives the answer,
//! the server sends *no responders* there, at once, on the connection that sent the answer.

use crate::messages::reply::{ReplyTo, Waited};
use async_nats::{Message, StatusCode, Subject};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::scheduler::waiting::QueueCursor;
use std::collections::{BTreeMap, VecDeque};

/// Pause between two probes of one connection's requests, by which earlier probes are answered.
const PROBED_EVERY: Span = Span::from_secs(1);
/// Bound on connections remembered as perhaps gone, more than fail at once. Requests of others are found in turn.
const MAX_GONE: usize = 256;
/// The subject token of notices about the grant of a request that has waited.
const GRANT: &str = "g";
/// The subject token of notices about an update.
const UPDATE: &str = "u";
/// Longer inboxes get no notice, because a server closes a connection whose subjects fill a line of 4 KiB.
const LONGEST_INBOX: usize = 512;
/// Bound on the permits remembered as repeated. A notice arrives almost at once with the repeated request.
const MAX_REPEATED: usize = 64;

/// Permits and connections whose answers have reached no client. A walk is under way from the discovery of a
/// lost connection until all its requests are probed.
#[derive(Debug)]
pub(crate) struct Undelivered {
    /// The prefix of notices' subjects, where no client may publish. Only clients that waited know its random token.
    prefix: String,
    /// Answers that no task of this process awaits.
    here: Vec<Waited>,
    /// Permits that were requested again. A notice about one concerns its earlier answer.
    repeated: VecDeque<PermitId>,
    /// Connections that may be gone, with the time of discovery.
    gone: BTreeMap<Box<str>, Time>,
    /// The walk along all other waiting requests.
    walk: Option<QueueCursor>,
    /// Whether another connection was lost since the walk began.
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

    /// Returns the wildcard subject of all notices.
    pub(crate) fn all(&self) -> String {
        format!("{}>", self.prefix)
    }

    /// Returns the subject for notices that nothing receives at `inbox`, or `None` if the inbox is too long.
    pub(crate) fn notice_subject(&self, Waited { id, is_grant }: &Waited, inbox: &str) -> Option<Subject> {
        let kind = if *is_grant { GRANT } else { UPDATE };
        let subject = || format!("{}{kind}.{}.{inbox}", self.prefix, id.as_str().replace('.', "=")).into();
        (inbox.len() <= LONGEST_INBOX).then(subject)
    }

    /// Parses a notice into the answer and its inbox. `None` for any other message.
    fn read<'a>(&self, notice: &'a Message) -> Option<(Waited, &'a str)> {
        let (kind, rest) = notice.subject.strip_prefix(&self.prefix)?.split_once('.')?;
        let (id, inbox) = rest.split_once('.')?;
        let waited = Waited { id: PermitId::new(&id.replace('=', ".")).ok()?, is_grant: kind == GRANT };
        (notice.status == Some(StatusCode::NO_RESPONDERS)).then_some((waited, inbox))
    }

    /// Notes that no task of this process awaits an answer.
    pub(crate) fn note_here(&mut self, waited: Waited) {
        self.here.push(waited);
    }

    /// Notes that a granted permit has been requested again.
    pub(crate) fn note_repeated(&mut self, id: &PermitId) {
        self.repeated.truncate(MAX_REPEATED - 1);
        self.repeated.push_front(id.clone());
    }

    /// Removes and returns the answers that no task of this process awaits, or `None` if there are none. Leaves
    /// out permits that were requested again, since the new request listens elsewhere.
    pub(crate) fn take_own(&mut self) -> Option<Vec<Waited>> {
        if self.here.is_empty() {
            return None;
        }
        let mut own = std::mem::take(&mut self.here);
        own.retain(|waited| !self.repeated.contains(&waited.id));
        Some(own)
    }

    /// Returns the answer to give up on, if `notice` shows that it has reached no client.
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

    /// Takes one step of the walk with `probe`, along requests whose connections may be gone, if there is a walk.
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

    /// Notes a message of a client, whose connection is therefore not gone, or back.
    pub(crate) fn note_alive(&mut self, inbox: &str) {
        if !self.gone.is_empty() {
            self.gone.remove(connection(inbox));
        }
    }

    /// Has all other waiting requests of the connection of `inbox` probed, since they may be gone too.
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

/// Returns the prefix common to the inboxes of one connection. Most clients subscribe once, and distinguish
/// answers by the last token. An inbox with fewer tokens stands for itself.
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
