//! Waiting for an answer.

use crate::connection::link::{Message, PendingRequest};
use crate::connection::stats::count;
use crate::permit::span::PermitSpan;
use crate::{Call, Error, Permit, Resource};
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::time::Time;
use rampmeter_worker_session::{AskNumber, Denial, Grant};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// A request for a permit, and its deadline.
pub(crate) struct RequestSpec {
    pub(crate) resource: Resource,
    pub(crate) request: Box<PermitRequest<'static>>,
    pub(crate) deadline: Time,
}

impl RequestSpec {
    /// Waits for a permit and its start. Nothing is awaited between the last check of the permit
    /// and the call.
    pub(crate) async fn begin_call(self) -> Result<Call, Error> {
        Ok(RequestFuture::begin(self).await?.ready().await?.begin())
    }
}

/// A request that the driver handles. If it is dropped before its answer, it is cancelled.
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
        let pending = PendingRequest { ask, resource: resource.number(), request, deadline, answer: sender };
        resource.link().send(Message::Ask(pending));
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
    /// If an unread answer is there already, the session gives back its permit too.
    fn drop(&mut self) {
        if !self.answered {
            self.span.note_cancelled();
            let cancel = Message::Cancel { ask: self.ask, resource: self.resource.number() };
            self.resource.link().send(cancel);
        }
    }
}
