//! Parses requests for permits, and passes them to the core.

use crate::messages::inbound::Address;
use crate::messages::message_trace::{ElementTrace, MessageTrace};
use crate::messages::reply::ReplyTo;
use crate::permits::incoming::pricing::{Priced, Unpriced};
use crate::permits::permit_loop::PermitLoop;
use rampmeter_nats::entropy::secret;
use rampmeter_policy::Resource;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::wire;
use std::sync::Arc;

/// The first token of inboxes of clients that configure no prefix.
pub(super) const COMMON_INBOX: &str = "_INBOX";

/// The tolerated difference between the clocks of worker and scheduler before a request counts as forgotten.
const CLOCK_TOLERANCE: Span = Span::from_secs(60);

/// The terms that apply to all requests of one message.
#[derive(Clone, Copy)]
struct RequestTerms<'a> {
    /// The NATS user, as far as the inbox shows it.
    user: &'a str,
    /// The class in the subject: the only one that the sender may ask for.
    class: Option<&'a Name>,
    /// The computed cost of each request, if any was computed.
    prices: &'a [Option<Priced>],
    trace: Option<&'a MessageTrace>,
}

impl PermitLoop {
    /// Handles a message with requests. Without a reply subject it is ignored.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        reply: Option<Address>,
        payload: &[u8],
        class: Option<&Name>,
        prices: &[Option<Priced>],
        trace: Option<&MessageTrace>,
    ) {
        let Some(reply) = reply else { return };
        if let Address::Subject(inbox) = &reply {
            self.driver.outbox.undelivered.note_alive(inbox);
        }
        let own_user = self.driver.outbox.own_user();
        // The inbox's first token is of a user that may read no others' inboxes, unless it is the common one.
        let user = Some(reply.user().unwrap_or(&own_user)).filter(|user| *user != COMMON_INBOX).unwrap_or_default();
        let terms = RequestTerms { user, class, prices, trace };
        match Incoming::<PermitRequest>::parse(payload) {
            Incoming::One(request) => self.ask_one(now, terms, 0, ReplyTo::alone(reply.clone()), request),
            Incoming::Many(requests) => {
                let mut array = requests.is_empty().then(|| self.driver.outbox.begin_array(reply.clone()));
                for (index, request) in requests.into_iter().enumerate() {
                    let to = self.place(&reply, &mut array, &request);
                    self.ask_one(now, terms, index, to, request);
                }
                array.into_iter().for_each(|array| self.driver.outbox.end_array(array));
            }
        }
    }

    /// Returns the place for an answer. Waiting requests of an array are answered one by one, others together.
    fn place(
        &mut self,
        reply: &Address,
        array: &mut Option<usize>,
        request: &Result<PermitRequest<'_>, Invalid>,
    ) -> ReplyTo {
        match request {
            Ok(PermitRequest { mode: Mode::Wait, .. }) => ReplyTo::alone(reply.clone()),
            Ok(PermitRequest { mode: Mode::Allow | Mode::Reserve, .. }) | Err(_) => {
                let outbox = &mut self.driver.outbox;
                let array = *array.get_or_insert_with(|| outbox.begin_array(reply.clone()));
                outbox.place(array)
            }
        }
    }

    fn ask_one(
        &mut self,
        now: Time,
        terms: RequestTerms<'_>,
        index: usize,
        mut to: ReplyTo,
        request: Result<PermitRequest<'_>, Invalid>,
    ) {
        let RequestTerms { user, class, prices, trace } = terms;
        let Self { driver, term, .. } = self;
        let mut request = match request {
            Ok(request) => request,
            Err(invalid) => return driver.refuse_invalid(now, to, invalid.id.as_ref(), invalid.to_string()),
        };
        to.tells_left = request.left;
        let price = prices.get(index).and_then(Option::as_ref);
        match with_price(driver.core().resource(), &mut request, price) {
            Ok(cost) => to.cost = cost,
            Err(Unpriced::Wrong(reason)) => {
                return driver.refuse_invalid(now, to, request.id.as_ref(), format!("`price`: {reason}"));
            }
            Err(Unpriced::TooMany) => {
                let message = "too many bodies wait to be priced; ask again in a second".to_owned();
                return driver.refuse_with(now, to, request.id.as_ref(), Code::QueueFull, message);
            }
        }
        let trace = ElementTrace { message: trace, index };
        let trace = driver.traces.begin(now, driver.core().resource(), &request, class, trace);
        let _logged = trace.as_deref().map(|trace| in_trace(trace.context()));
        to.trace.clone_from(&trace);
        if term.is_clearing() {
            let message = "the scheduler has been away; ask again at once".to_owned();
            return driver.refuse_with(now, to, request.id.as_ref(), Code::Unavailable, message);
        }
        if let Some(late_by) = forgotten_for(&request) {
            let message = format!("`sent_unix_ms`: sent so long ago that its `max_wait_ms` passed {late_by} ms ago");
            return driver.refuse_with(now, to, request.id.as_ref(), Code::NotInTime, message);
        }
        term.note_named_epoch(now, driver, request.epoch);
        driver.note_labels(&request.labels);
        let id = request.id.clone().unwrap_or_else(|| PermitId::secret(secret()));
        match wire::ask(driver.core().resource(), to, user, id, &request, class) {
            Ok(ask) => {
                let traced = trace.map(|trace| (trace, ask.id.clone()));
                driver.handle(now, Event::Ask(ask));
                traced.into_iter().for_each(|(trace, id)| driver.note_waiting(now, &trace, &id));
            }
            Err((to, refusal)) => driver.refuse(now, to, request.id, refusal),
        }
    }
}

/// Adds the trace to log lines until the returned value is dropped.
pub(super) fn in_trace(context: TraceContext) -> tracing::span::EnteredSpan {
    tracing::error_span!("traced", trace_id = %context.trace()).entered()
}

/// Sets and returns the computed cost of a request, without uncounted units, of which the worker could not know.
fn with_price(
    resource: &Resource,
    request: &mut PermitRequest<'_>,
    price: Option<&Priced>,
) -> Result<Option<Arc<Cost<'static>>>, Unpriced> {
    if request.price.is_none() {
        return Ok(None);
    }
    let Some(priced) = price else {
        let reason = "computes no costs; set `pricing` of the resource, or give a `cost`";
        return Err(Unpriced::Wrong(format!("`{}` {reason}", resource.name())));
    };
    let cost = priced.as_ref().map_err(Unpriced::clone)?;
    for (unit, amount) in cost.iter().filter(|(unit, _)| resource.counts(unit)) {
        request.cost.set(unit.to_owned(), amount).map_err(|error| Unpriced::Wrong(error.to_string()))?;
    }
    Ok(Some(Arc::clone(cost)))
}

/// Returns for how many milliseconds the sender of a request has certainly given up, allowing for the
/// difference of clocks. Such a request was held back while its sender was disconnected.
fn forgotten_for(request: &PermitRequest<'_>) -> Option<u64> {
    let (sent, most) = (request.sent_unix_ms?, request.max_wait_ms?);
    let given_up = sent as f64 + most.span().millis() + CLOCK_TOLERANCE.millis();
    let late = unix_ms() as f64 - given_up;
    (late > 0.0).then_some(late as u64)
}
