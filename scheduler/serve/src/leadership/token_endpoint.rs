//! Answers requests for the access token, straight from the provider's task: no permit loop, status or log ever has it.

use crate::context::ProcessContext;
use crate::messages::inbound::answer_to;
use crate::permits::answers::outbox::{headers, send};
use async_nats::{HeaderMap, Message, Subscriber};
use futures::StreamExt;
use futures::stream::SelectAll;
use rampmeter_account::{ProviderError, SentinelHub};
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::code::Code;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::token::AccessToken;
use secrecy::ExposeSecret;
use serde::Serialize;

/// How long the provider is not asked after a failure. Workers are told to come back then.
const AFTER_FAILURE: Span = Span::from_secs(5);

#[derive(Debug)]
pub(crate) struct TokenRequests<'a> {
    context: &'a ProcessContext,
    subscriptions: SelectAll<Subscriber>,
    failed: Option<(Time, ProviderError)>,
}

impl<'a> TokenRequests<'a> {
    /// Subscribes to requests for the token of `resource`, if it `is_shared`.
    pub(crate) async fn open(context: &'a ProcessContext, resource: &Name, is_shared: bool) -> Self {
        let ProcessContext { client, subjects, .. } = context;
        let mut subscriptions = SelectAll::new();
        for subject in [subjects.token(resource), subjects.imported_token(resource)].into_iter().filter(|_| is_shared) {
            subscriptions.extend(client.subscribe(subject).await.ok());
        }
        TokenRequests { context, subscriptions, failed: None }
    }

    /// Returns the next request. Never returns if the token is not shared.
    pub(crate) async fn next(&mut self) -> Message {
        match self.subscriptions.next().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn answer(&mut self, request: Message, provider: &mut SentinelHub) {
        let clock = self.context.clock;
        let recent = self.failed.take().filter(|(at, _)| clock.now().since(*at) < AFTER_FAILURE);
        let token = match &recent {
            Some((_, error)) => Err(error.clone()),
            None => provider.access_token().await,
        };
        self.failed = recent.or_else(|| Some((clock.now(), token.as_ref().err()?.clone())));
        match token {
            Ok(Some(token)) => {
                let valid_ms = token.refresh_at.since(clock.now()).millis();
                let token = AccessToken::new(token.secret().expose_secret(), valid_ms);
                self.send(request, None, &token).await;
            }
            Ok(None) => {}
            Err(error) => {
                let refused = refusal(&error);
                self.send(request, headers(&refused), &refused).await;
            }
        }
    }

    /// Sends an answer, if the reply subject is permitted.
    async fn send(&self, request: Message, headers: Option<HeaderMap>, answer: &impl Serialize) {
        let ProcessContext { client, subjects, .. } = self.context;
        let payload = serde_json::to_vec(answer).expect("texts and numbers have a JSON form");
        if let Some(reply) = request.reply.and_then(|reply| answer_to(subjects, &request.subject, reply)) {
            send(client, reply, None, headers, payload.into()).await.ok();
        }
    }
}

/// Returns the answer to a failed request. The error's text contains no secret and nothing that was received.
fn refusal(error: &ProviderError) -> Answer<'static> {
    let retry_after_ms = Some(AFTER_FAILURE.millis());
    Answer::Refused(Refused { retry_after_ms, ..Refused::new(Code::Unavailable, error.to_string()) })
}
