//! Computes the costs of requests that give a body instead, on a separate thread so that no other request waits.

use crate::messages::inbound::{Endpoint, Inbound};
use crate::permits::incoming::waiting_messages::WaitingMessages;
use rampmeter_config::Pricing;
use rampmeter_protocol::bounds::MAX_BATCH;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::incoming::Incoming;
use rampmeter_protocol::price::Price;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_sentinel_hub::{Api, Estimate, Given};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Bound on the bodies in one message. Each may take a tenth of a second.
const MAX_BODIES: usize = 16;
/// Bound on the bytes of a body: as many as a message over NATS may have.
const LONGEST_BODY: usize = 1024 * 1024;
/// The key of a price, as every JSON client writes it.
const PRICE: &[u8] = b"\"price\"";
/// Capacity of each channel between loop and thread, in messages.
const UNDER_WAY: usize = 1;

/// Bound on the bytes of messages that wait for the thread, which reads them within a second or two.
const WAITING_BYTES: usize = 16 << 20;

/// A computed cost, or why there is none.
pub(crate) type Priced = Result<Arc<Cost<'static>>, Unpriced>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unpriced {
    /// The request is invalid, or its body lacks information.
    Wrong(String),
    /// Too many bodies wait to be read.
    TooMany,
}

/// A message with the computed costs of its elements; `None` for elements that state their cost.
#[derive(Debug)]
pub(crate) struct PricedMessage {
    pub(crate) inbound: Inbound,
    pub(crate) prices: Vec<Option<Priced>>,
}

/// The thread that computes costs, and the messages that wait for it.
#[derive(Debug)]
pub(crate) struct Prices {
    waiting: WaitingMessages,
    to_thread: mpsc::Sender<Inbound>,
    priced: mpsc::Receiver<PricedMessage>,
}

impl Prices {
    /// Starts the thread, which ends when this is dropped. `None` if the system can't start one.
    pub(crate) fn start(pricing: Pricing) -> Option<Self> {
        let (to_thread, unpriced) = mpsc::channel(UNDER_WAY);
        let (done, priced) = mpsc::channel(UNDER_WAY);
        let started =
            std::thread::Builder::new().name("pricing".to_owned()).spawn(move || run(pricing, unpriced, &done));
        if let Err(error) = started {
            tracing::error!(%error, "there is no thread to compute costs on");
            return None;
        }
        Some(Prices { waiting: WaitingMessages::in_room(WAITING_BYTES), to_thread, priced })
    }

    /// Queues a message whose elements have prices, or returns it if too many wait. Users take turns.
    pub(crate) fn push(&mut self, inbound: Inbound) -> Option<PricedMessage> {
        let refused = self.waiting.try_push(inbound).err();
        self.feed();
        refused.map(|inbound| PricedMessage { inbound, prices: vec![Some(Err(Unpriced::TooMany)); MAX_BATCH] })
    }

    /// Returns the next message whose costs have been computed. Cancel-safe.
    pub(crate) async fn next(&mut self) -> PricedMessage {
        let priced = self.priced.recv().await.expect("the thread ends with this");
        self.feed();
        priced
    }

    fn feed(&mut self) {
        while let Ok(place) = self.to_thread.try_reserve() {
            let Some(inbound) = self.waiting.pop() else { return };
            place.send(inbound);
        }
    }
}

fn run(pricing: Pricing, mut unpriced: mpsc::Receiver<Inbound>, done: &mpsc::Sender<PricedMessage>) {
    while let Some(inbound) = unpriced.blocking_recv() {
        let prices = prices(pricing, &inbound.payload);
        if done.blocking_send(PricedMessage { inbound, prices }).is_err() {
            return;
        }
    }
}

