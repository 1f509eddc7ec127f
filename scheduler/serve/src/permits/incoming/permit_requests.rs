//! Requests for permits: from a payload to events of the core.

use crate::messages::inbound::Address;
use crate::messages::message_trace::MessageTrace;
use crate::messages::reply::ReplyTo;
use crate::permits::answers::core_driver::CoreDriver;
use crate::permits::incoming::pricing::Priced;
use crate::permits::watch::leadership_check::LeadershipCheck;
use crate::permits::watch::named_epoch::NamedEpoch;
use rampmeter_nats::entropy::secret;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::incoming::{Incoming, Invalid};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_scheduler_core::event::Event;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::wire;
use std::sync::Arc;

/// How far the clocks of worker and scheduler may differ before a request counts as forgotten.
const CLOCK_TOLERANCE: Span = Span::from_secs(60);

/// What applies to all requests of one message.
#[derive(Clone, Copy)]
pub(crate) struct RequestTerms<'a> {
    /// The class that the subject names.
    class: Option<&'a Name>,
    /// The cost of each request, if it was computed.
    prices: &'a [Option<Priced>],
    /// The traces that the requests belong to.
    trace: Option<&'a MessageTrace>,
}

impl<'a> RequestTerms<'a> {
    pub(crate) fn of(class: Option<&'a Name>, trace: Option<&'a MessageTrace>) -> Self {
        RequestTerms { class, prices: &[], trace }
    }

    pub(crate) fn with_prices(self, prices: &'a [Option<Priced>]) -> Self {
        RequestTerms { prices, ..self }
    }
}

/// What a message says of its sender.
#[derive(Clone, Copy)]
struct Sender<'a> {
    /// The user of NATS, as far as the inbox tells.
    user: &'a str,
    /// The terms of its message. A class that the subject names is the only one that the sender may
    /// ask for.
    terms: RequestTerms<'a>,
}

/// Takes the requests that came in at one time.
pub(crate) struct PermitRequests<'a> {
    now: Time,
    core: &'a mut CoreDriver,
    leadership: &'a LeadershipCheck,
    epochs: &'a mut NamedEpoch,
}

impl<'a> PermitRequests<'a> {
    pub(crate) fn at(
        now: Time,
        core: &'a mut CoreDriver,
        leadership: &'a LeadershipCheck,
        epochs: &'a mut NamedEpoch,
    ) -> Self {
        PermitRequests { now, core, leadership, epochs }
    }

    /// Takes a message, whose subject may name the class of all its requests. A sender that wants
    /// no answer gets no permit.
    pub(crate) fn take(mut self, reply: Option<Address>, payload: &[u8], terms: RequestTerms<'_>) {
        let Some(reply) = reply else { return };
        if let Address::Subject(inbox) = &reply {
            self.core.delivery().undelivered().note_alive(inbox);
        }
        let user = self.core.delivery().user(&reply).to_owned();
        let sender = Sender { user: &user, terms };
        match Incoming::<PermitRequest>::parse(payload) {
            Incoming::One(request) => self.take_one(sender, ReplyTo::alone(reply), request, 0),
            Incoming::Many(requests) => {
                let mut array = requests.is_empty().then(|| self.core.delivery().outbox().begin_array(reply.clone()));
                for (index, request) in requests.into_iter().enumerate() {
                    let to = self.place(&reply, &mut array, &request);
                    self.take_one(sender, to, request, index);
                }
                array.into_iter().for_each(|array| self.core.delivery().outbox().end_array(array));
            }
        }
    }

    /// The place of an answer. Waiting requests of an array are answered one by one, all other
    /// requests together.
    fn place(
        &mut self,
        reply: &Address,
        array: &mut Option<usize>,
        request: &Result<PermitRequest<'_>, Invalid>,
    ) -> ReplyTo {
        match request {
            Ok(PermitRequest { mode: Mode::Wait, .. }) => ReplyTo::alone(reply.clone()),
            Ok(PermitRequest { mode: Mode::Allow | Mode::Reserve, .. }) | Err(_) => {
                let outbox = self.core.delivery().outbox();
                let array = *array.get_or_insert_with(|| outbox.begin_array(reply.clone()));
                outbox.place(array)
            }
        }
    }

