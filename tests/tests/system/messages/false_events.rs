//! Events that no scheduler has sent make no client deaf: it goes on getting permits, and takes no
//! leader for a former one.

use crate::prelude::*;
use async_nats::jetstream::{consumer::push, stream};

const EVENTS: &str = "rampmeter.event.hub";

struct Stage {
    nats: Server,
    worker: Worker,
    hub: Resource,
    _client: Client,
    _scheduler: Running,
}

/// A client that has had a permit, and therefore hears events.
async fn stage() -> Stage {
    let (nats, scheduler) = scheduler::alone(HUNDRED).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let worker = Worker::connect(&nats, "hub").await;
    let stage = Stage { hub: client.resource("hub").unwrap(), nats, worker, _client: client, _scheduler: scheduler };
    stage.check_that_permits_come().await;
    stage
}

impl Stage {
    /// The events that were published before have reached the client when its permit comes.
    async fn check_that_permits_come(&self) {
        let permit = within("a permit", self.hub.acquire(1).into_future()).await.unwrap();
        drop(permit.begin());
        assert_eq!(self.worker.status().await.epoch, Epoch::FIRST, "the client has told of no other leader");
    }
}

fn leader(epoch: u64) -> String {
    json!({"event": "leader", "epoch": epoch, "leader": "x"}).to_string()
}

#[tokio::test]
async fn an_event_of_an_impossible_epoch_is_not_believed() {
    let stage = stage().await;
    let liar = nats::connect(&stage.nats).await;
    let far = unix_ms() + 3_600_000;
    for text in
        [leader(u64::MAX), leader(far), format!(r#"{{"event":"freeze","limits":["many"],"for_ms":9e6,"epoch":{far}}}"#)]
    {
        liar.publish(EVENTS, text.into()).await.unwrap();
    }
    for text in ["", "leader", "[]", "{}", r#"{"event":"leader"}"#, r#"{"event":"leader","epoch":-1,"leader":"x"}"#] {
        liar.publish(EVENTS, text.into()).await.unwrap();
    }
    liar.flush().await.unwrap();
    stage.check_that_permits_come().await;
}

/// The text of a job that a consumer delivers on the subject of events. A leader could have its
/// epoch.
#[tokio::test]
async fn a_stored_message_on_the_subject_of_events_is_no_event() {
    let stage = stage().await;
    let liar = nats::connect(&stage.nats).await;
    let mut heard = liar.subscribe(EVENTS).await.unwrap();
    let jetstream = jetstream::new(liar);
    let config = stream::Config { name: "jobs".to_owned(), subjects: vec!["jobs.>".to_owned()], ..Default::default() };
    let stream = jetstream.create_stream(config).await.unwrap();
    jetstream.publish("jobs.a", leader(unix_ms()).into()).await.unwrap().await.unwrap();
    let config = push::Config { deliver_subject: EVENTS.to_owned(), ..Default::default() };
    stream.create_consumer(config).await.unwrap();
    within("the job is delivered", heard.next()).await.unwrap();
    stage.check_that_permits_come().await;
}
