//! Messages that wait for a permit loop, in fair turns, and bounded in number and bytes.
//!
//! Users take turns, and so do the connections of each user, so that a client that sends a flood delays
//! only itself. An echo of the loop stays behind all messages that arrived before it, since it shows their age.

use crate::messages::inbound::{Address, Connection, Endpoint, Inbound};
use crate::permits::incoming::round_robin::{RoundRobin, UserQueue};
use rampmeter_scheduler_core::identity::hash_of;
use std::collections::VecDeque;

/// Bound on the waiting messages: the burst of a fleet whose workers all ask again.
const MOST: usize = 1 << 17;
/// Bound on the bytes of waiting messages: their payloads, of up to a mebibyte, and [`OVERHEAD`] for each.
const MAX_BYTES: usize = 64 << 20;
const OVERHEAD: usize = 256;
/// A user may take this many times the room that it leaves free: two thirds of all if no other user waits.
const SHARE_OF_USER: usize = 2;

type User = u64;
type Connections = RoundRobin<Connection, VecDeque<Numbered>>;

/// The waiting messages. A message without room is dropped and counted; its client asks again. A connection
/// may take as much room as it leaves free: half of all if no other connection waits.
#[derive(Debug)]
pub(crate) struct WaitingMessages {
    users: RoundRobin<User, Connections>,
    /// The waiting echoes, the oldest first.
    echoes: VecDeque<Echo>,
    echoes_so_far: u64,
    /// The number of waiting messages that arrived after the last echo.
    behind: usize,
    /// The number of waiting messages and echoes.
    waiting: usize,
    bytes: usize,
    /// The bound on `bytes`.
    room: usize,
    /// Messages dropped since the last call of `take_lost`.
    lost: u64,
    /// Messages refused since the last call of `take_foreign`.
    foreign: u64,
}

impl Default for WaitingMessages {
    fn default() -> Self {
        WaitingMessages::in_room(MAX_BYTES)
    }
}

impl WaitingMessages {
    /// Creates a queue with room for messages of this many bytes together.
    pub(crate) fn in_room(room: usize) -> Self {
        let (users, echoes) = (RoundRobin::default(), VecDeque::new());
        let (echoes_so_far, behind, waiting, bytes, lost, foreign) = (0, 0, 0, 0, 0, 0);
        WaitingMessages { users, echoes, echoes_so_far, behind, waiting, bytes, room, lost, foreign }
    }

    pub(crate) fn push(&mut self, message: Inbound) {
        self.lost += u64::from(self.try_push(message).is_err());
    }

    /// Adds a message, or returns it if there is no room.
    pub(crate) fn try_push(&mut self, message: Inbound) -> Result<(), Inbound> {
        let (user, connection) = sender(&message);
        let bytes = size(&message);
        let is_echo = message.endpoint == Endpoint::Echo;
        if !(is_echo && self.has_room(bytes) || self.has_room_for(user, connection, bytes)) {
            return Err(message);
        }
        self.bytes += bytes;
        self.waiting += 1;
        if is_echo {
            self.echoes_so_far += 1;
            self.echoes.push_back(Echo { message, ahead: std::mem::take(&mut self.behind) });
        } else {
            self.behind += 1;
            let numbered = Numbered { echoes: self.echoes_so_far, message };
            self.users.add(user, bytes).add(connection, bytes).push_back(numbered);
        }
        Ok(())
    }

