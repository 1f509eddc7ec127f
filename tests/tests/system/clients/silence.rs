//! What the SDK logs while no scheduler leads the resource of its requests.

use crate::prelude::*;
use tracing::subscriber::{DefaultGuard, set_default};

const RESOURCES: &str =
    "[[resource]]\nname = \"my-api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"1s\"\n";

/// Writes the log of this thread, on which a test and its client run, to the returned file.
fn logged() -> (NamedTempFile, DefaultGuard) {
    let file = NamedTempFile::new().unwrap();
    let lines = tracing_subscriber::fmt().with_writer(file.reopen().unwrap()).with_ansi(false).finish();
    (file, set_default(lines))
}

/// Waits until the log has a line with `text`, and returns it.
async fn line_with(log: &NamedTempFile, text: &str) -> String {
    until(text, async || {
        let log = std::fs::read_to_string(log.path()).unwrap();
        log.lines().find(|line| line.contains(text)).map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn a_mistyped_resource_is_told_with_the_names_that_are_led() {
    let (log, _logging) = logged();
    let (nats, _running) = scheduler::alone(RESOURCES).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let waiting = tokio::spawn(client.resource("my-apo").unwrap().acquire(1).into_future());
    let line = line_with(&log, "no scheduler leads").await;
    assert!(line.contains("WARN") && line.contains("resource=my-apo"), "{line}");
    assert!(line.contains("no scheduler leads `my-apo`; did you mean `my-api`? Schedulers lead `my-api`"), "{line}");
    assert!(!waiting.is_finished(), "by default it waits");
    waiting.abort();
}

#[tokio::test]
async fn a_scheduler_that_does_not_run_is_told_and_that_it_came_too() {
    let (log, _logging) = logged();
    let nats = nats::start().await;
    let client = Client::connect(nats.url()).await.unwrap();
    let waiting = tokio::spawn(client.resource("my-api").unwrap().acquire(1).into_future());
    let line = line_with(&log, "no scheduler has answered for").await;
    assert!(line.contains("WARN") && line.contains("is `rampmeter serve` running?"), "{line}");

    let _running = scheduler::start(&nats, RESOURCES).await;
    let line = line_with(&log, "a scheduler of the resource answers again").await;
    assert!(line.contains("INFO") && line.contains("resource=my-api"), "{line}");
    drop(waiting.await.unwrap().unwrap());
}
