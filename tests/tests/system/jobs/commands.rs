//! `rampmeter jobs`: a queue as operators see it.

use crate::prelude::*;
use rampmeter_tests::listening::Listening;

/// The output of the command if it succeeds, and its complaint otherwise.
async fn jobs(nats: &Server, arguments: &[&str]) -> Result<String, String> {
    printed_at(nats, &[&["jobs"], arguments].concat()).await
}

#[tokio::test]
async fn a_queue_is_shown_and_jobs_are_taken_away() {
    let nats = nats::start().await;
    let complaint = jobs(&nats, &["status", "roles"]).await.unwrap_err();
    assert!(complaint.contains("there is no queue `roles`"), "{complaint}");

    let queue = Queue::builder().create(nats.url(), "roles").await.unwrap();
    assert_eq!(jobs(&nats, &["status", "roles"]).await.unwrap().trim(), "no jobs");
    for group in ["guild-1", "guild-2", "guild-1"] {
        queue.publish(Job::new(group, "a role")).await.unwrap();
    }
    let delayed = async || -> Vec<(Value, Value)> {
        let groups = jobs(&nats, &["status", "roles", "--json"]).await.unwrap();
        let groups: Vec<Value> = serde_json::from_str(&groups).unwrap();
        groups.into_iter().map(|group| (group["group"].clone(), group["delayed"].clone())).collect()
    };
    assert_eq!(delayed().await, [(json!("guild-1"), json!(2)), (json!("guild-2"), json!(1))]);
    let table = jobs(&nats, &["status", "roles"]).await.unwrap();
    assert!(table.lines().any(|line| line.split_whitespace().eq(["all", "3", "0", "0"])), "{table}");

    assert!(!table.contains("dropped"), "{table}");
    for repeated in [false, true, true] {
        let published = queue.publish(Job::new("guild-2", "another role").id("grant-4711")).await.unwrap();
        assert_eq!(published.duplicate, repeated);
    }
    assert_eq!(queue.repeated().await.unwrap(), 2);
    let table = jobs(&nats, &["status", "roles"]).await.unwrap();
    assert!(table.ends_with("\n2 jobs were dropped: their ids had been published before\n"), "{table}");
    assert_eq!(jobs(&nats, &["delete", "roles", "4"]).await.unwrap().trim(), "job 4 is deleted");

    assert_eq!(jobs(&nats, &["delete", "roles", "3"]).await.unwrap().trim(), "job 3 is deleted");
    let complaint = jobs(&nats, &["delete", "roles", "3"]).await.unwrap_err();
    assert!(complaint.contains("there is no job 3 in `roles`"), "{complaint}");
    assert_eq!(delayed().await, [(json!("guild-1"), json!(1)), (json!("guild-2"), json!(1))]);
    assert_eq!(jobs(&nats, &["dead", "roles"]).await.unwrap().trim(), "no dead letters");
}

#[tokio::test]
async fn a_job_is_found_in_its_group() {
    let nats = nats::start().await;
    let queue = Queue::builder().create(nats.url(), "roles").await.unwrap();
    let group = ["guild-1", "guild-2", "guild-1"].map(|group| Job::new(group, "a role"));
    queue.publish_all(group).await.unwrap();
    let output = jobs(&nats, &["position", "roles", "3"]).await.unwrap();
    let estimate = "no job of the group has ended yet, so that no estimate is possible";
    assert_eq!(output, format!("job 3 of `guild-1` has 1 job before it; {estimate}\n"));
    let output = jobs(&nats, &["position", "roles", "1", "--json"]).await.unwrap();
    let expected = json!({"group": "guild-1", "class": null, "ahead": 0, "running": false, "starts_in_ms": null});
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap(), expected);
    let complaint = jobs(&nats, &["position", "roles", "4"]).await.unwrap_err();
    assert!(complaint.contains("there is no job 4 in `roles`"), "{complaint}");
}

#[tokio::test]
async fn gauges_of_jobs_are_served() {
    let nats = nats::start().await;
    let queue = Queue::builder().class("urgent").create(nats.url(), "roles").await.unwrap();
    let urgent = Job::new("guild-1", "a role").class("urgent").id("only");
    queue.publish_all(["guild-1", "guild-2", "guild-1"].map(|group| Job::new(group, "a role"))).await.unwrap();
    queue.publish_all([urgent.clone(), urgent]).await.unwrap();
    let url = nats.url().to_owned();
    let serving = Listening::start(1, |_, ports| {
        let mut command = Command::new(RAMPMETER);
        command.args(["jobs", "metrics", "roles", "--nats", &url, "--listen", &format!("127.0.0.1:{}", ports[0])]);
        command
    });
    let serving = serving.await;
    let (status, text) = scheduler::get(&format!("http://{}/metrics", serving.address(0))).await;
    let page = Page::parse(&text).unwrap();
    let jobs = |class, state| page.value("rampmeter_jobs", &[("queue", "roles"), ("class", class), ("state", state)]);
    assert_eq!((status, jobs("-", "delayed"), jobs("urgent", "delayed"), jobs("-", "dead")), (200, 3.0, 1.0, 0.0));
    assert_eq!(page.value("rampmeter_job_groups", &[("class", "-")]), 2.0);
    assert_eq!(page.value("rampmeter_jobs_repeated_total", &[("queue", "roles")]), 1.0);
    assert_eq!((page.value("rampmeter_jobs_up", &[]), page.kind("rampmeter_jobs")), (1.0, Some("gauge")));
}
