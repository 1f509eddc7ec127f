//! Handles published jobs, whose lanes need a lane lease.

use crate::lane::lease::LaneLease;
use crate::lane::{Lane, LaneMessage};
use crate::store::Store;
use crate::store::pull;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::PullConsumer;
use std::collections::BTreeSet;

/// Bound on the arrivals handled at once.
const BATCH: usize = 256;

/// Gives every lane with an arriving job a lane lease, for ever. An arrival is then acknowledged.
pub(crate) async fn handle_arrivals(store: Store, consumer: PullConsumer) {
    loop {
        let messages = pull::next(&store.connection, &consumer, BATCH).await;
        // All these jobs were in the stream before their lanes are checked.
        let lanes: BTreeSet<Lane> = messages
            .iter()
            .filter_map(|message| store.layout.subjects.lane(LaneMessage::Job, &message.subject))
            .collect();
        for lane in &lanes {
            ensure_lane_lease(&store, lane).await;
        }
        for reply in messages.iter().filter_map(|message| message.reply.as_ref()) {
            // Sent without confirmation. If it is lost, the arrival comes again, which is harmless.
            store.connection.client.publish(reply.clone(), AckKind::Ack.into()).await.ok();
        }
    }
}

/// Ensures that a worker will check `lane` from now on.
pub(crate) async fn ensure_lane_lease(store: &Store, lane: &Lane) {
    loop {
        let after = match store.lane_lease(lane).await {
            None => 0,
            // The holder of a closing lane lease may already have checked the lane.
            Some(lane_lease) if lane_lease.value == LaneLease::Closing => lane_lease.sequence,
            Some(_) => return,
        };
        if store.put_lane_lease(lane, LaneLease::Go, after).await.is_ok() {
            return;
        }
    }
}
