//! Requests for permits: their options, and the wait for the answer.

use crate::connection::link::Message;
use crate::connection::stats::count;
use crate::permit::span::PermitSpan;
use crate::price::Price;
use crate::{Call, Cost, Error, Permit, Resource};
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::millis::Millis;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::{Mode, PermitRequest, Way};
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_protocol::trace_context::TraceContext;
use rampmeter_worker_session::{AskNumber, Denial, Grant};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::oneshot;

/// Default timeout of `try_acquire`. A late yes or no is worth little.
const TRY_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Default number of repeats. The whole fleet pauses after a 429, so a second one is rare.
pub(crate) const REPEATS: u32 = 3;

/// A request for a [`Permit`]: set its options, then `.await` it or [`run`](Acquire::run) a call.
/// Dropping the future cancels the request at no cost.
///
/// ```no_run
/// # async fn example(hub: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
/// use std::time::Duration;
/// let asking = hub.acquire(1).class("bulk").label("client", "team-a").deadline(Duration::from_secs(30));
/// let permit = asking.await?;
/// # drop(permit);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is asked for until this is awaited"]
pub struct Acquire {
    resource: Resource,
    request: Result<Box<PermitRequest<'static>>, Error>,
    longest_wait: Option<Duration>,
    pub(crate) repeats: u32,
}

impl Acquire {
    pub(crate) fn new(resource: Resource, mode: Mode, cost: Cost) -> Self {
        let request = cost.into_wire().map(|cost| Box::new(PermitRequest { mode, cost, ..PermitRequest::default() }));
        let longest_wait = (mode == Mode::Allow).then_some(TRY_ACQUIRE_TIMEOUT);
        Acquire { resource, request, longest_wait, repeats: REPEATS }
    }

    /// Replaces the cost of the call, for code that receives an `Acquire`.
    pub fn cost(self, cost: impl Into<Cost>) -> Self {
        let cost = cost.into().into_wire();
        self.with(|request| {
            request.price = None;
            cost.map(|cost| request.cost = cost)
        })
    }

    /// Lets the scheduler compute the cost, which [`Permit::cost`] returns. Older schedulers refuse this as invalid.
    pub fn price(self, price: Price) -> Self {
        let price = price.into_wire();
        self.with(|request| {
            request.cost = Default::default();
            price.map(|price| request.price = Some(price))
        })
    }

    /// Sets the priority class in place of the resource's default.
    pub fn class(self, class: &str) -> Self {
        self.with(|request| {
            let name = Name::new(class).map_err(|error| Error::invalid(format!("class {class:?}: {error}")))?;
            request.class = Some(Text::from(name.to_string()));
            Ok(())
        })
    }

    /// Sets a label, which limits match and key on and fair sharing uses.
    pub fn label(self, key: &str, value: &str) -> Self {
        self.with(|request| set(&mut request.labels, key, value))
    }

    /// Excludes an account, for example one that has answered 401. The label `account` names the only one to be used.
    pub fn not(self, account: &str) -> Self {
        self.with(|request| {
            let name = Name::new(account).map_err(|error| Error::invalid(format!("account {account:?}: {error}")))?;
            request.not.push(name);
            Ok(())
        })
    }

    /// Adds another way to make the call: its cost, and labels in place of those of the request, such as those of a
    /// cheaper model. The first way that starts within what it is [worth](Acquire::worth) is taken, or else the one
    /// that starts earliest; [`Permit::way`] tells which.
    ///
    /// ```no_run
    /// # async fn example(api: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
    /// use std::time::Duration;
    /// let asking = api.acquire(1).label("model", "large").worth(Duration::from_secs(5)).or(1, &[("model", "small")]);
    /// let permit = asking.await?;
    /// let model = ["large", "small"][permit.way()];
    /// # drop((permit, model));
    /// # Ok(())
    /// # }
    /// ```
    pub fn or(self, cost: impl Into<Cost>, labels: &[(&str, &str)]) -> Self {
        let cost = cost.into().into_wire();
        self.with(|request| {
            let mut way = Way { cost: cost?, ..Way::default() };
            labels.iter().try_for_each(|(key, value)| set(&mut way.labels, key, value))?;
            request.any_of.push(way);
            Ok(())
        })
    }

    /// Sets how long a start in the way that was described last is worth waiting for.
    pub fn worth(self, wait: Duration) -> Self {
        self.with(|request| {
            let of_last = request.any_of.last_mut().map(|way| &mut way.else_after_ms);
            *of_last.unwrap_or(&mut request.else_after_ms) = Millis::from(Span::from(wait));
            Ok(())
        })
    }