    /// Adds a message, or counts it as dropped if its reply subject is not permitted.
    pub(crate) fn push_or_drop(&mut self, message: Option<Inbound>) {
        match message {
            Some(message) => self.push(message),
            None => self.foreign += 1,
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Inbound> {
        let message = match self.echoes.pop_front_if(|echo| echo.ahead == 0) {
            Some(echo) => echo.message,
            None => self.pop_message()?,
        };
        self.waiting -= 1;
        self.bytes -= size(&message);
        Some(message)
    }

    fn pop_message(&mut self) -> Option<Inbound> {
        let (Numbered { echoes, message }, _) = self.users.pop()?;
        let echoes_gone = self.echoes_so_far - self.echoes.len() as u64;
        match self.echoes.get_mut((echoes - echoes_gone) as usize) {
            Some(echo) => echo.ahead -= 1,
            None => self.behind -= 1,
        }
        Some(message)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns how many messages were dropped for lack of room since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Returns how many messages were dropped since the last call because of their reply subject.
    pub(crate) fn take_foreign(&mut self) -> u64 {
        std::mem::take(&mut self.foreign)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.waiting < MOST && self.bytes + bytes <= self.room
    }

    fn has_room_for(&self, user: User, connection: Connection, bytes: usize) -> bool {
        let free = self.room - self.bytes;
        // No lane has more than all lanes together.
        if self.bytes + bytes <= free {
            return self.has_room(bytes);
        }
        let of_user = self.users.bytes(user);
        let of_connection = self.users.get(user).map_or(0, |connections| connections.bytes(connection));
        self.has_room(bytes) && of_user + bytes <= free * SHARE_OF_USER && of_connection + bytes <= free
    }
}

impl UserQueue for VecDeque<Numbered> {
    type Message = Numbered;

    fn pop(&mut self) -> Option<(Numbered, usize)> {
        let numbered = self.pop_front()?;
        let bytes = size(&numbered.message);
        Some((numbered, bytes))
    }
}

/// A message, with the number of echoes before it.
#[derive(Debug)]
pub(crate) struct Numbered {
    echoes: u64,
    message: Inbound,
}

/// An echo, with the number of waiting messages between the previous echo and this one.
#[derive(Debug)]
struct Echo {
    message: Inbound,
    ahead: usize,
}

/// Returns the user and the connection of a message. All messages without a reply subject share a lane.
fn sender(message: &Inbound) -> (User, Connection) {
    let user = message.reply.as_ref().and_then(Address::user);
    (hash_of(user), message.reply.as_ref().map_or(Connection::UNKNOWN, Address::connection))
}

fn size(message: &Inbound) -> usize {
    message.payload.len() + OVERHEAD + message.trace.as_ref().map_or(0, |trace| trace.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(inbox: &str, payload: usize) -> Inbound {
        let reply = (!inbox.is_empty()).then(|| Address::Subject(format!("{inbox}.1").into()));
        let endpoint = if inbox.is_empty() { Endpoint::Echo } else { Endpoint::Permit };
        Inbound { endpoint, reply, payload: Bytes::from(vec![0; payload]), trace: None }
    }

    /// The inboxes of all that is popped; `-` is an echo.
    fn popped(waiting: &mut WaitingMessages) -> Vec<String> {
        let inbox = |message: Inbound| match message.reply {
            Some(Address::Subject(inbox)) => inbox.strip_suffix(".1").unwrap().to_owned(),
            Some(Address::Here(..)) | None => "-".to_owned(),
        };
        std::iter::from_fn(|| waiting.pop()).map(inbox).collect()
    }

    /// The inboxes in the order of service, after each has sent this many messages of this many bytes.
    fn served(sent: &[(&str, usize, usize)]) -> Vec<String> {
        let mut waiting = WaitingMessages::default();
        for (inbox, count, payload) in sent {
            (0..*count).for_each(|_| waiting.push(message(inbox, *payload)));
        }
        let served = popped(&mut waiting);
        assert_eq!((served.len(), waiting.bytes, waiting.waiting), (sent.iter().map(|sent| sent.1).sum(), 0, 0));
        served
    }

    #[test]
    fn a_quiet_client_does_not_wait_for_a_flood() {
        let place = |served: &[String], inbox: &str| served.iter().position(|other| other == inbox).unwrap();
        let arrays = served(&[("u.flood", 20, 1 << 20), ("u.quiet", 1, 100)]);
        assert_eq!(place(&arrays, "u.quiet"), 1, "behind one large message");
        let small = served(&[("u.flood", 10_000, 0), ("u.quiet", 1, 100)]);
        assert_eq!(place(&small, "u.quiet"), 64, "behind one quantum");
    }

    #[test]
    fn a_user_gains_nothing_by_many_connections() {
        let inboxes: Vec<String> = (0..1000).map(|number| format!("flood.{number}")).collect();
        let flood = inboxes.iter().map(|inbox| (&**inbox, 1, 1000));
        let sent: Vec<_> = flood.chain([("quiet.a", 20, 1000)]).collect();
        let last = served(&sent).iter().rposition(|inbox| inbox == "quiet.a").unwrap();
        assert!(last < 60, "two users get the same, so the last of 20 is about the 40th, not the {last}th");
    }

    #[test]
    fn messages_of_one_connection_keep_their_order_and_large_ones_are_paid_for() {
        let served = served(&[("u.large", 4, 40 << 10), ("u.small", 8, 10 << 10)]);
        let text: String = served.iter().map(|inbox| &inbox[2..3]).collect();
        assert_eq!(text, "lsssslssssll");
    }

    #[test]
    fn an_echo_comes_behind_what_came_before_it() {
        let mut waiting = WaitingMessages::default();
        let came = ["", "a.1", "a.1", "", "b.1", "", "a.1"];
        came.iter().for_each(|inbox| waiting.push(message(inbox, 20 << 10)));
        assert_eq!(popped(&mut waiting), ["-", "a.1", "b.1", "a.1", "-", "-", "a.1"]);
    }

    /// Reaches `waiting_messages::MAX_BYTES`.
    #[test]
    fn messages_are_bounded_in_number_and_in_bytes() {
        let kept = |senders: &[&str], count: usize, payload: usize| {
            let mut waiting = WaitingMessages::default();
            for inbox in senders {
                (0..count).for_each(|_| waiting.push(message(inbox, payload)));
            }
            let kept = popped(&mut waiting).len();
            assert_eq!((kept as u64 + waiting.take_lost(), waiting.take_lost()), ((senders.len() * count) as u64, 0));
            kept
        };
        assert_eq!(kept(&["a.1", "a.2", "b.1"], MOST, 0), MOST);
        assert_eq!(kept(&["a.1"], 100, 1 << 20), 32, "half of 64 MiB");
        assert_eq!(kept(&["a.1", "a.2", "a.3"], 100, 1 << 20), 43, "a user has two thirds");
        assert_eq!(kept(&["a.1", "a.2", "a.3", "b.1"], 100, 1 << 20), 53, "half of the rest");
    }
}
