//! The protocol over HTTP: `POST /v1/permit/<resource>` and `POST /v1/settle/<resource>`.

use super::conversation::Conversation;
use super::front_client::FrontClient;
use super::settling::settle_all;
use super::token::Caller;
use super::token_holder::TokenHolder;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::code::Code;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::rate_limit::whole_seconds;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::suggestion::{did_you_mean, quoted};
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::Span;
use rampmeter_serve::messages::message_trace::MessageTrace;
use rampmeter_serve::stop::{Stop, stopped};
use serde::Deserialize;
use std::sync::Arc;

/// Bound on the resources that a client is shown.
const SHOWN_RESOURCES: usize = 8;
/// When a client should come back if no scheduler answers.
const COME_BACK: Span = Span::from_secs(1);

/// One element of an HTTP request, or the refusal of it without asking a scheduler.
type Element<T> = Result<T, Refused<'static>>;

#[derive(Debug)]
pub(super) struct Front {
    pub(super) front_client: FrontClient,
    stopping: Stop,
}

impl Front {
    pub(super) fn new(front_client: FrontClient, stopping: Stop) -> Self {
        Front { front_client, stopping }
    }

    pub(super) async fn permits(
        &self,
        caller: &Caller,
        resource: &Name,
        trace: Option<Box<MessageTrace>>,
        asks: Vec<Element<PermitRequest<'_>>>,
    ) -> Vec<Answer<'static>> {
        let asks = asks.into_iter().map(|ask| {
            let ask = ask?;
            allowed(caller, resource, ask.id.clone(), ask, TokenHolder::permit)
        });
        let conversation = Conversation::new(&self.front_client, resource, trace, self.unserved(resource));
        let mut stopping = self.stopping.clone();
        conversation.answers(asks.collect(), stopped(&mut stopping)).await
    }

    async fn settles(
        &self,
        caller: &Caller,
        resource: &Name,
        trace: Option<Box<MessageTrace>>,
        settles: Vec<Element<Settle<'_>>>,
    ) -> Vec<Answer<'static>> {
        let settles = settles.into_iter().map(|settle| {
            let settle = settle?;
            allowed(caller, resource, Some(settle.id.clone()), settle, TokenHolder::settle)
        });
        let settles: Vec<Element<Settle<'_>>> = settles.collect();
        let allowed: Vec<&Settle<'_>> = settles.iter().flatten().collect();
        let mut answers = settle_all(&self.front_client, resource, trace, &allowed).await.into_iter();
        let unserved = |settle: Settle<'_>| Answer::Refused(refuse(Some(&settle.id), self.unserved(resource)));
        let answers = settles.into_iter().map(|settle| match settle {
            Ok(settle) => answers.next().flatten().unwrap_or_else(|| unserved(settle)),
            Err(refused) => Answer::Refused(refused),
        });
        answers.collect()
    }

    /// Returns the refusal for clients if no scheduler answers.
    fn unserved(&self, resource: &Name) -> Refused<'static> {
        if self.front_client.knows(resource) {
            let refused = Refused::new(Code::Unavailable, format!("no scheduler answers for resource `{resource}`"));
            return Refused { retry_after_ms: Some(COME_BACK.millis()), ..refused };
        }
        let known = || self.front_client.resources().map(|name| &**name);
        let message = format!(
            "no scheduler answers for resource `{resource}`, and this one's configuration has none of that name, but {}{}",
            quoted(known().take(SHOWN_RESOURCES)),
            did_you_mean(resource, known())
        );
        Refused::new(Code::UnknownResource, message)
    }
}

/// Responds to `body`, whose elements are answered by `answers`.
async fn respond<'a, T: Deserialize<'a>, F: Future<Output = Vec<Answer<'static>>>>(
    body: &'a [u8],
    answers: impl FnOnce(Vec<Element<T>>) -> F,
) -> Response {
    match Incoming::<T>::parse(body) {
        Incoming::One(element) => one(&answers(vec![element.map_err(invalid)]).await[0]),
        Incoming::Many(elements) => {
            many(&answers(elements.into_iter().map(|element| element.map_err(invalid)).collect()).await)
        }
    }
}

pub(super) async fn permit(
    State(front): State<Arc<Front>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (resource, trace) = match Name::new(&resource) {
        Ok(resource) => (resource, MessageTrace::of_http(&headers)),
        Err(error) => return one(&unknown(&error)),
    };
    respond(&body, |asks| front.permits(&caller, &resource, trace, asks)).await
}

pub(super) async fn settle(
    State(front): State<Arc<Front>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (resource, trace) = match Name::new(&resource) {
        Ok(resource) => (resource, MessageTrace::of_http(&headers)),
        Err(error) => return one(&unknown(&error)),
    };
    respond(&body, |settles| front.settles(&caller, &resource, trace, settles)).await
}

/// Restricts `asked` to what the token of `caller` allows, or refuses it.
fn allowed<T>(
    caller: &Caller,
    resource: &Name,
    id: Option<PermitId>,
    asked: T,
    held_by: impl FnOnce(&TokenHolder, T) -> Result<T, String>,
) -> Element<T> {
    let Some(holder) = caller.holder() else { return Ok(asked) };
    let held = holder.check_resource(resource).and_then(|()| held_by(holder, asked));
    held.map_err(|forbidden| {
        caller.note_forbidden();
        refuse(id.as_ref(), Refused::new(Code::Forbidden, forbidden))
    })
}

fn unknown(error: &rampmeter_protocol::name::NameError) -> Answer<'static> {
    Answer::Refused(refuse(None, Refused::new(Code::UnknownResource, format!("no resource has such a name: {error}"))))
}

fn invalid(invalid: Invalid) -> Refused<'static> {
    refuse(invalid.id.as_ref(), Refused::new(Code::InvalidRequest, invalid.to_string()))
}

/// Returns a refusal by the front itself. It has no epoch, because no scheduler has answered.
fn refuse(id: Option<&PermitId>, refused: Refused<'static>) -> Refused<'static> {
    Refused { id: id.map(|id| Text::from(id.as_str().to_owned())), ..refused }
}

pub(super) fn one(answer: &Answer<'_>) -> Response {
    let (status, headers) = match answer {
        Answer::Granted(_) | Answer::Queued(_) | Answer::Settled { .. } => (StatusCode::OK, HeaderMap::new()),
        Answer::Refused(refused) => (status(refused.code), retry_after(refused)),
    };
    (status, [json()], headers, text(answer)).into_response()
}

/// Returns the response to an array, whose elements each have a status.
fn many(answers: &[Answer<'_>]) -> Response {
    let texts: Vec<String> = answers.iter().map(text).collect();
    ([json()], format!("[{}]", texts.join(","))).into_response()
}

fn text(answer: &Answer<'_>) -> String {
    let mut text = Vec::new();
    answer.write(&mut text).expect("answers are plain data");
    String::from_utf8(text).expect("JSON is UTF-8")
}

fn json() -> (header::HeaderName, HeaderValue) {
    (header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
}

pub(super) fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).expect("the protocol's numbers are those of HTTP")
}

/// Returns `Retry-After`, if coming back can help.
fn retry_after(refused: &Refused<'_>) -> HeaderMap {
    let seconds = refused.retry_after().map(whole_seconds);
    seconds.map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds))).into_iter().collect()
}
