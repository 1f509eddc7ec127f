//! Events that no scheduler has sent make no client deaf: it goes on getting permits, and takes no
//! leader for a former one.

use crate::prelude::*;
use async_nats::jetstream::{consumer::push, stream};

const EVENTS: &str = "rampmeter.event.hub";

/// The text of a job that a consumer delivers on the subject of events. A leader could have its
/// epoch.
#[tokio::test]
async fn a_stored_message_on_the_subject_of_events_is_no_event() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUNDRED).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let hub = client.resource("hub").unwrap();
    // The events that were published before have reached the client when its permit comes.
    let check_that_permits_come = async || {
        let permit = within("a permit", hub.acquire(1).into_future()).await.unwrap();
        drop(permit.begin());
        assert_eq!(worker.status().await.epoch, Epoch::FIRST, "the client has told of no other leader");
    };
    check_that_permits_come().await;
    let liar = nats::connect(&nats).await;
    let mut heard = liar.subscribe(EVENTS).await.unwrap();
    let jetstream = jetstream::new(liar);
    let config = stream::Config { name: "jobs".to_owned(), subjects: vec!["jobs.>".to_owned()], ..Default::default() };
    let stream = jetstream.create_stream(config).await.unwrap();
    let leader = json!({"event": "leader", "epoch": unix_ms(), "leader": "x"}).to_string();
    jetstream.publish("jobs.a", leader.into()).await.unwrap().await.unwrap();
    let config = push::Config { deliver_subject: EVENTS.to_owned(), ..Default::default() };
    stream.create_consumer(config).await.unwrap();
    within("the job is delivered", heard.next()).await.unwrap();
    check_that_permits_come().await;
}