/// Returns whether an element of the message may have a price. Messages without any are not parsed twice.
pub(crate) fn wants_price(message: &Inbound) -> bool {
    let is_permit = matches!(message.endpoint, Endpoint::Permit | Endpoint::PermitOf(_));
    is_permit && message.reply.is_some() && contains(&message.payload, PRICE)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn prices(pricing: Pricing, payload: &[u8]) -> Vec<Option<Priced>> {
    let requests = match Incoming::<PermitRequest<'_>>::parse(payload) {
        Incoming::One(request) => vec![request],
        Incoming::Many(requests) => requests,
    };
    let mut bodies = 0;
    let mut priced = |request: &PermitRequest<'_>| {
        let price = request.price.as_ref()?;
        bodies += 1;
        Some(match bodies > MAX_BODIES {
            true => Err(format!("a message has at most {MAX_BODIES} bodies to price")),
            false if !request.cost.is_empty() => Err("give a `cost` or a `price`, not both".to_owned()),
            false => cost(pricing, price).map(Arc::new),
        })
        .map(|priced| priced.map_err(Unpriced::Wrong))
    };
    requests.iter().map(|request| request.as_ref().ok().and_then(&mut priced)).collect()
}

fn cost(pricing: Pricing, price: &Price<'_>) -> Result<Cost<'static>, String> {
    if *price.kind != *pricing.as_str() {
        return Err(format!("`kind`: this resource prices \"{}\", not `{}`", pricing, &*price.kind));
    }
    if price.body.get().len() > LONGEST_BODY {
        return Err(format!("`body`: a body has at most {LONGEST_BODY} bytes"));
    }
    let api: Api = price.api.parse().map_err(|error| format!("`api`: {error}"))?;
    let given = match &price.given {
        Some(given) => serde_json::from_str(given.get()).map_err(|error| format!("`given`: {error}"))?,
        None => Given::default(),
    };
    if given.width.is_some() != given.height.is_some() {
        return Err("`given`: give both `width` and `height`".to_owned());
    }
    let estimate = Estimate::of_body(api, price.body.get(), &given).map_err(|error| error.to_string())?;
    Ok(estimate.cost())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::inbound::Address;
    use bytes::Bytes;
    use rampmeter_protocol::clock::Clock;
    use rampmeter_protocol::time::Span;
    use std::iter::repeat_with;

    fn asking(user: &str, body: &str) -> Inbound {
        let price = serde_json::json!({ "kind": "sentinel-hub", "api": "process", "body": { "evalscript": body } });
        let payload = Bytes::from(serde_json::json!({ "price": price }).to_string());
        let reply = Some(Address::Subject(format!("{user}.a.1").into()));
        Inbound { endpoint: Endpoint::Permit, reply, payload, trace: None }
    }

    /// Messages without room are refused at once and the others priced soon, so a flood leaves room for others.
    #[tokio::test]
    async fn bodies_beyond_the_room_are_refused_at_once_and_the_others_are_priced_soon() {
        let (mut prices, clock) = (Prices::start(Pricing::SentinelHub).unwrap(), Clock::start());
        let script = format!("function setup() {{ return {{ input: [{}", "[0],".repeat(200_000));
        let flood: Vec<PricedMessage> =
            repeat_with(|| asking("flood", &script)).take(100).filter_map(|sent| prices.push(sent)).collect();
        let quiet = prices.push(asking("quiet", &script));
        assert!(quiet.is_none() && (80..100).contains(&flood.len()), "{} are refused", flood.len());
        assert!(flood.iter().all(|refused| refused.prices[0] == Some(Err(Unpriced::TooMany))));
        let mut senders = Vec::new();
        for _ in 0..=100 - flood.len() {
            let PricedMessage { inbound, prices } = prices.next().await;
            assert!(matches!(prices[..], [Some(Err(Unpriced::Wrong(_)))]), "{prices:?}");
            senders.push(inbound.reply.as_ref().and_then(Address::user).map(str::to_owned));
        }
        // After the messages under way, and one turn of the other sender.
        let place = senders.iter().position(|sender| sender.as_deref() == Some("quiet"));
        assert!(place.is_some_and(|place| place <= 4), "{senders:?}");
        assert!(clock.now().since(Clock::START) < Span::from_secs(10), "{:?}", clock.now());
    }
}
