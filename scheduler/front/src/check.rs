//! `/check`, which reverse proxies query before they let a request through.

use super::original_request::OriginalRequest;
use super::permits::{Front, one};
use super::places::{Party, Places};
use super::rate_limit::Policies;
use super::settling::give_back;
use super::token::Caller;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rampmeter_config::{CheckSettings, OnUnavailable};
use rampmeter_listener::Connection;
use rampmeter_protocol::answer::Answer;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::Span;
use rampmeter_serve::messages::message_trace::MessageTrace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;

#[derive(Debug)]
pub(super) struct Check {
    front: Arc<Front>,
    settings: CheckSettings,
    policies: Policies,
    /// Whether the last query got no answer from a scheduler. Only changes are logged.
    is_alone: AtomicBool,
    /// The places of requests that are held back, by the proxy's client.
    held_back: Places<Party>,
}

/// A pending answer. If it is dropped because the proxy has hung up, its permit is given back.
struct Held<'a> {
    check: &'a Check,
    answer: Option<Answer<'static>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(Answer::Granted(granted)) = &self.answer
            && let (Ok(id), Ok(runtime)) = (PermitId::new(&granted.id), Handle::try_current())
        {
            let payload = serde_json::to_vec(&Settle::unused(id)).expect("messages are plain data");
            let Check { front, settings, .. } = self.check;
            runtime.spawn(give_back(front.front_client.clone(), settings.resource.clone(), payload));
        }
    }
}

impl Check {
    /// Creates a check that holds back at most `max_held_back` requests.
    pub(super) fn new(front: Arc<Front>, settings: CheckSettings, max_held_back: usize) -> Self {
        let policies = Policies::new(front.front_client.clone(), settings.resource.clone());
        let held_back = Places::new(max_held_back);
        Check { front, settings, policies, is_alone: AtomicBool::new(false), held_back }
    }

    /// Requests a permit. Without `throttle`, the answer comes at once.
    async fn ask(
        &self,
        caller: &Caller,
        trace: Option<Box<MessageTrace>>,
        (labels, cost): (Labels<'_>, Cost<'_>),
        throttle: Option<Span>,
    ) -> Held<'_> {
        let request = PermitRequest {
            cost,
            class: self.settings.class.as_ref().map(|class| Text::from(&**class)),
            labels,
            mode: throttle.map_or(Mode::Allow, |_| Mode::Wait),
            max_wait_ms: throttle.map(Millis::from),
            left: true,
            ..PermitRequest::default()
        };
        let answers = self.front.permits(caller, &self.settings.resource, trace, vec![Ok(request)]).await;
        Held { check: self, answer: answers.into_iter().next() }
    }

    async fn respond(&self, held: Held<'_>) -> Response {
        let answer = held.answer.as_ref().expect("every element is answered");
        let is_unserved = matches!(answer, Answer::Refused(refused) if is_of_the_front(refused.code));
        self.log_change(is_unserved);
        match (is_unserved, self.settings.on_unavailable) {
            (true, OnUnavailable::Allow) => StatusCode::OK.into_response(),
            (true, OnUnavailable::Refuse) => (StatusCode::SERVICE_UNAVAILABLE, one(answer)).into_response(),
            (false, OnUnavailable::Allow | OnUnavailable::Refuse) => self.pass_on(held).await,
        }
    }

    /// Responds with the scheduler's answer. A grant has no body, since nginx would leave it unread and disconnect.
    async fn pass_on(&self, mut held: Held<'_>) -> Response {
        let answer = held.answer.as_ref().expect("every element is answered");
        let fields = self.policies.fields(answer);
        if let Answer::Granted(granted) = answer {
            wait_out(granted.delay_ms).await;
        }
        match held.answer.take().expect("it was there") {
            Answer::Granted(_) => (StatusCode::OK, fields).into_response(),
            Answer::Queued(_) | Answer::Settled { .. } => StatusCode::OK.into_response(),
            answer @ Answer::Refused(_) => (fields, one(&answer)).into_response(),
        }
    }

    /// Describes what happens to calls while no scheduler answers, for the log.
    fn fallback(&self) -> &'static str {
        match self.settings.on_unavailable {
            OnUnavailable::Refuse => "refused",
            OnUnavailable::Allow => "let through uncounted",
        }
    }

    fn log_change(&self, is_alone: bool) {
        if self.is_alone.swap(is_alone, Ordering::Relaxed) == is_alone {
            return;
        }
        let resource = &self.settings.resource;
        match is_alone {
            true => tracing::warn!(%resource, "no scheduler answers what proxies ask; calls are {}", self.fallback()),
            false => tracing::info!(%resource, "a scheduler answers what proxies ask"),
        }
    }
}

/// Waits out the delay, as the proxy forwards at once. Without one it sets no timer: the shortest takes a millisecond.
async fn wait_out(delay_ms: f64) {
    let delay = Millis::new(delay_ms).map_or(Span::ZERO, Millis::span);
    if delay > Span::ZERO {
        tokio::time::sleep(delay.duration()).await;
    }
}

/// Returns whether the front itself has refused because no scheduler has answered.
fn is_of_the_front(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::UnknownResource)
}

pub(super) async fn check(State(check): State<Arc<Check>>, request: Request) -> Response {
    let (asked, _body) = request.into_parts();
    let caller = asked.extensions.get::<Caller>().expect("the guard adds it to every request");
    let peer = asked.extensions.get::<Connection>().expect("the limiter adds it to every request").address();
    let origin = OriginalRequest::new(&asked, peer, &check.settings.origin, false);
    let cost = &check.settings.cost;
    match origin
        .and_then(|origin| Ok(((origin.labels()?, origin.cost(cost)?), origin.client_address().unwrap_or(peer))))
    {
        Ok((asked_for, client)) => {
            let trace = MessageTrace::of_http(&asked.headers);
            let throttle =
                check.settings.throttle.and_then(|most| Some((most, check.held_back.take(Party::at(client))?)));
            let asking = check.ask(caller, trace, asked_for, throttle.as_ref().map(|(most, _place)| *most));
            let (answer, ()) = tokio::join!(asking, check.policies.first_known());
            check.respond(answer).await
        }
        Err(ambiguity) => (StatusCode::BAD_REQUEST, format!("{ambiguity}\n")).into_response(),
    }
}
