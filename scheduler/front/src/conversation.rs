//! The permits of one HTTP request, for which a session asks.

use super::front_client::{Exchange, FrontClient};
use super::settling::{MOST_SILENCE, give_back};
use rampmeter_nats::entropy::secret;
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::answer::{Answer, Granted, Refused};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::Time;
use rampmeter_serve::messages::inbound::Endpoint;
use rampmeter_serve::messages::message_trace::MessageTrace;
use rampmeter_worker_session::{AskNumber, BatchNumber, Command, Denial, Event, Grant, ResourceNumber, Session};
use rampmeter_worker_session::{Patience, Unreachable};
use tokio::runtime::Handle;

/// The only resource of the session.
const RESOURCE: ResourceNumber = ResourceNumber(0);

/// Permits that are being requested. They are given back if it is dropped early because its client is gone.
pub(super) struct Conversation<'a> {
    front_client: &'a FrontClient,
    resource: Name,
    exchange: Exchange,
    session: Session,
    /// The elements, by the numbers of their asks.
    elements: Vec<Element>,
    /// The answer to a client if no scheduler answers.
    unserved: Refused<'static>,
}

struct Element {
    id: Option<PermitId>,
    answer: Option<Answer<'static>>,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        front_client: &'a FrontClient,
        resource: &Name,
        trace: Option<Box<MessageTrace>>,
        unserved: Refused<'static>,
    ) -> Self {
        let mut session = Session::new(secret()).relaying();
        let after = Patience::new(MOST_SILENCE).expect("a patience");
        session.set_unreachable(RESOURCE, Unreachable::Fail { after });
        session.handle(front_client.clock.now(), Event::Connected);
        let (resource, exchange) = (resource.clone(), front_client.exchange(resource, trace));
        Conversation { front_client, resource, exchange, session, elements: Vec::new(), unserved }
    }

    /// Returns all answers in the order of `asks`. Ends at once when `stopped` does.
    pub(super) async fn answers(
        mut self,
        asks: Vec<Result<PermitRequest<'_>, Refused<'static>>>,
        stopped: impl Future<Output = ()>,
    ) -> Vec<Answer<'static>> {
        let now = self.front_client.clock.now();
        asks.into_iter().for_each(|ask| self.ask(now, ask));
        tokio::select! {
            biased;
            () = self.ask_until_answered(now) => {}
            () = stopped => {}
        }
        let now = self.front_client.clock.now();
        self.session.handle(now, Event::Closed);
        self.carry_out_all(now).await;
        std::mem::take(&mut self.elements).into_iter().filter_map(|element| element.answer).collect()
    }

    fn ask(&mut self, now: Time, ask: Result<PermitRequest<'_>, Refused<'static>>) {
        let number = AskNumber(self.elements.len() as u64);
        match ask {
            Ok(request) => {
                self.elements.push(Element { id: request.id.clone(), answer: None });
                let deadline = request.max_wait_ms.map_or(Time::NEVER, |most| now + most.span());
                let request = Box::new(request.into_owned());
                self.session.handle(now, Event::Asked { ask: number, resource: RESOURCE, request, deadline });
            }
            Err(refused) => self.elements.push(Element { id: None, answer: Some(Answer::Refused(refused)) }),
        }
    }

    async fn ask_until_answered(&mut self, mut now: Time) {
        let clock = self.front_client.clock;
        loop {
            self.carry_out_all(now).await;
            if self.elements.iter().all(|element| element.answer.is_some()) {
                return;
            }
            let wakeup = clock.instant(self.session.next_wakeup().unwrap_or(Time::NEVER));
            let reply = tokio::time::timeout_at(wakeup.into(), self.exchange.next()).await;
            now = clock.now();
            if let Ok((message, reply)) = reply {
                self.receive(now, BatchNumber(message), &reply);
            }
        }
    }

    async fn carry_out_all(&mut self, now: Time) {
        while let Some(command) = self.session.poll(now) {
            self.carry_out(now, command).await;
        }
    }

    async fn carry_out(&mut self, now: Time, command: Command) {
        match command {
            Command::Ask { batch, payload, .. } => {
                if !self.exchange.ask(&Endpoint::Permit, batch.0, payload).await {
                    self.session.handle(now, Event::Undelivered { batch });
                }
            }
            Command::Settle { batch, payload, .. } => {
                self.session.handle(now, Event::Answered { batch, payload: b"" });
                // The message is not lost if the client hangs up while it waits for room.
                tokio::spawn(give_back(self.front_client.clone(), self.resource.clone(), payload)).await.ok();
            }
            Command::Complete { ask, result } => self.complete(ask, result),
            Command::Renew { .. }
            | Command::Unrenewed { .. }
            | Command::Silent { .. }
            | Command::SilenceOver { .. }
            | Command::Freeze { .. } => {}
        }
    }

    fn receive(&mut self, now: Time, batch: BatchNumber, reply: &InboxReply) {
        let session = &mut self.session;
        match reply {
            InboxReply::NoResponders => session.handle(now, Event::Undelivered { batch }),
            InboxReply::Answer(payload) => self.exchange.with_base_delay(|known| {
                *session.base_delay(RESOURCE) = *known;
                session.handle(now, Event::Answered { batch, payload });
                *known = *session.base_delay(RESOURCE);
            }),
        }
    }

    fn complete(&mut self, ask: AskNumber, result: Result<Grant, Denial>) {
        let element = &mut self.elements[ask.0 as usize];
        element.answer = Some(match result {
            Ok(grant) => {
                // The delay counts from now.
                let delay_ms = grant.start.since(grant.received).millis();
                Answer::Granted(Granted { delay_ms, ..grant.answer })
            }
            Err(Denial::Refused(refused)) => Answer::Refused(refused),
            Err(Denial::TimedOut { .. } | Denial::Unreachable { .. } | Denial::TooManyAsks { .. } | Denial::Closed) => {
                let id = element.id.clone().unwrap_or_else(|| self.session.id(ask));
                Answer::Refused(Refused { id: Some(Text::from(id.as_str().to_owned())), ..self.unserved.clone() })
            }
        });
    }
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        let now = self.front_client.clock.now();
        // When the runtime ends, no task is left to send this.
        let (false, Ok(runtime)) = (self.elements.is_empty(), Handle::try_current()) else { return };
        for element in &self.elements {
            if let Some(Answer::Granted(granted)) = &element.answer
                && let Ok(id) = PermitId::new(&granted.id)
            {
                self.session.handle(now, Event::Settled { resource: RESOURCE, settle: Box::new(Settle::unused(id)) });
            }
        }
        self.session.handle(now, Event::Closed);
        let mut session = std::mem::replace(&mut self.session, Session::new(0));
        while let Some(command) = session.poll(now) {
            if let Command::Settle { payload, .. } = command {
                runtime.spawn(give_back(self.front_client.clone(), self.resource.clone(), payload));
            }
        }
    }
}
