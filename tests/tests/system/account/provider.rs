//! Providers that fail. The known limits stay in force, the status shows the failure, and it heals
//! without help.

use crate::prelude::*;
use rampmeter_protocol::status::ProviderStatus;

/// A contract of one policy.
fn contract(capacity: &str) -> Fault {
    let policy = format!(r#"{{"capacity":{capacity},"samplingPeriod":"PT1M"}}"#);
    Fault::Body(format!(r#"{{"data":[{{"type":{{"name":"REQUESTS"}},"policies":[{policy}]}}]}}"#))
}

fn body(text: &str) -> Fault {
    Fault::Body(text.to_owned())
}

/// The state of the resource's provider, as soon as it is `state`.
async fn provider_in(worker: &Worker, state: ProviderState) -> ProviderStatus {
    until(&format!("the provider is {state:?}"), async || {
        worker.status().await.provider.filter(|provider| provider.state == state)
    })
    .await
}

async fn metrics(process: &Process) -> Page {
    let (_, text) = scheduler::get(&format!("{}/metrics", process.http().unwrap())).await;
    Page::parse(&text).unwrap()
}

/// Reaches `http::MAX_BODY`.
#[tokio::test]
async fn if_the_provider_fails_known_limits_apply_and_the_reason_is_shown() {
    use Endpoint::{Contract, Token, TokenCounts};
    let huge = "1".repeat((1 << 20) + 1);
    #[rustfmt::skip]
    let table = [
        // resource,         broken,       how,                     kind of failure,  reason
        ("contract-401",     Contract,     Fault::Status(401),      "unauthorized",   "contract: answered 401, client id, secret or token are not accepted"),
        ("contract-404",     Contract,     Fault::Status(404),      "missing",        "contract: answered 404, there is no such endpoint any more"),
        ("contract-429",     Contract,     Fault::Status(429),      "rate_limited",   "contract: answered 429, asked too often"),
        ("contract-500",     Contract,     Fault::Status(500),      "status",         "contract: answered 500, no success"),
        ("contract-302",     Contract,     Fault::Status(302),      "status",         "contract: answered 302, redirects are not followed"),
        ("contract-hangs",   Contract,     Fault::Hang,             "timeout",        "contract: no answer within 2s"),
        ("contract-garbage", Contract,     body("<html>garbage"),   "malformed",      "contract: not of the documented form at `.`"),
        ("contract-long",    Contract,     body(&huge),             "malformed",      "contract: the answer breaks off, or has more than 1048576 bytes"),
        ("contract-below",   Contract,     contract("-1000"),       "implausible",    "contract: a capacity of `requests`: an amount is a number from 0 to 1e9, not -1e3"),
        ("token-401",        Token,        Fault::Status(401),      "unauthorized",   "access token: answered 401, client id, secret or token are not accepted"),
        ("token-garbage",    Token,        body("garbage"),         "malformed",      "access token: it is not JSON with an `access_token`"),
        ("levels-500",       TokenCounts,  Fault::Status(500),      "status",         "token counts: answered 500, no success"),
    ];
    let nats = nats::start().await;
    let mut stages = Vec::new();
    let mut resources = String::new();
    for (name, endpoint, fault, kind, reason) in table {
        // A token of this upstream lives 100 ms, so the provider takes a new one for each request.
        let upstream = portal::with_token_life(Duration::from_millis(100)).await;
        resources += &portal::resource(name, 1000, &upstream, "levels_every = \"1s\"");
        stages.push((Worker::connect(&nats, name).await, name, upstream, endpoint, fault, kind, reason));
    }
    let process = portal::start(RAMPMETER, &nats, &resources).await;

    for (worker, .., upstream, endpoint, fault, _, _) in &stages {
        provider_in(worker, ProviderState::Ok).await;
        upstream.set_fault(*endpoint, Some(fault.clone()));
    }
    for (worker, name, _, _, _, kind, reason) in &stages {
        let provider = provider_in(worker, ProviderState::Failing).await;
        assert_eq!(provider.reason.as_deref(), Some(*reason), "{name}");
        assert!(provider.contract_age_ms.is_some(), "{name}");
        assert_eq!(worker.limit("per-minute").await.capacity, 1000.0, "{name}");
        assert_eq!(worker.ask(json!({"cost": {"requests": 1}})).await["status"], "granted", "{name}");
        let never = worker.ask(json!({"cost": {"requests": 1001}})).await;
        assert_eq!(never["code"], "never_fits", "{name}");
        let (page, hub) = (metrics(&process).await, ("resource", *name));
        assert_eq!(page.value("rampmeter_provider_up", &[hub]), 0.0, "{name}");
        assert!(page.value("rampmeter_provider_failures_total", &[hub, ("kind", kind)]) >= 1.0, "{name}");
        let log = process.log();
        let is_logged = log.lines().any(|line| line.contains(name) && line.contains(reason) && line.contains("WARN"));
        assert!(is_logged, "{name}: {reason}");
    }
    assert_eq!(process.readiness().await.unwrap().0, 200, "the known limits suffice");

    stages.iter().for_each(|(_, _, upstream, endpoint, ..)| upstream.set_fault(*endpoint, None));
    for (worker, name, ..) in &stages {
        let provider = provider_in(worker, ProviderState::Ok).await;
        assert_eq!((provider.reason, provider.notes), (None, vec![]), "{name}");
        assert_eq!(metrics(&process).await.value("rampmeter_provider_up", &[("resource", name)]), 1.0, "{name}");
    }
    let healed = process.log().matches("the provider answers again").count();
    assert_eq!(healed, stages.len());
    process.stop().await;
}

#[tokio::test]
async fn one_token_is_enough_until_it_is_not_accepted() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    let process = portal::start(RAMPMETER, &nats, &portal::resource("hub", 1000, &upstream, "")).await;
    let asked = async |times| {
        let asked = async || (upstream.asked(Endpoint::Contract) >= times).then_some(());
        until("the contract is asked for", asked).await;
    };
    asked(3).await;
    assert_eq!(upstream.tokens().len(), 1);
    upstream.revoke_tokens();
    let before = upstream.asked(Endpoint::Contract);
    asked(before + 4).await;
    assert_eq!(upstream.tokens().len(), 2, "one new token");
    let failures = ("kind", "unauthorized");
    assert_eq!(
        metrics(&process).await.value("rampmeter_provider_failures_total", &[failures]),
        0.0,
        "no failure at all"
    );
    process.stop().await;
}
