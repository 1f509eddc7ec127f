//! Workers in accounts of their own: who asks is told by the server, not by the worker.

use crate::nats::permissions::User;
use crate::prelude::*;
use rampmeter_tests::holder::calls_in_flight;

/// The accounts before workers had their own.
const FORMER: &str = include_str!("former_accounts.conf");
/// One call at a time, whose place is lost for ten minutes if nobody settles it.
const TIME_TO_LIVE: Duration = Duration::from_secs(600);

async fn ask(user: &User, subject: &str, reply: &str, payload: Value) {
    let client = user.client();
    client.publish_with_reply(subject.to_owned(), reply.to_owned(), payload.to_string().into()).await.unwrap();
}

#[tokio::test]
async fn an_account_is_known_by_its_subject_whatever_its_replies() {
    let nats = shipped::single().await;
    let _scheduler = shipped::lead(&nats, HUNDRED).await;
    let (worker, bulk) = (User::connect(&nats, "worker").await, User::connect(&nats, "bulk").await);
    let mut of_bulk = bulk.client().subscribe("_INBOX_bulk.x.*").await.unwrap();
    let mut of_worker = worker.client().subscribe("_INBOX_worker.>").await.unwrap();
    bulk.client().flush().await.unwrap();
    // The inbox of another account, of nobody, and two of its own.
    for reply in
        ["_INBOX_bulk.x.1", "nobody.1", "rampmeter@BULK._INBOX_bulk.x.1", "_INBOX_worker.a.1", "_INBOX_worker.b.1"]
    {
        ask(&worker, "rampmeter.permit.hub", reply, json!({"id": "a"})).await;
    }
    for inbox in ["_INBOX_worker.a.1", "_INBOX_worker.b.1"] {
        let answer = within("an answer", of_worker.next()).await.unwrap();
        assert_eq!((&*answer.subject, &body(&answer)["status"]), (inbox, &json!("granted")), "the same request");
    }
    let refused = bulk.request("rampmeter.settle.hub", json!({"id": "never"})).await;
    assert_eq!(refused["code"], "unknown_permit");
    assert!(of_bulk.next().now_or_never().is_none(), "no answer to another account");
    // Another account does not get the permit of this id.
    let taken = Worker::of_user(&nats, "bulk", "hub").await.request("permit-bulk", r#"{"id": "a"}"#).await;
    assert_eq!(body(&taken)["status"], "refused");
    let status = Worker::of_user(&nats, "operator", "hub").await.status().await;
    assert_eq!(status.counters.granted, 1);
}

/// Most settles want no answer, so that nobody would repeat them.
#[tokio::test]
async fn a_hand_over_loses_no_settle_of_another_account() {
    const CALLS: usize = 400;
    let nats = shipped::single().await;
    let hub = calls_in_flight(CALLS, TIME_TO_LIVE).replace("api", "hub");
    let configuration = shipped::configuration(&shipped::url(&nats, "scheduler"), &hub);
    let mut pair = Pair::start(RAMPMETER, [&configuration; 2]).await;
    let worker = Worker::of_user(&nats, "worker", "hub").await;
    let ids: Vec<String> = (0..CALLS).map(|number| format!("p-{number}")).collect();
    let asked: Vec<Value> = ids.iter().map(|id| json!({"id": id, "mode": "allow"})).collect();
    worker.request("permit", Value::Array(asked).to_string()).await;
    let leader = pair.leader().await;
    pair.process(leader).terminate();
    for id in ids {
        worker.tell("settle", json!({ "id": id }).to_string()).await;
        let_pass(Duration::from_millis(1), "settles come in all along the hand-over").await;
    }
    assert!(pair.process_mut(leader).ended().await.success());
    let operator = Worker::of_user(&nats, "operator", "hub").await;
    let is_free = async || (operator.status_of_leader().await.limits[0].level == CALLS as f64).then_some(());
    until("every call is settled", is_free).await;
    assert_eq!(operator.status().await.epoch, Epoch::new(2));
}

#[tokio::test]
async fn a_worker_takes_no_connections_of_schedulers() {
    let few = |text: &str| text.replacen("max_connections: 10000", "max_connections: 3", 1);
    let (_folder, nats) = shipped::single_with_accounts(few).await;
    let mut taken = Vec::new();
    while let Ok(client) = shipped::login("worker").connect(nats.url()).await {
        taken.push(client);
    }
    assert_eq!(taken.len(), 3);
    let _scheduler = shipped::lead(&nats, HUNDRED).await;
}

#[tokio::test]
async fn an_access_token_reaches_an_account_that_may_ask() {
    let uncommented = |text: &str| {
        text.replace("# \"rampmeter.token.*\"", "\"rampmeter.token.*\"")
            .replace("# { stream: { account: WORKER", "{ stream: { account: WORKER")
    };
    let (_folder, nats) = shipped::single_with_accounts(uncommented).await;
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    let resources = portal::resource("hub", 1000, &upstream, "share_token = true");
    let text = shipped::configuration(&shipped::url(&nats, "scheduler"), &resources);
    let mut process = Process::begin_in(RAMPMETER, &text, &[], &portal::ENVIRONMENT);
    process.until_ready().await;
    let worker = Worker::of_user(&nats, "worker", "hub").await;
    assert_eq!(body(&worker.request("token", "").await)["access_token"], json!(upstream.tokens()[0]));
    let bulk = User::connect(&nats, "bulk").await.publish("rampmeter.token.hub").await;
    assert_eq!(bulk.len(), 1, "{bulk:?}");
    process.stop().await;
}

/// Schedulers are replaced first, and the files of NATS whenever it suits: under way, the server reads
/// the new ones.
#[tokio::test]
async fn a_fleet_with_the_former_accounts_goes_on() {
    let (folder, nats) = shipped::single_with_accounts(|_| FORMER.to_owned()).await;
    let scheduler = shipped::lead(&nats, HUNDRED).await;
    let worker = Worker::of_user(&nats, "worker", "hub").await;
    assert_eq!(worker.ask(json!({"id": "a", "mode": "wait"})).await["status"], "granted");
    assert_eq!(worker.settle(json!({"id": "a"})).await["status"], "settled");
    let url = shipped::url(&nats, "operator");
    let rules = file_with(HUNDRED.replace("100", "90"));
    for arguments in [vec!["apply", rules.path().to_str().unwrap()], vec!["limits", "get", "hub"], vec!["status"]] {
        let arguments = [&arguments[..], &["--nats", &url, "--inbox-prefix", "_INBOX_operator"]].concat();
        let (code, output, errors) = process::said(RAMPMETER, &arguments).await;
        assert_eq!(code, Some(0), "{arguments:?}: {output}{errors}");
    }
    std::fs::copy(shipped::path("accounts.conf"), folder.path().join("accounts.conf")).unwrap();
    let reload = Command::new("kill").args(["-HUP", &nats.pid().unwrap().to_string()]).status();
    assert!(reload.await.unwrap().success());
    until("the operator has lost its rights", async || {
        let refused = User::try_connect(&nats, "operator").await.ok()?.publish("$JS.API.INFO").await;
        (!refused.is_empty()).then_some(())
    })
    .await;
    let again = until("the worker is served in its account", async || {
        let asked = worker.request("permit", r#"{"id": "b"}"#);
        let answer = tokio::time::timeout(Duration::from_secs(1), asked).await.ok()?;
        answer.status.is_none().then(|| body(&answer))
    })
    .await;
    assert_eq!((&again["status"], &again["epoch"]), (&json!("granted"), &json!(1)), "{again}");
    scheduler::stop(scheduler).await;
}
