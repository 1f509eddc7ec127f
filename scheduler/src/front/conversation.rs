//! Asking until all is answered, or no scheduler answers.

use super::batch::Batch;
use super::element::{Answered, Ask, SchedulerAnswer, refuse, scheduler_answers};
use super::front_client::{FrontClient, RepeatedQuestion};
use crate::serve::messages::inbound::Endpoint;
use crate::serve::messages::message_trace::MessageTrace;
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::code::{Code, Remedy};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use std::time::Duration;
use tokio::runtime::Handle;

/// How long no scheduler may answer before a client is told so. A successor answers 0.3 s after a
/// kill, and a second after a hang.
const MOST_SILENCE: Span = Span::from_secs(1);
/// How long the answer to a request that does not wait may take before it is asked again.
const AT_ONCE: Duration = Duration::from_millis(400);
/// How long a waiting request may be silent before it is asked again. Its place comes every five
/// seconds. Asking again costs no place.
const IN_LINE: Duration = Duration::from_secs(6);
/// The longest pauses before the first and the last repetition; pauses between them double. Jitter
/// keeps clients apart.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(160));
/// When a client is told to come back if no scheduler answers.
const COME_BACK: Span = Span::from_secs(1);

/// One batch on its way. If it is dropped before it is answered, because its client is gone, its
/// permits are given back.
pub(super) struct Conversation<'a, A: Ask> {
    front_client: &'a FrontClient,
    endpoint: Endpoint,
    /// Where permits of the resource are given back.
    settle: String,
    exchange: RepeatedQuestion,
    batch: Batch<A>,
}

impl<'a, A: Ask> Conversation<'a, A> {
    /// A conversation about `resource`, at `endpoint`, in this trace.
    pub(super) fn new(
        front_client: &'a FrontClient,
        resource: &Name,
        (endpoint, trace): (Endpoint, Option<Box<MessageTrace>>),
        batch: Batch<A>,
    ) -> Self {
        let (exchange, settle) =
            (front_client.exchange(resource).in_trace(trace), front_client.subjects().settle(resource));
        Conversation { front_client, endpoint, settle, exchange, batch }
    }

    /// All answers, in order. An ask without an answer gets a refusal of `code` and `message`. Ends
    /// at once when `stopped` does.
    pub(super) async fn answers(
        mut self,
        stopped: impl Future<Output = ()>,
        code: Code,
        message: &str,
    ) -> Vec<Answered> {
        tokio::select! {
            biased;
            () = self.ask_until_answered() => {}
            () = stopped => {}
        }
        if let Some(payload) = self.batch.withdrawal(false) {
            self.front_client.publish(self.settle.clone(), payload).await;
        }
        let come_back = (code.remedy() == Remedy::Repeat).then_some(COME_BACK);
        self.batch.give_up(|id: Option<&PermitId>| refuse(id, code, message.to_owned(), come_back));
        self.batch.take_answers()
    }

    async fn ask_until_answered(&mut self) {
        let clock = self.front_client.clock();
        let (begun, mut last_answer, mut attempts) = (clock.now(), clock.now(), 0);
        while !self.batch.is_done() && clock.now().since(last_answer) < MOST_SILENCE {
            if attempts > 0 {
                tokio::time::sleep(pause(attempts)).await;
            }
            let waited = if attempts == 0 { Span::ZERO } else { clock.now().since(begun) };
            attempts += 1;
            self.batch.forget_places();
            if self.exchange.ask(&self.endpoint, self.batch.payload(clock.now(), waited)).await
                && let Some(answered_at) = self.listen(begun).await
            {
                (last_answer, attempts) = (answered_at, 1);
            }
        }
    }

    /// Takes answers until no more are to come, or until it is time to ask again. Returns the last
    /// time at which a scheduler was known to be there, if one was.
    async fn listen(&mut self, begun: Time) -> Option<Time> {
        let clock = self.front_client.clock();
        let mut last_answer = None;
        while !self.batch.is_done() {
            let silence = self.silence(clock.now().since(begun));
            let reply = tokio::time::timeout(silence, self.exchange.next()).await;
            if self.batch.is_queued() {
                // The silence until now was no sign: a scheduler had said that the request waits.
                last_answer = Some(clock.now());
            }
            let Ok(InboxReply::Answer(payload)) = reply else { break };
            let answers = scheduler_answers(&payload);
            let goes_on = !answers.is_empty() && answers.iter().all(|answer| *answer != SchedulerAnswer::Unavailable);
            let now = clock.now();
            self.exchange.with_base_delay(|base_delay| self.batch.take(now, answers, base_delay));
            let lapsed = self.batch.take_lapsed();
            if goes_on {
                last_answer = Some(now);
            }
            if let Some(payload) = &lapsed {
                self.front_client.publish(self.settle.clone(), payload.clone()).await;
            }
            if !goes_on || lapsed.is_some() {
                break;
            }
        }
        last_answer
    }

    /// How long the silence may last after the batch has waited for `waited`.
    fn silence(&self, waited: Span) -> Duration {
        if !self.batch.is_queued() {
            return AT_ONCE;
        }
        let deadline = self.batch.longest_wait().map(|most| most.saturating_sub(waited).duration() + AT_ONCE);
        deadline.map_or(IN_LINE, |deadline| deadline.min(IN_LINE))
    }
}

impl<A: Ask> Drop for Conversation<'_, A> {
    fn drop(&mut self) {
        // When the runtime ends, no task is left to send this.
        if let (Some(payload), Ok(runtime)) = (self.batch.withdrawal(true), Handle::try_current()) {
            let (front_client, settle) = (self.front_client.clone(), std::mem::take(&mut self.settle));
            runtime.spawn(async move { front_client.publish(settle, payload).await });
        }
    }
}

/// The pause before the next attempt.
fn pause(attempts: u32) -> Duration {
    let (shortest, longest) = PAUSES;
    let most = longest.min(shortest * (1 << attempts.min(10)));
    most.mul_f64(rand::random_range(0.1..1.0))
}
