//! The protocol over HTTP: `POST /v1/permit/<resource>` and `POST /v1/settle/<resource>`.

use super::batch::Batch;
use super::conversation::Conversation;
use super::element::{Answered, Ask, Outcome, refuse};
use super::front_client::FrontClient;
use super::token::Caller;
use crate::serve::messages::inbound::Endpoint;
use crate::serve::messages::message_trace::MessageTrace;
use crate::serve::stop::{Stop, stopped};
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rampmeter_nats::entropy::secret;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::rate_limit::whole_seconds;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::Span;
use serde::Deserialize;
use std::sync::Arc;

/// Answers HTTP clients.
#[derive(Debug)]
pub(super) struct Front {
    front_client: FrontClient,
    stopping: Stop,
}

impl Front {
    pub(super) fn new(front_client: FrontClient, stopping: Stop) -> Self {
        Front { front_client, stopping }
    }

    /// The connection that it asks on.
    pub(super) fn front_client(&self) -> &FrontClient {
        &self.front_client
    }

    /// The answers to requests of `caller` for permits of `resource`.
    pub(super) async fn permits(
        &self,
        caller: &Caller,
        resource: &Name,
        trace: Option<Box<MessageTrace>>,
        asks: impl IntoIterator<Item = Result<PermitRequest<'_>, Answered>>,
    ) -> Vec<Answered> {
        self.answers(caller, resource, (Endpoint::Permit, trace), asks).await
    }

    async fn answers<A: Ask>(
        &self,
        caller: &Caller,
        resource: &Name,
        asked: (Endpoint, Option<Box<MessageTrace>>),
        asks: impl IntoIterator<Item = Result<A, Answered>>,
    ) -> Vec<Answered> {
        let asks = asks.into_iter().map(|ask| allowed(caller, resource, ask?));
        let batch = Batch::new(asks, || PermitId::secret(secret()));
        let conversation = Conversation::new(&self.front_client, resource, asked, batch);
        let (code, message) = match self.front_client.knows(resource) {
            true => (Code::Unavailable, format!("no scheduler answers for resource `{resource}`")),
            false => (
                Code::UnknownResource,
                format!(
                    "no scheduler answers for resource `{resource}`, and this one's configuration has none of that name"
                ),
            ),
        };
        let mut stopping = self.stopping.clone();
        conversation.answers(stopped(&mut stopping), code, &message).await
    }

    /// The response to what `body` asks at `endpoint`.
    async fn respond<'a, A: Ask + Deserialize<'a>>(
        &self,
        caller: &Caller,
        resource: &Name,
        (endpoint, headers): (Endpoint, &HeaderMap),
        body: &'a [u8],
    ) -> Response {
        let asked = (endpoint, MessageTrace::of_http(headers));
        match Incoming::<A>::parse(body) {
            Incoming::One(ask) => {
                let answers = self.answers(caller, resource, asked, [ask.map_err(invalid)]).await;
                answers.into_iter().next().map(one).expect("every element is answered")
            }
            Incoming::Many(asks) => {
                let asks = asks.into_iter().map(|ask| ask.map_err(invalid));
                many(&self.answers(caller, resource, asked, asks).await)
            }
        }
    }
}

/// `POST /v1/permit/<resource>`
pub(super) async fn permit(
    State(front): State<Arc<Front>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match Name::new(&resource) {
        Ok(name) => front.respond::<PermitRequest<'_>>(&caller, &name, (Endpoint::Permit, &headers), &body).await,
        Err(error) => one(unknown(&error)),
    }
}

/// `POST /v1/settle/<resource>`
pub(super) async fn settle(
    State(front): State<Arc<Front>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match Name::new(&resource) {
        Ok(name) => front.respond::<Settle<'_>>(&caller, &name, (Endpoint::Settle, &headers), &body).await,
        Err(error) => one(unknown(&error)),
    }
}

/// `ask` as far as the token of `caller` allows it; otherwise the refusal.
fn allowed<A: Ask>(caller: &Caller, resource: &Name, ask: A) -> Result<A, Answered> {
    let Some(holder) = caller.holder() else { return Ok(ask) };
    let id = ask.id().cloned();
    let held = holder.check_resource(resource).and_then(|()| ask.held_by(holder));
    held.map_err(|forbidden| refuse(id.as_ref(), Code::Forbidden, forbidden.to_string(), None))
}

fn unknown(error: &rampmeter_protocol::name::NameError) -> Answered {
    refuse(None, Code::UnknownResource, format!("no resource has such a name: {error}"), None)
}

fn invalid(invalid: Invalid) -> Answered {
    refuse(invalid.id.as_ref(), Code::InvalidRequest, invalid.to_string(), None)
}

/// The response that is one answer.
pub(super) fn one(answered: Answered) -> Response {
    let (status, headers) = match &answered.outcome {
        Outcome::Granted(_) | Outcome::Settled => (StatusCode::OK, HeaderMap::new()),
        Outcome::Refused(refused) => (status(refused.code), retry_after(refused.retry_after)),
    };
    (status, [json()], headers, answered.text).into_response()
}

/// The response to an array: each element has a status of its own.
fn many(answers: &[Answered]) -> Response {
    let texts: Vec<&str> = answers.iter().map(|answered| answered.text.as_str()).collect();
    ([json()], format!("[{}]", texts.join(","))).into_response()
}

fn json() -> (header::HeaderName, HeaderValue) {
    (header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
}

/// The HTTP status of a refusal.
pub(super) fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).expect("the protocol's numbers are those of HTTP")
}

/// `Retry-After`, if coming back is of use.
fn retry_after(after: Option<Span>) -> HeaderMap {
    after.map(|after| (header::RETRY_AFTER, HeaderValue::from(whole_seconds(after)))).into_iter().collect()
}
