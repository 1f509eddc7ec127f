//! `rampmeter state`: the content of the store, and its initialisation, which happens only on
//! request.

use crate::prelude::*;

/// Exit code, and standard output and standard error together.
async fn state(arguments: &[&str]) -> (Option<i32>, String) {
    process::told(RAMPMETER, &[&["state"], arguments].concat(), &[]).await
}

/// `rampmeter state init` with these arguments.
async fn init(nats: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let file = file_with(scheduler::configuration(nats.url(), FOUR));
    state(&[&["init", "--config", file.path().to_str().unwrap()], arguments].concat()).await
}

/// The status once the leader has taken notice of a new state.
async fn of_next_epoch(worker: &Worker) -> Status {
    let next = async || Some(worker.status_of_leader().await).filter(|status| status.epoch > Epoch::FIRST);
    until("the leader has taken notice", next).await
}

#[tokio::test]
async fn what_the_store_holds() {
    let (nats, running) = scheduler::alone(FOUR).await;
    Worker::connect(&nats, "hub").await.ask(json!({"cost": {"requests": 3}})).await;
    scheduler::stop(running).await;

    let (code, table) = state(&["--nats", nats.url()]).await;
    assert_eq!(code, Some(0), "{table}");
    for words in [
        vec!["hub · epoch 1 · handed over by scheduler-"],
        vec!["the state, written ", "ago at revision "],
        vec![" few ", " 1 ", " 0"],
    ] {
        assert!(table.lines().any(|line| words.iter().all(|word| line.contains(word))), "{words:?}\n{table}");
    }
    let (code, text) = state(&["--nats", nats.url(), "--json", "hub"]).await;
    let all: Value = serde_json::from_str(&text).unwrap();
    let record = &all[0]["record"];
    assert_eq!((code, &record["epoch"], &record["released"]), (Some(0), &json!(1), &json!(true)));
    assert_eq!(record["levels"][0]["limit"], "few");
}

#[tokio::test]
async fn a_limit_with_keys_shows_the_fullest() {
    let nats = nats::start().await;
    let keyed = FOUR.replace("margin = 0", "margin = 0, key = [\"guild\"]");
    let running = scheduler::start(&nats, &keyed).await;
    let worker = Worker::connect(&nats, "hub").await;
    for (guild, cost) in [("17", 1), ("4", 3)] {
        worker.ask(json!({"cost": {"requests": cost}, "labels": {"guild": guild}})).await;
    }
    scheduler::stop(running).await;
    let (code, table) = state(&["--nats", nats.url()]).await;
    assert_eq!(code, Some(0), "{table}");
    assert!(table.lines().any(|line| line.contains(" few ") && line.contains(" 1")), "{table}");
    assert!(table.contains("`few`: 2 keys are listed; this is the fullest, `4`"), "{table}");
}

#[tokio::test]
async fn a_store_that_is_not_there() {
    let nats = nats::start().await;
    let (code, text) = state(&["--nats", nats.url()]).await;
    assert_eq!(code, Some(1));
    assert!(text.contains("there is no KV bucket `rampmeter`") && text.contains("rampmeter state init"), "{text}");
}

#[tokio::test]
async fn no_state_is_taken_by_mistake() {
    let (nats, _running, worker) = Worker::beside_scheduler(FOUR).await;
    let (code, text) = init(&nats, &["--level", "full"]).await;
    assert_eq!(code, Some(1));
    assert!(text.contains("a scheduler leads `hub`; stop it first, or use --force"), "{text}");
    let (code, text) = init(&nats, &["--level", "empty", "other"]).await;
    assert_eq!((code, text.as_str()), (Some(1), "rampmeter: the configuration has no resource `other`\n"));

    let (code, text) = init(&nats, &["--level", "empty", "--force"]).await;
    assert_eq!(code, Some(0), "{text}");
    let status = of_next_epoch(&worker).await;
    assert!(text.contains(&format!("hub starts empty in epoch {}", status.epoch)), "{text}");
    assert!(status.limits[0].level < 0.1, "{:?}", status.limits);
}

/// A leader whose bucket is gone makes no new one. It reports the loss, and goes on once
/// `rampmeter state init` has made a bucket.
#[tokio::test]
async fn a_bucket_that_was_deleted_is_made_again_on_purpose() {
    let (nats, running) = scheduler::alone(FOUR).await;
    jetstream::new(nats::connect(&nats).await).delete_key_value("rampmeter").await.unwrap();
    let reason = scheduler::trouble(&running, "hub").await;
    assert!(reason.contains("the KV bucket `rampmeter` is gone; `rampmeter state init` makes a new one"), "{reason}");
    assert_eq!(state(&["--nats", nats.url()]).await.0, Some(1), "there is no new bucket");

    let (code, text) = init(&nats, &["--level", "empty", "--force"]).await;
    assert_eq!(code, Some(0), "{text}");
    let worker = Worker::connect(&nats, "hub").await;
    let status = of_next_epoch(&worker).await;
    assert!(status.limits[0].level < 0.1, "{:?}", status.limits);
    until("it is ready again", async || (scheduler::page(&running, "/readyz").await.0 == 200).then_some(())).await;
}
