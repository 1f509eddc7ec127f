//! One question to the leader of a resource, and its answer.

use crate::front_client::FrontClient;
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::name::Name;
use rampmeter_serve::messages::inbound::Endpoint;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long a leader may take. It answers at once, unless it waits for the store.
const LEADER_ANSWERS: Duration = Duration::from_secs(2);

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// There is no scheduler, or no connection.
    #[error("no scheduler leads resource `{0}`")]
    NoLeader(Name),
    /// No answer came. This is also the result if NATS denies this scheduler the question.
    #[error("the leader of resource `{0}` does not answer")]
    Silence(Name),
    /// The leader has refused.
    #[error("{0}")]
    Refused(String),
}

#[derive(Deserialize)]
struct RefusalText {
    message: String,
}

/// Asks at `endpoint`.
pub(super) async fn ask<A: DeserializeOwned>(
    front_client: &FrontClient,
    resource: &Name,
    endpoint: &Endpoint,
    question: Vec<u8>,
) -> Result<A, NoAnswer> {
    match front_client.ask_once(resource, endpoint, question, LEADER_ANSWERS).await {
        Some(InboxReply::Answer(payload)) => read(resource, &payload),
        Some(InboxReply::NoResponders) => Err(NoAnswer::NoLeader(resource.clone())),
        None => Err(NoAnswer::Silence(resource.clone())),
    }
}

/// A refusal is the only answer with a `message`.
fn read<A: DeserializeOwned>(resource: &Name, payload: &[u8]) -> Result<A, NoAnswer> {
    if let Ok(refused) = serde_json::from_slice::<RefusalText>(payload) {
        return Err(NoAnswer::Refused(refused.message));
    }
    serde_json::from_slice(payload).map_err(|_unreadable| NoAnswer::Silence(resource.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::purge::Purged;

    #[test]
    fn a_refusal_is_told_in_its_own_words() {
        let hub = Name::new("hub").unwrap();
        let read = |payload: &str| read::<Purged>(&hub, payload.as_bytes()).map(|purged| purged.ended);
        assert_eq!(read(r#"{"resource": "hub", "epoch": 1, "ended": 3}"#), Ok(3));
        let refusal = r#"{"status": "refused", "code": "unavailable", "message": "ask again", "epoch": 1}"#;
        assert_eq!(read(refusal), Err(NoAnswer::Refused("ask again".to_owned())));
        assert_eq!(read("{}"), Err(NoAnswer::Silence(hub.clone())));
    }
}
