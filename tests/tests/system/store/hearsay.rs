//! The word of one client about another leader changes no level and refuses no call. Operators hear
//! of it, the store is asked, and the client is served.

use super::rollback::HUB;
use crate::prelude::*;

/// The stock of short, long and quota, in whole requests.
async fn levels(worker: &Worker) -> [f64; 3] {
    let status = worker.status().await;
    ["short", "long", "quota"]
        .map(|name| status.limits.iter().find(|limit| &*limit.name == name).unwrap().level.floor())
}

/// Asks once: an answer that says to ask again is a refusal here.
async fn ask_once(worker: &Worker, request: Value) -> Value {
    body(&worker.request("permit", request.to_string()).await)
}

async fn named_in_readiness(running: &Running) -> Option<u64> {
    let (status, page) = scheduler::readiness(running).await;
    assert_eq!(status, 200, "{page}");
    page["resources"]["hub"]["named_epoch"].as_u64()
}

/// By mistake a client may send the time.
#[tokio::test]
async fn a_higher_epoch_takes_no_stock_and_refuses_no_call() {
    for named in [41, unix_ms()] {
        let (_nats, running, worker) = Worker::beside_scheduler(HUB).await;
        for asked in 0..10 {
            let answer = ask_once(&worker, json!({ "epoch": named, "mode": "allow" })).await;
            assert_eq!((&answer["status"], answer["delay_ms"].as_f64()), (&json!("granted"), Some(0.0)), "{asked}");
        }
        let risen = until("the epoch has risen", async || {
            Some(worker.status().await.epoch).filter(|epoch| epoch.get() > named)
        })
        .await;
        assert_eq!(levels(&worker).await, [90.0, 990.0, 990.0], "{named}");
        // Once in a term.
        for _ in 0..3 {
            ask_once(&worker, json!({ "epoch": risen.next(), "cost": { "requests": 0 } })).await;
        }
        assert_eq!(worker.status().await.epoch, risen);
        until("readiness tells it", async || named_in_readiness(&running).await).await;
        let page = scheduler::metrics(&running).await;
        let counted = page.value("rampmeter_named_epochs_total", &[("resource", "hub")]);
        assert!((1.0..=13.0).contains(&counted), "{counted}");
        assert_eq!(page.value("rampmeter_store_went_back_total", &[("resource", "hub")]), 0.0);
    }
}

#[tokio::test]
async fn only_an_operator_takes_the_stock_of_long_limits() {
    let (nats, running, worker) = Worker::beside_scheduler(HUB).await;
    let empty = async |limits: &[&str]| printed_at(&nats, &[&["empty", "hub"], limits].concat()).await;
    assert_eq!(empty(&["quota"]).await.as_deref(), Ok("hub: quota emptied\n"));
    assert_eq!(levels(&worker).await, [100.0, 1000.0, 0.0]);
    let wrong = "`limit`: no such limit; there are `short`, `long`, `quota`";
    for (limits, expected) in [(&[][..], "<LIMIT>"), (&["qouta"], wrong)] {
        let errors = empty(limits).await.unwrap_err();
        assert!(errors.contains(expected), "{errors}");
    }
    assert_eq!(empty(&["--all"]).await.as_deref(), Ok("hub: short, long, quota, by-guild emptied\n"));
    let refused = worker.ask(json!({ "mode": "allow" })).await;
    assert_eq!(refused["code"], "quota_spent", "{refused}");
    // The next leader knows that epoch.
    scheduler::stop(running).await;
    let _next = scheduler::start(&nats, HUB).await;
    assert_eq!(levels(&worker).await, [0.0, 0.0, 0.0]);
}
