//! Answering workers that ask for the access token. It goes from the provider's task straight to
//! the worker's inbox: no permit loop, status or log ever has it.

use crate::provider::{Provider, ProviderError, SharedToken};
use crate::serve::leadership::context::LeaderContext;
use async_nats::{Client, HeaderMap, Message, Subscriber};
use futures::StreamExt;
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::token::AccessToken;
use secrecy::ExposeSecret;

/// After a failure workers are told to come back after this time, and the endpoint has its peace.
const AFTER_FAILURE: Span = Span::from_secs(5);
/// The headers of a refusal, as in all answers of the protocol.
const ERROR_CODE: &str = "Nats-Service-Error-Code";
const ERROR: &str = "Nats-Service-Error";

/// Where questions for the token of one resource come in.
#[derive(Clone, Debug)]
pub(crate) struct TokenDesk {
    client: Client,
    subjects: Subjects,
    resource: Name,
}

/// The questions of one term.
#[derive(Debug)]
pub(crate) struct Questions<'a> {
    desk: Option<&'a TokenDesk>,
    subscription: Option<Subscriber>,
    failed: Option<(Time, ProviderError)>,
}

impl TokenDesk {
    pub(crate) fn new(context: &LeaderContext, resource: &Name) -> Self {
        let (client, subjects) = (context.client.clone(), context.subjects.clone());
        TokenDesk { client, subjects, resource: resource.clone() }
    }

    /// Sends an answer, if it may go there.
    async fn send(&self, question: Message, headers: HeaderMap, payload: Vec<u8>) {
        let reply = question.reply.filter(|reply| self.subjects.may_answer_to(reply));
        if let Some(reply) = reply {
            self.client.publish_with_headers(reply, headers, payload.into()).await.ok();
        }
    }
}

impl<'a> Questions<'a> {
    /// Listens at `desk`; without one, no question ever comes.
    pub(crate) async fn open(desk: Option<&'a TokenDesk>) -> Self {
        let subscription = match desk {
            Some(desk) => desk.client.subscribe(desk.subjects.token(&desk.resource)).await.ok(),
            None => None,
        };
        Questions { desk, subscription, failed: None }
    }

    /// The next question.
    pub(crate) async fn next(&mut self) -> Message {
        if let Some(subscription) = &mut self.subscription
            && let Some(question) = subscription.next().await
        {
            return question;
        }
        std::future::pending().await
    }

    /// Answers a question with the token that `provider` has, or gets.
    pub(crate) async fn answer(&mut self, question: Message, provider: &mut impl Provider, clock: Clock) {
        let Some(desk) = self.desk else { return };
        let recent = self.failed.take().filter(|(at, _)| clock.now().since(*at) < AFTER_FAILURE);
        let token = match &recent {
            Some((_, error)) => Err(error.clone()),
            None => provider.access_token().await,
        };
        self.failed = recent.or_else(|| Some((clock.now(), token.as_ref().err()?.clone())));
        match token {
            Ok(Some(SharedToken { secret, until })) => {
                let token = AccessToken::new(secret.expose_secret(), until.since(clock.now()).millis());
                desk.send(question, HeaderMap::new(), json(&token)).await;
            }
            Ok(None) => {}
            Err(error) => {
                let (headers, refused) = refusal(&error);
                desk.send(question, headers, json(&refused)).await;
            }
        }
    }
}

/// The error has no secret in its text, nor anything that was received.
fn refusal(error: &ProviderError) -> (HeaderMap, Answer<'static>) {
    let code = Code::Unavailable;
    let mut headers = HeaderMap::new();
    headers.insert(ERROR_CODE, code.status().to_string());
    headers.insert(ERROR, error.to_string());
    let (message, retry_after_ms) = (error.to_string().into(), Some(AFTER_FAILURE.millis()));
    (headers, Answer::Refused(Refused { id: None, code, message, retry_after_ms, limited_by: None, epoch: 0 }))
}

fn json(answer: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).expect("texts and numbers have a JSON form")
}
