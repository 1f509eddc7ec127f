//! Explanations why clients that share a class wait.

use crate::prelude::*;
use rampmeter_protocol::explain::Explanation;

/// One request every 100 hours for all, shared by clients.
const SLOW: &str = r#"
[[resource]]
name = "hub"
fair_share = "team"
weights = { heavy = 2 }
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [{ name = "few", capacity = 4, period = "400h", margin = 0 }]
"#;

/// Sends the requests in this order; each waits for those before it.
async fn wait(worker: &Worker, requests: &[(&str, &str)]) -> Answers {
    let spent = worker.ask(json!({"id": "spent", "cost": {"requests": 4}})).await;
    assert_eq!(spent["delay_ms"], 0.0);
    let request = |(id, team): &(&str, &str)| json!({"id": id, "labels": {"team": team}, "mode": "wait"});
    let all: Vec<Value> = requests.iter().map(request).collect();
    worker.send("permit", json!(all).to_string()).await
}

#[tokio::test]
async fn the_command_tells_people() {
    let (nats, _scheduler, worker) = Worker::beside_scheduler(SLOW).await;
    let explain = async |arguments: &[&str]| {
        process::said(RAMPMETER, &[&["explain", "hub", "--nats", nats.url()], arguments].concat()).await
    };
    assert_eq!(explain(&[]).await, (Some(0), "no request waits\n".to_owned(), String::new()));
    wait(&worker, &[("h1", "heavy"), ("l1", "light")]).await;

    let (code, output, error) = explain(&["l1"]).await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
    for part in [
        "`l1`, class `urgent`, client `light`, labels team=light\nhas waited ",
        "`few` has 0 of 4 left, and this takes 1: enough in 4.2 d\n",
        "1 request is ahead of it",
        "h1",
    ] {
        assert!(output.contains(part), "{output}");
    }
    let (code, output, _) = explain(&["--json"]).await;
    let parsed: Explanation = serde_json::from_str(&output).unwrap();
    assert_eq!((code, parsed.waiting), (Some(0), 2));
    let late = json!({"id": "late", "labels": {"team": "light"}, "mode": "wait", "max_wait_ms": 800_000_000});
    let _late = worker.send("permit", late.to_string()).await;
    until("it waits", async || (worker.explanation("").await.waiting == 3).then_some(())).await;
    let (_, output, _) = explain(&["late"]).await;
    let helps = ", but gives up in 9.3 d: send fewer requests ahead of it, or raise its `max_wait` to 10";
    assert!(output.contains(helps), "{output}");
    let (code, _, error) = explain(&["nobody"]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains("no such permit"), "{error}");
    for wrong in [r#"{"request": "h1"}"#, "[]"] {
        assert_eq!(body(&worker.request("explain", wrong).await)["code"], "invalid_request", "{wrong}");
    }
    assert_eq!(worker.status().await.counters.refused, 0, "a question asks for no permit");
}
