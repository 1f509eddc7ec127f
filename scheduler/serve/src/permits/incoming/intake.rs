//! The input of a permit loop.

use crate::messages::inbound::{Address, Endpoints, Inbound};
use crate::permits::answers::loop_request::LoopRequest;
use crate::permits::incoming::pricing::{PricedMessage, Prices, wants_price};
use crate::permits::incoming::waiting_messages::WaitingMessages;
use async_nats::{Client, Message, SubscribeError, Subscriber};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::unconstrained;

/// Bound on messages taken from the connection at once, before one is handled: a fraction of a millisecond.
const MAX_AT_ONCE: usize = 4096;
/// Bound on reads of the connection before a message is handled. Each read takes some megabytes.
const MAX_READS: usize = 8;

/// Reads orders, messages, probes and notices of *no responders*. A message read while leadership is in doubt
/// is kept and handled later. Messages beyond the bounds are dropped and counted; see [`WaitingMessages`].
#[derive(Debug)]
pub(crate) struct Intake {
    orders: mpsc::Receiver<LoopRequest>,
    subscription: Subscriber,
    /// Messages received over NATS, since the connection's own buffer has no bound in bytes.
    pub(crate) waiting: WaitingMessages,
    probes: Subscriber,
    /// Notices of NATS about answers that have reached no client.
    no_responders: Subscriber,
    /// Messages of this process.
    here: mpsc::Receiver<Inbound>,
    /// Messages whose costs are being computed, if the resource computes any.
    prices: Option<Prices>,
    pub(crate) endpoints: Endpoints,
    /// A message that was read just before a doubt began.
    unread: Option<Inbound>,
}

/// An input of the loop.
#[derive(Debug)]
pub(crate) enum Received {
    LoopRequest(LoopRequest),
    Inbound(Inbound),
    /// A message whose costs have been computed.
    Priced(PricedMessage),
    /// A probe by another scheduler, with the address for the answer.
    Probe(Option<Address>),
    NoResponders(Message),
    End,
}

impl Intake {
    /// Subscribes to all messages of the resource, to `probes`, and to notices at `no_responders`.
    pub(crate) async fn subscribe(
        client: &Client,
        endpoints: Endpoints,
        probes: String,
        no_responders: String,
        (orders, here): (mpsc::Receiver<LoopRequest>, mpsc::Receiver<Inbound>),
        prices: Option<Prices>,
    ) -> Result<Self, SubscribeError> {
        Ok(Intake {
            orders,
            subscription: client.subscribe(endpoints.all()).await?,
            waiting: WaitingMessages::default(),
            probes: client.subscribe(probes).await?,
            no_responders: client.subscribe(no_responders).await?,
            here,
            prices,
            endpoints,
            unread: None,
        })
    }

    /// Returns the next input, without messages unless `reads`. Cancel-safe.
    pub(crate) async fn next(&mut self, reads: bool) -> Received {
        tokio::select! {
            biased;
            order = self.orders.recv() => order.map_or(Received::End, Received::LoopRequest),
            probe = self.probes.next() => {
                probe.map_or(Received::End, |probe| self.probe(probe))
            }
            notice = self.no_responders.next() => notice.map_or(Received::End, Received::NoResponders),
            priced = next_priced(&mut self.prices), if reads => Received::Priced(priced),
            inbound = next_message(&mut self.subscription, &mut self.waiting, &mut self.endpoints, reads) => {
                inbound.map_or(Received::End, Received::Inbound)
            }
            Some(inbound) = self.here.recv(), if reads => Received::Inbound(inbound),
        }
    }

    fn probe(&self, Message { subject, reply, .. }: Message) -> Received {
        Received::Probe(reply.and_then(|reply| self.endpoints.address(&subject, reply)))
    }

    /// Returns a message that has arrived, first one of this process: bursts begin with those from NATS.
    pub(crate) fn ready_message(&mut self) -> Option<Inbound> {
        self.here.try_recv().ok().or_else(|| self.waiting.pop())
    }

    /// Moves messages from the connection to `waiting`. The connection reads in another task on this thread,
    /// which runs first while messages wait: fair turns need all messages, even those still in the socket.
    pub(crate) async fn take_in(&mut self) {
        let Intake { subscription, waiting, endpoints, .. } = self;
        take_in(subscription, waiting, |message| endpoints.inbound(message)).await;
    }

