//! How classes and clients share a resource.

use crate::policy::Resource;
use crate::queue::{Queues, RecentService, ServiceCount};
use rampmeter_protocol::shares::{Share, Shares};
use rampmeter_protocol::time::Time;
use std::cmp::Reverse;
use std::sync::Arc;

/// Clients that are listed; people read no more.
const MAX_CLIENTS_LISTED: usize = 50;
/// Waiting clients that are looked at in each class, which takes a fraction of a millisecond.
const MAX_WAITING_CLIENTS: usize = 1024;

/// The recent grants to classes and clients, and how many of their requests wait.
pub(super) fn shares(resource: &Resource, queues: &Queues, recent: &RecentService, now: Time) -> Shares {
    let counts: Vec<ServiceCount> = resource.classes_by_id().map(|(id, _)| recent.class(id)).collect();
    let all: u128 = counts.iter().map(|count| count.share).sum();
    let classes = queues.classes().iter().zip(resource.classes()).zip(&counts);
    let classes = classes.map(|((queue, class), count)| share(&class.name, count, queue.waiting(), all)).collect();
    let (clients, more_clients) = client_shares(queues, recent, all);
    Shares { over_ms: now.since(recent.since()).millis(), classes, clients, more_clients }
}

/// The clients to list, and how many more there are.
fn client_shares(queues: &Queues, recent: &RecentService, all: u128) -> (Vec<Share>, u64) {
    let mut known = recent.clients();
    for queue in queues.classes() {
        queue.waiting_clients().take(MAX_WAITING_CLIENTS).for_each(|client| {
            known.entry(client).or_default();
        });
    }
    let known = known.into_iter().map(|(client, count)| (Arc::clone(&client), count, queues.waiting_of(&client)));
    let mut ranked: Vec<(Arc<str>, ServiceCount, usize)> = known.collect();
    // Clients that wait and got nothing come first, because people look for these.
    ranked.sort_by_key(|(_, count, waiting)| {
        (count.granted > 0 || *waiting == 0, Reverse(count.share), Reverse(*waiting))
    });
    let more = ranked.len().saturating_sub(MAX_CLIENTS_LISTED) as u64;
    ranked.truncate(MAX_CLIENTS_LISTED);
    (ranked.iter().map(|(client, count, waiting)| share(client, count, *waiting, all)).collect(), more)
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
