//! An id is a secret: generated ones cannot be guessed, and a chosen one that is in use is refused
//! to another request.

use crate::prelude::*;
use async_nats::{Client, ConnectOptions};

const HUB: &str = r#"
[[resource]]
name = "hub"
start = "full"
limit = [{ name = "many", capacity = 1000, period = "8h", margin = 0 }]
"#;

/// The letters of a UUID, of which 30 are random hexadecimal digits.
const LETTERS: usize = 36;

/// A worker's connection whose inboxes have this first token.
async fn worker_of(nats: &Server, user: &str) -> Client {
    ConnectOptions::new().custom_inbox_prefix(user).connect(nats.url()).await.unwrap()
}

async fn ask(client: &Client, request: Value) -> Value {
    body(&client.request("rampmeter.permit.hub", request.to_string().into()).await.unwrap())
}

/// Later permits start in half a minute, so that their ids are in use until then.
async fn take_all(client: &Client) {
    assert_eq!(ask(client, json!({"cost": {"requests": 1000}})).await["delay_ms"], 0.0);
}

async fn granted(worker: &Worker) -> u64 {
    worker.status().await.counters.granted
}

/// The ids of permits over NATS and over HTTP, alone and in arrays.
async fn generated(worker: &Worker, front: &Front) -> Vec<String> {
    let three = Value::Array(vec![json!({}); 3]);
    let answers = [
        worker.ask(json!({})).await,
        worker.ask(three.clone()).await,
        front.post("/v1/permit/hub", "{}").await.body,
        front.post("/v1/permit/hub", three.to_string()).await.body,
    ];
    let each = answers.iter().flat_map(|answer| answer.as_array().cloned().unwrap_or_else(|| vec![answer.clone()]));
    each.map(|answer| answer["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_client_that_knows_one_id_knows_no_other() {
    let (_nats, front, worker) = Worker::beside_front("", HUB).await;
    let ids = generated(&worker, &front).await;
    assert_eq!(ids.len(), 8);
    for id in &ids {
        assert!(id.len() == LETTERS && id.as_bytes()[14] == b'4', "{id} is a random UUID");
    }
    // Of two random ids, hardly more than the dashes and a few digits are the same.
    for (number, one) in ids.iter().enumerate() {
        for other in &ids[number + 1..] {
            let alike = one.bytes().zip(other.bytes()).filter(|(one, other)| one == other).count();
            assert!(alike < LETTERS / 2, "{one} and {other}");
        }
    }
    let firsts: BTreeSet<&str> = ids.iter().map(|id| &id[..8]).collect();
    assert_eq!(firsts.len(), ids.len(), "they have no prefix in common: {ids:?}");
}

#[tokio::test]
async fn a_chosen_id_in_use_is_refused_to_another_request() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let status = Worker::connect(&nats, "hub").await;
    let worker = worker_of(&nats, "_INBOX_a").await;
    take_all(&worker).await;
    let tile = json!({"id": "tile-7", "cost": {"requests": 2}, "from": "host-1", "labels": {"tile": "7"}});
    assert_eq!(ask(&worker, tile.clone()).await["status"], "granted");
    let others = [
        (worker_of(&nats, "_INBOX_b").await, tile.clone()),
        (worker.clone(), json!({"id": "tile-7", "cost": {"requests": 2}, "from": "host-2"})),
        (worker.clone(), json!({"id": "tile-7", "cost": {"requests": 3}, "from": "host-1"})),
        (worker.clone(), json!({"id": "tile-7", "cost": {"requests": 2}, "from": "host-1", "labels": {"tile": "8"}})),
    ];
    for (client, request) in others {
        let refused = ask(&client, request.clone()).await;
        assert_eq!((&refused["code"], &refused["id"]), (&json!("id_in_use"), &json!("tile-7")), "{request}: {refused}");
    }
    // The same worker on another connection, which may be another process.
    assert_eq!(ask(&worker_of(&nats, "_INBOX_a").await, tile).await["status"], "granted");
    assert_eq!(granted(&status).await, 2);
}
