//! One subscription for all replies of a connection.

use async_nats::{Client, Message, StatusCode, Subject, SubscribeError, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;

/// Where the replies to all questions of a connection come in, told apart by a number.
///
/// The client's own `request()` keeps some memory for every request that is never answered. The SDK's client has one inside.
pub struct Inbox {
    address: InboxAddress,
    replies: Subscriber,
}

/// What replies are sent to. Cheap to clone.
#[derive(Clone, Debug)]
pub struct InboxAddress(Arc<str>);

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxReply {
    /// Somebody has answered.
    Answer(Bytes),
    /// The server says that nobody listens.
    NobodyThere,
}

impl Inbox {
    /// An inbox on the connection of `client`, which stays open over reconnects.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn open(client: &Client) -> Result<Self, SubscribeError> {
        let address = InboxAddress(format!("{}.", client.new_inbox()).into());
        let replies = client.subscribe(format!("{}*", address.0)).await?;
        Ok(Inbox { address, replies })
    }

    /// Where replies are to be sent.
    #[must_use]
    pub fn address(&self) -> &InboxAddress {
        &self.address
    }

    /// The next reply, with the number of its question; nothing once the connection is closed. A reply that was not
    /// taken because this was dropped is not lost.
    pub async fn next(&mut self) -> Option<(u64, InboxReply)> {
        loop {
            let message = self.replies.next().await?;
            if let Some(number) = self.address.number(&message.subject) {
                return Some((number, reply(message)));
            }
        }
    }
}

impl InboxAddress {
    /// The subject for replies to the question of this number.
    #[must_use]
    pub fn of(&self, number: u64) -> Subject {
        Subject::from(format!("{}{number}", self.0))
    }

    /// Anybody may write to an inbox; what has no number is not for us.
    fn number(&self, subject: &str) -> Option<u64> {
        subject.strip_prefix(&*self.0)?.parse().ok()
    }
}

fn reply(message: Message) -> InboxReply {
    match message.status {
        Some(StatusCode::NO_RESPONDERS) => InboxReply::NobodyThere,
        Some(_) | None => InboxReply::Answer(message.payload),
    }
}
