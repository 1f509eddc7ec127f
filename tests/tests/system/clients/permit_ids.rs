//! An id is a secret: generated ones cannot be guessed.

use crate::prelude::*;

/// The letters of a UUID, of which 30 are random hexadecimal digits.
const LETTERS: usize = 36;

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
    let (_nats, front, worker) = Worker::beside_front("", HUNDRED).await;
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