    /// Returns the message if it needs no computed costs. Otherwise it comes back from [`next`](Intake::next)
    /// with them, or is returned at once if too many wait for that.
    pub(crate) fn without_prices(&mut self, inbound: Inbound) -> Option<PricedMessage> {
        match self.prices.as_mut().filter(|_| wants_price(&inbound)) {
            Some(prices) => prices.push(inbound),
            None => Some(PricedMessage { inbound, prices: Vec::new() }),
        }
    }

    /// Returns a notice of *no responders* that has already arrived. It is older than the present messages: a
    /// client that was cut off asks again only after the notice.
    pub(crate) fn ready_no_responders(&mut self) -> Option<Message> {
        self.no_responders.next().now_or_never()?
    }

    /// Keeps a message until the loop is certain to lead.
    pub(crate) fn put_back(&mut self, inbound: Inbound) {
        self.unread = Some(inbound);
    }

    /// Returns the messages of this process, whose age no echo shows, and the one that was put back.
    pub(crate) fn backlog(&mut self) -> Vec<Inbound> {
        self.unread.take().into_iter().chain(std::iter::from_fn(|| self.here.try_recv().ok())).collect()
    }

    /// Ends the subscription. Messages sent before are still to be [read](Self::last).
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        Ok(self.subscription.drain().await?)
    }

    /// Returns the next message from the drained subscription.
    pub(crate) async fn last(&mut self) -> Option<Inbound> {
        next_message(&mut self.subscription, &mut self.waiting, &mut self.endpoints, true).await
    }

    pub(crate) async fn next_order(&mut self) -> Received {
        tokio::select! {
            biased;
            order = self.orders.recv() => order.map_or(Received::End, Received::LoopRequest),
            Some(probe) = self.probes.next() => self.probe(probe),
        }
    }

    /// Closes the channel from this process, and returns its last messages. Later senders fail at once.
    pub(crate) fn close_here(&mut self) -> Vec<Inbound> {
        self.here.close();
        std::iter::from_fn(|| self.here.try_recv().ok()).collect()
    }
}

async fn take_in<M>(
    messages: &mut (impl Stream<Item = M> + Unpin),
    waiting: &mut WaitingMessages,
    mut inbound: impl FnMut(M) -> Option<Inbound>,
) {
    for _ in 0..MAX_READS {
        if !waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        if take_ready(messages, |message| waiting.push_or_drop(inbound(message))) == 0 {
            return;
        }
    }
}

/// Takes what the connection has read, and returns the number of messages.
fn take_ready<M>(messages: &mut (impl Stream<Item = M> + Unpin), mut take: impl FnMut(M)) -> usize {
    for taken in 0..MAX_AT_ONCE {
        // The runtime's budget for this task is spent on what the loop handles, not on reading.
        let Some(Some(message)) = unconstrained(messages.next()).now_or_never() else { return taken };
        take(message);
    }
    MAX_AT_ONCE
}

async fn next_priced(prices: &mut Option<Prices>) -> PricedMessage {
    match prices {
        Some(prices) => prices.next().await,
        None => std::future::pending().await,
    }
}

/// Returns the next waiting message in turn, or waits for one. `None` at the end of the subscription. Unless
/// `reads`, all messages are kept waiting. Cancel-safe.
async fn next_message(
    subscription: &mut Subscriber,
    waiting: &mut WaitingMessages,
    endpoints: &mut Endpoints,
    reads: bool,
) -> Option<Inbound> {
    if let Some(inbound) = reads.then(|| waiting.pop()).flatten() {
        return Some(inbound);
    }
    loop {
        let inbound = endpoints.inbound(subscription.next().await?);
        if reads && inbound.is_some() {
            return inbound;
        }
        waiting.push_or_drop(inbound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::inbound::Endpoint;
    use bytes::Bytes;
    use futures::stream;

    /// How many of `sent` messages are taken before one is handled.
    async fn taken(sent: usize) -> usize {
        let (mut messages, mut waiting) = (stream::iter(0..sent), WaitingMessages::default());
        let inbound = |_| Some(Inbound { endpoint: Endpoint::Permit, reply: None, payload: Bytes::new(), trace: None });
        take_in(&mut messages, &mut waiting, inbound).await;
        assert_eq!(waiting.take_lost(), 0);
        std::iter::from_fn(|| waiting.pop()).count()
    }

    #[tokio::test]
    async fn a_flood_is_taken_in_parts() {
        let mut flood = stream::iter(0..100_000);
        assert_eq!(take_ready(&mut flood, drop), MAX_AT_ONCE);
        assert_eq!((taken(10).await, taken(32_768).await), (10, 32_768));
        assert_eq!(taken(100_000).await, MAX_AT_ONCE * MAX_READS);
    }
}
