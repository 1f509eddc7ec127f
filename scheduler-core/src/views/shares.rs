//! How classes and clients share a resource.

use crate::ids::ClassId;
use crate::queue::ServiceCount;
use crate::scheduler::Scheduler;
use rampmeter_protocol::shares::{Share, Shares};
use rampmeter_protocol::time::Time;
use std::cmp::Reverse;
use std::sync::Arc;

/// Clients that are listed; people read no more.
const MAX_CLIENTS_LISTED: usize = 50;
/// Waiting clients that are looked at in each class, which takes a fraction of a millisecond.
const MAX_WAITING_CLIENTS: usize = 1024;

impl<R: Clone> Scheduler<R> {
    /// What classes and clients were granted in the last minutes under this leader.
    #[must_use]
    pub fn shares(&mut self, now: Time) -> Shares {
        self.advance(now);
        let classes: Vec<ServiceCount> =
            (0..).map(ClassId).zip(self.resource().classes()).map(|(id, _)| self.recent().class(id)).collect();
        let all: u128 = classes.iter().map(|count| count.share).sum();
        let queues = self.queues().classes().iter().zip(self.resource().classes());
        let classes =
            queues.zip(&classes).map(|((queue, class), count)| share(&class.name, count, queue.waiting(), all));
        let classes = classes.collect();
        let (clients, more_clients) = self.client_shares(all);
        Shares { over_ms: now.since(self.recent().since()).millis(), classes, clients, more_clients }
    }

    /// The clients to list, and how many more there are.
    fn client_shares(&self, all: u128) -> (Vec<Share>, u64) {
        let mut known = self.recent().clients();
        for queue in self.queues().classes() {
            queue.waiting_clients().take(MAX_WAITING_CLIENTS).for_each(|client| {
                known.entry(client).or_default();
            });
        }
        let mut ranked: Vec<(Arc<str>, ServiceCount, usize)> = known
            .into_iter()
            .map(|(client, count)| (Arc::clone(&client), count, self.queues().waiting_of(&client)))
            .collect();
        // A client that waits and got nothing is what people look for.
        ranked.sort_by_key(|(_, count, waiting)| {
            (count.granted > 0 || *waiting == 0, Reverse(count.share), Reverse(*waiting))
        });
        let more = ranked.len().saturating_sub(MAX_CLIENTS_LISTED) as u64;
        ranked.truncate(MAX_CLIENTS_LISTED);
        (ranked.iter().map(|(client, count, waiting)| share(client, count, *waiting, all)).collect(), more)
    }
}

fn share(name: &str, count: &ServiceCount, waiting: usize, all: u128) -> Share {
    let within = |percent| count.wait_within(percent).map(|wait| wait.millis());
    Share {
        name: name.to_owned(),
        share: if all == 0 { 0.0 } else { count.share as f64 / all as f64 },
        granted: count.granted,
        waiting: waiting as u64,
        starved: count.promoted,
        wait_p50_ms: within(50),
        wait_p99_ms: within(99),
    }
}
