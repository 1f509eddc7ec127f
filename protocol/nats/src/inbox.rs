//! One subscription for all replies of a connection.

use async_nats::{Client, Message, StatusCode, Subject, SubscribeError, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;

/// The last token of a reply subject begins so if an empty message is to confirm the receipt, in place
/// of answers.
const BRIEF: &str = "receipt-";

/// Whether an empty message is the answer that is wanted on this reply subject.
#[must_use]
pub fn is_brief(reply: &str) -> bool {
    reply.rsplit('.').next().is_some_and(|token| token.starts_with(BRIEF))
}

/// One subscription that receives all replies of a connection. A number tells which question a
/// reply answers.
///
/// The client's own `request()` keeps some memory for every request that is never answered. The
/// worker SDK's client contains an inbox.
pub struct Inbox {
    address: InboxAddress,
    replies: Subscriber,
}

/// The address that replies are sent to. Cheap to clone.
#[derive(Clone, Debug)]
pub struct InboxAddress(Arc<str>);

/// A reply, or the notice that there will be none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxReply {
    /// The reply's payload.
    Answer(Bytes),
    /// The NATS server reports that no subscriber exists.
    NoResponders,
}

impl Inbox {
    /// An inbox on the connection of `client`. It stays open over reconnects.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn open(client: &Client) -> Result<Self, SubscribeError> {
        let address = InboxAddress(format!("{}.", client.new_inbox()).into());
        let replies = client.subscribe(format!("{}*", address.0)).await?;
        Ok(Inbox { address, replies })
    }

    /// The address that replies go to.
    #[must_use]
    pub fn address(&self) -> &InboxAddress {
        &self.address
    }

    /// The next reply, with the number of its question; `None` once the connection is closed. If
    /// this future is dropped, no reply is lost.
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

    /// The subject for the receipt of the message of this number.
    #[must_use]
    pub fn receipt_of(&self, number: u64) -> Subject {
        Subject::from(format!("{}{BRIEF}{number}", self.0))
    }

    /// Any client may write to an inbox. A subject without a number belongs to another sender.
    fn number(&self, subject: &str) -> Option<u64> {
        let token = subject.strip_prefix(&*self.0)?;
        token.strip_prefix(BRIEF).unwrap_or(token).parse().ok()
    }
}

fn reply(message: Message) -> InboxReply {
    match message.status {
        Some(StatusCode::NO_RESPONDERS) => InboxReply::NoResponders,
        Some(_) | None => InboxReply::Answer(message.payload),
    }
}
