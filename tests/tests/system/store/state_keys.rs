//! Signed state: what somebody without a key has written counts as damaged.

use crate::prelude::*;

/// Two resources whose records differ in nothing but their names.
const BOTH: &str = r#"
[[resource]]
name = "hub"
start = "full"
limit = [{ name = "many", capacity = 100, period = "400h", margin = 0 }]
[[resource]]
name = "api"
start = "full"
limit = [{ name = "many", capacity = 100, period = "400h", margin = 0 }]
"#;
const OLD: &str = "an-old-key-of-forty-characters-or-so-0123";
const NEW: &str = "a-new-key-of-forty-characters-or-so-45678";

/// The level of `hub` after a scheduler with the keys of `before` has granted 40 of 100 permits and
/// stopped, `meddle` has changed the store, and one with the keys of `after` has begun.
async fn level(before: &str, after: &str, meddle: impl AsyncFn(&jetstream::kv::Store)) -> f64 {
    let nats = nats::start().await;
    let file = NamedTempFile::new().unwrap();
    let text = |keys: &str| {
        std::fs::write(file.path(), keys).unwrap();
        let with_keys = format!("[nats]\nstate_key_file = {:?}", file.path());
        let text = scheduler::configuration(nats.url(), BOTH);
        if keys.is_empty() { text } else { text.replace("[nats]", &with_keys) }
    };
    let running = scheduler::start_by(&text(before)).await;
    let worker = Worker::connect(&nats, "hub").await;
    worker.ask(json!({"cost": {"requests": 40}})).await;
    scheduler::stop(running).await;
    meddle(&nats::state_bucket(&nats).await).await;
    let running = scheduler::start_by(&text(after)).await;
    let level = worker.status().await.limits[0].level.round();
    scheduler::stop(running).await;
    level
}

/// What a former record of another resource, or of one without keys, says.
async fn of_another(bucket: &jetstream::kv::Store) {
    let record = bucket.get("state.api").await.unwrap().unwrap();
    bucket.put("state.hub", record).await.unwrap();
}

async fn nothing(_: &jetstream::kv::Store) {}

#[tokio::test]
async fn a_record_counts_only_if_a_scheduler_has_signed_it_for_this_resource() {
    let both = format!("{NEW}\n{OLD}\n");
    let turning_on = format!("{OLD}\nunsigned\n");
    let (stock, none, full) = (60.0, 0.0, 100.0);
    assert_eq!(level("", "", of_another).await, full, "without keys, a full record of another resource counts");
    assert_eq!(level(OLD, OLD, of_another).await, none, "the record before it counts, without stock");
    assert_eq!(level(OLD, OLD, nothing).await, stock);
    assert_eq!(level(OLD, &both, nothing).await, stock, "a rotation");
    assert_eq!(level(OLD, NEW, nothing).await, none, "the key is missing");
    assert_eq!(level("", OLD, nothing).await, none, "not signed");
    assert_eq!(level("", &turning_on, nothing).await, stock, "the way to signatures");
    assert_eq!(level(OLD, "", nothing).await, stock, "and back");
}

/// The key is neither in the store nor in an error.
#[tokio::test]
async fn a_state_key_is_shown_nowhere() {
    let nats = nats::start().await;
    let file = NamedTempFile::new().unwrap();
    let text = format!("[nats]\nstate_key_file = {:?}", file.path());
    let text = scheduler::configuration(nats.url(), HUNDRED).replace("[nats]", &text);
    std::fs::write(file.path(), format!("{OLD}\nsecret-but-short")).unwrap();
    let error = scheduler::refused(&text).await;
    assert!(error.starts_with("`nats.state_key_file`: ") && !error.contains("secret"), "{error}");
    std::fs::write(file.path(), OLD).unwrap();
    let running = scheduler::start_by(&text).await;
    let record = nats::state_bucket(&nats).await.get("state.hub").await.unwrap().unwrap();
    let head = String::from_utf8(record.to_vec()).unwrap();
    assert_eq!((head.lines().next().unwrap().split(' ').count(), head.contains(OLD)), (5, false), "{head}");
    scheduler::stop(running).await;
}