    /// Asks for [what is left](Permit::left) of the permit's limits. Older schedulers refuse this as invalid.
    ///
    /// ```no_run
    /// # async fn example(api: rampmeter_worker_sdk::Resource) -> Result<(), rampmeter_worker_sdk::Error> {
    /// let permit = api.try_acquire(1).label("client", "team-a").with_left().await?;
    /// for left in permit.left() {
    ///     println!("{}: {} {} left", left.limit, left.remaining, left.unit);
    /// }
    /// # drop(permit.begin());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_left(self) -> Self {
        self.with(|request| {
            request.left = true;
            Ok(())
        })
    }

    /// Sets how long the call has waited elsewhere. Among the requests of its client and class, it takes the place of
    /// one sent that much earlier, but at most a minute before the scheduler took over.
    pub fn age(self, age: Duration) -> Self {
        self.with(|request| {
            request.age_ms = Millis::from(Span::from(age));
            Ok(())
        })
    }

    /// Sets the span of the call, as in the header `traceparent` of W3C Trace Context, which becomes the parent of the
    /// scheduler's own span. An invalid text is ignored. With the feature `otel` the current span is the default.
    pub fn traceparent(self, text: &str) -> Self {
        self.with(|request| {
            request.trace = TraceContext::parse(text);
            Ok(())
        })
    }

    /// Sets the longest wait from now to the start of the call. By default `acquire` and `reserve`
    /// wait without a bound, and `try_acquire` waits five seconds for the scheduler's answer.
    pub fn deadline(self, longest_wait: Duration) -> Self {
        Acquire { longest_wait: Some(longest_wait), ..self }
    }

    /// Sets how often [`run`](Acquire::run) repeats a call after a 429, by default 3. A permit alone is not repeated.
    pub fn repeats(self, most: u32) -> Self {
        Acquire { repeats: most, ..self }
    }

    pub(crate) fn into_spec(self) -> Result<RequestSpec, Error> {
        let deadline = self.resource.link().deadline(self.longest_wait);
        Ok(RequestSpec { resource: self.resource, request: self.request?, deadline })
    }

    fn with(mut self, set: impl FnOnce(&mut PermitRequest<'static>) -> Result<(), Error>) -> Self {
        self.request = self.request.and_then(|mut request| set(&mut request).map(|()| request));
        self
    }
}

fn set(labels: &mut Labels<'static>, key: &str, value: &str) -> Result<(), Error> {
    labels.set(key.to_owned(), value.to_owned()).map_err(|error| Error::invalid(format!("label {key:?}: {error}")))
}

impl IntoFuture for Acquire {
    type Output = Result<Permit, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(acquire(self))
    }
}

async fn acquire(options: Acquire) -> Result<Permit, Error> {
    let spec = options.into_spec()?;
    let may_be_far = spec.request.mode == Mode::Reserve;
    let permit = RequestFuture::begin(spec).await?;
    if may_be_far || permit.may_start() {
        return Ok(permit);
    }
    // Boxed to keep this future, of which there may be thousands, small.
    Box::pin(permit.ready()).await
}

pub(crate) struct RequestSpec {
    pub(crate) resource: Resource,
    pub(crate) request: Box<PermitRequest<'static>>,
    pub(crate) deadline: Time,
}

impl RequestSpec {
    /// Waits for a permit and its start. Nothing is awaited between the last check and the call.
    pub(crate) async fn begin_call(self) -> Result<Call, Error> {
        Ok(RequestFuture::begin(self).await?.ready().await?.begin())
    }
}

/// A request that the driver handles. Dropping it before its answer cancels the request.
pub(crate) struct RequestFuture {
    resource: Resource,
    ask: AskNumber,
    deadline: Time,
    answer: oneshot::Receiver<Result<Grant, Denial>>,
    answered: bool,
    span: PermitSpan,
}

impl RequestFuture {
    pub(crate) fn begin(wanted: RequestSpec) -> Self {
        let RequestSpec { resource, mut request, deadline } = wanted;
        let span = PermitSpan::begin(resource.wire_name(), &mut request);
        let ask = resource.link().next_ask();
        let (sender, answer) = oneshot::channel();
        let number = resource.number();
        resource.link().send(Message::Ask { ask, resource: number, request, deadline, answer: sender });
        RequestFuture { resource, ask, deadline, answer, answered: false, span }
    }

    fn permit(&mut self, answer: Result<Grant, Denial>) -> Result<Permit, Error> {
        let counters = &self.resource.link().counters;
        match answer {
            Ok(grant) => {
                count(&counters.granted);
                if grant.is_local() {
                    count(&counters.local);
                }
                self.span.note_granted(&grant);
                Ok(Permit::new(self.resource.clone(), grant, self.deadline, std::mem::take(&mut self.span)))
            }
            Err(denial) => {
                count(&counters.denied);
                self.span.note_denied(&denial);
                Err(Error::denied(self.resource.wire_name(), denial))
            }
        }
    }
}

impl Future for RequestFuture {
    type Output = Result<Permit, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        self.answered = true;
        Poll::Ready(self.permit(answer.unwrap_or(Err(Denial::Closed))))
    }
}

impl Drop for RequestFuture {
    /// The session also gives back the permit of an answer that has arrived but is unread.
    fn drop(&mut self) {
        if !self.answered {
            self.span.note_cancelled();
            let cancel = Message::Cancel { ask: self.ask, resource: self.resource.number() };
            self.resource.link().send(cancel);
        }
    }
}
