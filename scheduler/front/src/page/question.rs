//! Asks the leader of a resource one question.

use crate::front_client::FrontClient;
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::name::Name;
use rampmeter_serve::messages::inbound::Endpoint;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a leader may take. It answers at once, unless it waits for the store.
const LEADER_ANSWERS: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// There is no scheduler, or no connection.
    #[error("no scheduler leads resource `{0}`")]
    NoLeader(Name),
    /// No answer came, perhaps because NATS denies this scheduler the question.
    #[error("the leader of resource `{0}` does not answer")]
    Silence(Name),
    #[error("{0}")]
    Refused(String),
}

#[derive(Deserialize)]
struct RefusalText {
    message: String,
}

pub(super) fn payload(question: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(question).expect("a question is plain data")
}

/// Sends a question to `endpoint`, and parses the answer.
pub(super) async fn ask<A: DeserializeOwned>(
    front_client: &FrontClient,
    resource: &Name,
    endpoint: &Endpoint,
    question: &impl Serialize,
) -> Result<A, NoAnswer> {
    match front_client.ask_once(resource, endpoint, payload(question), LEADER_ANSWERS).await {
        Some(InboxReply::Answer(answer)) => read(resource, &answer),
        Some(InboxReply::NoResponders) => Err(NoAnswer::NoLeader(resource.clone())),
        None => Err(NoAnswer::Silence(resource.clone())),
    }
}

/// Parses an answer. Only a refusal has a `message`.
fn read<A: DeserializeOwned>(resource: &Name, answer: &[u8]) -> Result<A, NoAnswer> {
    if let Ok(refused) = serde_json::from_slice::<RefusalText>(answer) {
        return Err(NoAnswer::Refused(refused.message));
    }
    serde_json::from_slice(answer).map_err(|_unreadable| NoAnswer::Silence(resource.clone()))
}
