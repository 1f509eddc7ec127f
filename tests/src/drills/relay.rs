//! A bad network between workers and schedulers: whole messages are lost, doubled and reordered.

use crate::patience::let_pass;
use crate::rng::Rng;
use async_nats::{Client, Message, Subject, Subscriber};
use futures::StreamExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// The longest delay of a late message: enough for many messages to overtake it.
const LATEST: Duration = Duration::from_millis(50);

/// The percentages of messages with each fault.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Messages that never arrive.
    pub lost: u64,
    /// Messages that arrive twice.
    pub doubled: u64,
    /// Messages that other messages overtake.
    pub late: u64,
}

/// Carries messages between workers with one prefix and schedulers of `hub` with another. Dropping
/// it ends it.
#[derive(Debug)]
pub struct Relay {
    ways: Arc<Ways>,
    _carrying: JoinSet<()>,
}

/// The state that all directions share.
#[derive(Debug)]
struct Ways {
    client: Client,
    inbox: String,
    faults: Faults,
    heals: AtomicBool,
    /// The lock guards the dice, for as long as a throw takes.
    dice: Mutex<Rng>,
    /// The lock guards the workers' reply subjects by number, while one is found or added.
    replies: Mutex<Vec<Subject>>,
}

impl Relay {
    /// Carries messages between workers with the prefix `workers` and schedulers with the prefix
    /// `schedulers`, on the server at `nats_url`.
    pub async fn start(nats_url: &str, workers: &str, schedulers: &str, faults: Faults, dice: Rng) -> Self {
        let client = async_nats::connect(nats_url).await.unwrap();
        let ways = Ways {
            inbox: format!("relay.{}", client.new_inbox()),
            client: client.clone(),
            faults,
            heals: AtomicBool::new(false),
            dice: Mutex::new(dice),
            replies: Mutex::default(),
        };
        let (ways, mut carrying) = (Arc::new(ways), JoinSet::new());
        let answers = client.subscribe(format!("{}.*", ways.inbox)).await.unwrap();
        carrying.spawn(Arc::clone(&ways).carry_answers(answers));
        let asked =
            ["permit", "settle"].map(|what| (format!("{workers}.{what}.hub"), format!("{schedulers}.{what}.hub")));
        let told = (format!("{schedulers}.event.hub"), format!("{workers}.event.hub"));
        for (from, to) in asked.into_iter().chain([told]) {
            let messages = client.subscribe(from).await.unwrap();
            carrying.spawn(Arc::clone(&ways).carry(messages, to.into()));
        }
        Relay { ways, _carrying: carrying }
    }

    /// From now on every message arrives once.
    pub fn heal(&self) {
        self.ways.heals.store(true, Ordering::Relaxed);
    }
}

impl Ways {
    async fn carry(self: Arc<Self>, mut messages: Subscriber, to: Subject) {
        while let Some(message) = messages.next().await {
            let reply = message.reply.clone().map(|reply| self.numbered(reply));
            self.send(message, to.clone(), reply);
        }
    }

    /// The server itself reports *no responders*; no message carries that.
    async fn carry_answers(self: Arc<Self>, mut messages: Subscriber) {
        while let Some(message) = messages.next().await {
            if let Some(to) = self.worker_of(&message).filter(|_| message.status.is_none()) {
                self.send(message, to, None);
            }
        }
    }

    fn numbered(&self, reply: Subject) -> Subject {
        let mut replies = self.replies.lock().expect("no holder of the lock panics");
        replies.push(reply);
        format!("{}.{}", self.inbox, replies.len() - 1).into()
    }

    fn worker_of(&self, answer: &Message) -> Option<Subject> {
        let number: usize = answer.subject.rsplit('.').next()?.parse().ok()?;
        self.replies.lock().expect("no holder of the lock panics").get(number).cloned()
    }

    fn send(self: &Arc<Self>, message: Message, to: Subject, reply: Option<Subject>) {
        for delay in self.arrivals() {
            let (ways, payload, to, reply) = (Arc::clone(self), message.payload.clone(), to.clone(), reply.clone());
            tokio::spawn(async move {
                let_pass(delay, "others overtake this message").await;
                // The test may have ended meanwhile.
                match reply {
                    Some(reply) => ways.client.publish_with_reply(to, reply, payload).await.ok(),
                    None => ways.client.publish(to, payload).await.ok(),
                }
            });
        }
    }

    /// The delays of a message's arrivals: none, one or two.
    fn arrivals(&self) -> Vec<Duration> {
        if self.heals.load(Ordering::Relaxed) {
            return vec![Duration::ZERO];
        }
        let mut dice = self.dice.lock().expect("no holder of the lock panics");
        if dice.chance(self.faults.lost) {
            return Vec::new();
        }
        let copies = 1 + usize::from(dice.chance(self.faults.doubled));
        (0..copies)
            .map(|_| if dice.chance(self.faults.late) { dice.span(Duration::ZERO..LATEST) } else { Duration::ZERO })
            .collect()
    }
}
