//! Several accounts of one upstream serve a resource, over NATS.

use crate::prelude::*;

/// Nothing refills while a test runs. The account `batch` serves bulk alone.
const POOL: &str = r#"
[[resource]]
name = "hub"
start = "full"
classes = [{ name = "urgent" }, { name = "bulk" }]
accounts = ["team-a", "team-b", { name = "batch", weight = 0.5, classes = ["bulk"] }]
limit = [
    { name = "few", per = "account", capacity = 10, period = "400h", margin = 0 },
    { name = "all", capacity = 25, period = "400h", margin = 0 },
]
"#;

/// The account that makes the call of a granted request, and the code of a refused one.
fn account(answer: &Value) -> &str {
    answer["account"].as_str().or(answer["code"].as_str()).unwrap_or("none")
}

#[tokio::test]
async fn requests_are_spread_over_the_accounts_and_settle_at_theirs() {
    let (nats, _running, worker) = Worker::beside_scheduler(POOL).await;
    let answers = worker.ask(json!((0..4).map(|_| json!({"mode": "allow"})).collect::<Vec<_>>())).await;
    let chosen: Vec<&str> = answers.as_array().unwrap().iter().map(account).collect();
    assert_eq!(chosen, ["team-a", "team-b", "team-a", "team-b"]);
    let named = worker.ask(json!({"mode": "allow", "labels": {"account": "team-b"}, "cost": {"requests": 8}})).await;
    assert_eq!(account(&named), "team-b");
    let excluded = worker.ask(json!({"mode": "allow", "not": ["team-a"]})).await;
    assert_eq!((account(&excluded), &excluded["limited_by"]), ("not_in_time", &json!("few-of-team-b")), "{excluded}");
    let bulk = worker.ask(json!({"mode": "allow", "class": "bulk", "cost": {"requests": 10}})).await;
    assert_eq!(account(&bulk), "batch");

    let throttled = json!({"id": answers[0]["id"], "response": {"status": 429, "headers": {"retry-after": "50"}}});
    worker.settle(throttled).await;
    let status = printed_at(&nats, &["status", "hub"]).await.unwrap();
    assert!(status.contains("few-of-team-a") && status.contains("few-of-team-b"), "{status}");
    assert!(worker.limit("few-of-team-a").await.frozen_ms > 40_000.0);
    assert!(worker.limit("few-of-team-b").await.frozen_ms < 1.0 && worker.limit("all").await.frozen_ms < 1.0);
}

#[tokio::test]
async fn an_account_is_drained_and_comes_back() {
    let (nats, _running, worker) = Worker::beside_scheduler(POOL).await;
    let run = async |arguments: &[&str]| printed_at(&nats, arguments).await;
    let drained = run(&["drain", "hub", "team-a", "--for", "1h"]).await;
    assert_eq!(drained.as_deref(), Ok("hub: few-of-team-a frozen for 1 h\n"));
    for _ in 0..3 {
        assert_eq!(account(&worker.ask(json!({"mode": "allow"})).await), "team-b");
    }
    assert_eq!(run(&["drain", "hub", "team-a", "--end"]).await.as_deref(), Ok("hub: few-of-team-a thawed\n"));
    assert_eq!(account(&worker.ask(json!({"mode": "allow"})).await), "team-a");
    let unknown = run(&["drain", "hub", "team-z"]).await.unwrap_err();
    assert!(unknown.contains("`team-z` is no account with limits of its own"), "{unknown}");
}

#[tokio::test]
async fn rules_change_what_each_account_has() {
    let (nats, _running, worker) = Worker::beside_scheduler(POOL).await;
    let rules = "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"few\"\nper = \"account\"\ncapacity = 20\n\
                 period = \"400h\"\nmargin = 0\n";
    let file = file_with(rules);
    printed_at(&nats, &["apply", file.path().to_str().unwrap(), "--yes"]).await.unwrap();
    until("the rules count", async || (worker.status().await.limits.len() == 3).then_some(())).await;
    assert!((worker.limit("few-of-team-b").await.capacity - 20.0).abs() < 1e-9);
    let shown = printed_at(&nats, &["limits", "get", "hub"]).await.unwrap();
    assert!(shown.contains("per = \"account\""), "{shown}");
}

/// What is wrong with accounts is said with its place and its remedy.
#[test]
fn faults_of_accounts_name_the_field_and_the_remedy() {
    let table = [
        (POOL.replace("\"team-b\"", "\"team-a\""), "there are two accounts `team-a`"),
        (POOL.replace("[\"bulk\"]", "[\"slow\"]"), "account `batch`: there is no class `slow`"),
        (POOL.replace("per = \"account\"", "per = \"team\""), "a limit can be per \"account\", not per \"team\""),
        (POOL.replace("per = \"account\"", "per = \"account\", key = [\"account\"]"), "accounts are no key"),
        // Beyond `spec::MAX_USAGE_LABELS`.
        (
            POOL.replace("accounts = ", "usage_by = [\"a\", \"b\", \"c\", \"d\", \"e\"]\naccounts = "),
            "by at most 4 labels",
        ),
        (POOL.replace("accounts = ", "# accounts = "), "`per = \"account\"` needs the `accounts` of the resource"),
        (POOL.replace("weight = 0.5", "weight = 0"), "a weight is from 0.001 to 1e6, not 0"),
        (POOL.replace("\"team-b\"", "\"team b\""), "a name is 1 to 64 characters"),
    ];
    for (text, fault) in table {
        let error = rampmeter_config::parse(Path::new("tried.toml"), &text).unwrap_err().to_string();
        assert!(error.contains(fault), "{error}\n{text}");
    }
}
