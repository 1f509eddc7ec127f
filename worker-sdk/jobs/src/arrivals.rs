//! Jobs that have been published: their lanes need a lane lease.

use crate::lane::{Kept, Lane};
use crate::lane_lease::LaneLease;
use crate::pull;
use crate::store::Store;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::PullConsumer;
use std::collections::BTreeSet;

/// How many are taken at once.
const BATCH: usize = 256;

/// Gives every lane in which a job arrives a lane lease, for ever. A job has arrived once its lane has one.
pub(crate) async fn attend(store: Store, consumer: PullConsumer) {
    loop {
        let messages = pull::next(&store.connection, &consumer, BATCH).await;
        // All these jobs were there before their lane is looked at.
        let lanes: BTreeSet<Lane> =
            messages.iter().filter_map(|message| store.subjects.lane(Kept::Job, &message.subject)).collect();
        for lane in &lanes {
            wake(&store, lane).await;
        }
        for reply in messages.iter().filter_map(|message| message.reply.as_ref()) {
            // Not confirmed: it comes again if this is lost, and does no harm.
            store.connection.client.publish(reply.clone(), AckKind::Ack.into()).await.ok();
        }
    }
}

/// Sees to it that somebody looks at `lane` from now on.
pub(crate) async fn wake(store: &Store, lane: &Lane) {
    loop {
        let after = match store.lane_lease(lane).await {
            None => 0,
            // Whoever has it may have looked already.
            Some(lane_lease) if lane_lease.value == LaneLease::Closing => lane_lease.sequence,
            Some(_) => return,
        };
        if store.pass(lane, LaneLease::Go, after).await.is_ok() {
            return;
        }
    }
}
