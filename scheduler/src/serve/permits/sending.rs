//! Sending what a permit loop has to say.

use crate::serve::messages::inbound::Address;
use crate::serve::messages::reply::{Outgoing, ReplyTo};
use crate::serve::permits::permit_loop::PermitLoop;
use async_nats::{Client, HeaderMap, Subject};
use bytes::Bytes;
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::time::Span;
use rampmeter_scheduler_core::command::Command;
use tokio::sync::mpsc::error::TrySendError;

impl PermitLoop {
    /// The request that has waited for this answer. Those that are answered at once are most of the load, and spared the rest.
    pub(crate) fn waited(&mut self, command: &Command<ReplyTo>) -> Option<PermitId> {
        match command {
            Command::Grant(grant) if grant.repeated => {
                self.undelivered.note_repeated(&grant.id);
                None
            }
            Command::Grant(grant) => (grant.waited > Span::ZERO).then(|| grant.id.clone()),
            Command::Queued { id, .. } => Some(id.clone()),
            Command::Refuse { .. } | Command::Settled { .. } | Command::Announce(_) => None,
        }
    }

    /// Sends all answers that have been made.
    pub(crate) async fn publish(&mut self) {
        for Outgoing { to, waited, headers, payload } in self.outbox.drain() {
            match to {
                Address::Here(asker) => {
                    if let (Err(TrySendError::Closed(_)), Some(id)) =
                        (asker.try_send(InboxReply::Answer(payload)), waited)
                    {
                        self.undelivered.note_here(id);
                    }
                }
                Address::Subject(subject) => {
                    let report_to = waited.and_then(|id| self.undelivered.report_to(&id, &subject));
                    send(&self.client, subject, report_to, headers, payload).await;
                }
            }
        }
    }
}

async fn send(client: &Client, to: Subject, reply: Option<Subject>, headers: Option<HeaderMap>, payload: Bytes) {
    let sent = match (reply, headers) {
        (None, None) => client.publish(to, payload).await,
        (None, Some(headers)) => client.publish_with_headers(to, headers, payload).await,
        (Some(reply), None) => client.publish_with_reply(to, reply, payload).await,
        (Some(reply), Some(headers)) => client.publish_with_reply_and_headers(to, reply, headers, payload).await,
    };
    if let Err(error) = sent {
        tracing::warn!(%error, "an answer could not be sent");
    }
}
