//! Answers workers that ask for the access token. The token goes from the provider's task straight
//! to the worker's inbox: no permit loop, status or log ever has it.

use crate::leadership::context::LeaderContext;
use crate::messages::inbound::answer_to;
use async_nats::{Client, HeaderMap, Message, Subscriber};
use futures::StreamExt;
use futures::stream::SelectAll;
use rampmeter_account::{Provider, ProviderError, SharedToken};
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::code::{Code, ERROR_CODE_HEADER, ERROR_HEADER};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::token::AccessToken;
use secrecy::ExposeSecret;

/// How long after a failure the provider is not asked. Workers are told to come back then.
const AFTER_FAILURE: Span = Span::from_secs(5);

/// Where requests for the token of one resource come in.
#[derive(Clone, Debug)]
pub(crate) struct TokenEndpoint {
    client: Client,
    subjects: Subjects,
    resource: Name,
}

/// The requests for the token in one term.
#[derive(Debug)]
pub(crate) struct TokenRequests<'a> {
    endpoint: Option<&'a TokenEndpoint>,
    subscriptions: SelectAll<Subscriber>,
    failed: Option<(Time, ProviderError)>,
}

impl TokenEndpoint {
    pub(crate) fn new(context: &LeaderContext, resource: &Name) -> Self {
        let (client, subjects) = (context.client.clone(), context.subjects.clone());
        TokenEndpoint { client, subjects, resource: resource.clone() }
    }

    /// Sends an answer, if the request's reply subject is allowed.
    async fn send(&self, request: Message, headers: HeaderMap, payload: Vec<u8>) {
        if let Some(reply) = request.reply.and_then(|reply| answer_to(&self.subjects, &request.subject, reply)) {
            self.client.publish_with_headers(reply, headers, payload.into()).await.ok();
        }
    }
}

impl<'a> TokenRequests<'a> {
    /// Listens at `endpoint`; without one, no request ever comes.
    pub(crate) async fn open(endpoint: Option<&'a TokenEndpoint>) -> Self {
        let mut subscriptions = SelectAll::new();
        if let Some(TokenEndpoint { client, subjects, resource }) = endpoint {
            for subject in [subjects.token(resource), subjects.imported_token(resource)] {
                subscriptions.extend(client.subscribe(subject).await.ok());
            }
        }
        TokenRequests { endpoint, subscriptions, failed: None }
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Message {
        match self.subscriptions.next().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// Answers a request with the token of `provider`.
    pub(crate) async fn answer(&mut self, request: Message, provider: &mut impl Provider, clock: Clock) {
        let Some(endpoint) = self.endpoint else { return };
        let recent = self.failed.take().filter(|(at, _)| clock.now().since(*at) < AFTER_FAILURE);
        let token = match &recent {
            Some((_, error)) => Err(error.clone()),
            None => provider.access_token().await,
        };
        self.failed = recent.or_else(|| Some((clock.now(), token.as_ref().err()?.clone())));
        match token {
            Ok(Some(SharedToken { secret, until })) => {
                let token = AccessToken::new(secret.expose_secret(), until.since(clock.now()).millis());
                endpoint.send(request, HeaderMap::new(), json(&token)).await;
            }
            Ok(None) => {}
            Err(error) => {
                let (headers, refused) = refusal(&error);
                endpoint.send(request, headers, json(&refused)).await;
            }
        }
    }
}

/// The answer to a failed request. The text of the error has no secret in it, and nothing that was
/// received.
fn refusal(error: &ProviderError) -> (HeaderMap, Answer<'static>) {
    let code = Code::Unavailable;
    let mut headers = HeaderMap::new();
    headers.insert(ERROR_CODE_HEADER, code.status().to_string());
    headers.insert(ERROR_HEADER, error.to_string());
    let (message, retry_after_ms) = (error.to_string(), Some(AFTER_FAILURE.millis()));
    (headers, Answer::Refused(Refused { retry_after_ms, ..Refused::new(code, message) }))
}

fn json(answer: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).expect("texts and numbers have a JSON form")
}