    fn take_one(&mut self, sender: Sender<'_>, to: ReplyTo, request: Result<PermitRequest<'_>, Invalid>, index: usize) {
        let Self { now, core, leadership, .. } = self;
        let RequestTerms { class, prices, trace } = sender.terms;
        let mut request = match request {
            Ok(request) => request,
            Err(invalid) => return core.refuse_invalid(to, invalid.id.as_ref(), invalid.to_string()),
        };
        let to = to.with_left(request.left);
        let to = match with_price(core.resource(), &mut request, price(prices, index)) {
            Ok(cost) => to.with_cost(cost),
            Err(reason) => return core.refuse_invalid(to, request.id.as_ref(), format!("`price`: {reason}")),
        };
        let trace = core.begin_trace(*now, (&request, class), (trace, index));
        let _logged = trace.as_deref().map(|trace| in_trace(trace.context()));
        let to = to.with_trace(trace.clone());
        if leadership.is_clearing() {
            let message = "the scheduler has been away; ask again at once".to_owned();
            return core.refuse_traced(*now, to, request.id.as_ref(), (Code::Unavailable, message));
        }
        if let Some(late_by) = forgotten_for(&request) {
            let message = format!("`sent_unix_ms`: sent so long ago that its `max_wait_ms` passed {late_by} ms ago");
            return core.refuse_traced(*now, to, request.id.as_ref(), (Code::NotInTime, message));
        }
        self.note_epoch(request.epoch);
        let Self { now, core, .. } = self;
        core.note_labels(&request.labels);
        let id = request.id.clone().unwrap_or_else(|| PermitId::secret(secret()));
        match wire::ask(core.resource(), to, sender.user, id, &request, class) {
            Ok(ask) => {
                let traced = trace.map(|trace| (trace, ask.id.clone()));
                core.handle(*now, Event::Ask(ask));
                traced.into_iter().for_each(|(trace, id)| core.note_waiting(*now, &trace, &id));
            }
            Err((to, refusal)) => core.refuse(*now, to, request.id, refusal),
        }
    }

    /// Takes the epoch that the client has seen. A leader that listens, and has told nobody its
    /// epoch, knows of no epoch before that.
    fn note_epoch(&mut self, named: Option<Epoch>) {
        let Self { now, core, leadership, epochs } = self;
        let is_secret = leadership.is_listening() && !core.delivery().outbox().has_answered();
        let unknown = if is_secret { Epoch::FIRST } else { core.epoch().next() };
        if !epochs.note(*now, unknown, named) {
            return;
        }
        core.tally().named_epochs += 1;
        if epochs.asks(*now) {
            let (resource, epoch) = (core.resource().name(), core.epoch().get());
            tracing::warn!(
                %resource, epoch, named = named.map(Epoch::get),
                "a client names an epoch above ours, which changes no level; asking the store who leads. \
                 If the store was put back, `rampmeter empty` takes the stock that may be spent"
            );
            core.handle(*now, Event::HigherEpochNamed);
        }
    }
}

/// Adds the trace to log lines, until the returned value is dropped.
pub(super) fn in_trace(context: TraceContext) -> tracing::span::EnteredSpan {
    tracing::error_span!("traced", trace_id = %context.trace()).entered()
}

fn price(prices: &[Option<Priced>], index: usize) -> Option<&Priced> {
    prices.get(index)?.as_ref()
}

/// Gives a request the cost that was computed for it, and returns that cost. Units that no limit
/// counts are left out: the worker could not know.
fn with_price(
    resource: &Resource,
    request: &mut PermitRequest<'_>,
    price: Option<&Priced>,
) -> Result<Option<Arc<Cost<'static>>>, String> {
    match price {
        Some(Ok(cost)) => {
            for (unit, amount) in cost.iter().filter(|(unit, _)| resource.counts(unit)) {
                request.cost.set(unit.to_owned(), amount).map_err(|error| error.to_string())?;
            }
            Ok(Some(Arc::clone(cost)))
        }
        Some(Err(reason)) => Err(reason.clone()),
        None if request.price.is_some() => {
            Err(format!("`{}` computes no costs; set `pricing` of the resource, or give a `cost`", resource.name()))
        }
        None => Ok(None),
    }
}

/// For how many milliseconds the sender of a request has certainly given up, in spite of the
/// difference of clocks. Such a request was held back while its sender was disconnected.
fn forgotten_for(request: &PermitRequest<'_>) -> Option<u64> {
    let (sent, most) = (request.sent_unix_ms?, request.max_wait_ms?);
    let given_up = sent as f64 + most.span().millis() + CLOCK_TOLERANCE.millis();
    let late = unix_ms() as f64 - given_up;
    (late > 0.0).then_some(late as u64)
}
