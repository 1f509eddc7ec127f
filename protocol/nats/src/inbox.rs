//! One subscription for all replies of a connection.

use async_nats::{Client, Message, StatusCode, Subject, SubscribeError, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;

/// Prefix of a reply subject's last token that asks for an empty message in place of answers.
const BRIEF: &str = "receipt-";

/// Returns whether this reply subject asks for an empty message in place of an answer.
#[must_use]
pub fn is_brief(reply: &str) -> bool {
    reply.rsplit('.').next().is_some_and(|token| token.starts_with(BRIEF))
}

/// One subscription for all replies of a connection, matched to questions by number. The client's own `request()` leaks
/// some memory for every request that is never answered.
pub struct Inbox {
    address: InboxAddress,
    replies: Subscriber,
}

/// The address of an inbox. Cloning is cheap.
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
    /// Opens an inbox on the connection of `client`, which survives reconnects.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn open(client: &Client) -> Result<Self, SubscribeError> {
        let address = InboxAddress(format!("{}.", client.new_inbox()).into());
        let replies = client.subscribe(format!("{}*", address.0)).await?;
        Ok(Inbox { address, replies })
    }

    /// Returns the address that replies go to.
    #[must_use]
    pub fn address(&self) -> &InboxAddress {
        &self.address
    }

    /// Returns the next reply and its question's number, or `None` once the connection is closed. Cancel-safe.
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
    /// Returns the subject for replies to question `number`.
    #[must_use]
    pub fn of(&self, number: u64) -> Subject {
        Subject::from(format!("{}{number}", self.0))
    }

    /// Returns the subject for the receipt of message `number`.
    #[must_use]
    pub fn receipt_of(&self, number: u64) -> Subject {
        Subject::from(format!("{}{BRIEF}{number}", self.0))
    }

    /// Returns the question's number; `None` for messages of other clients, which have none.
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
