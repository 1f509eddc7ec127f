//! The endpoints for the customer, over real connections.

use rampmeter_upstream::{Config, Endpoint, Fault, Policy, Upstream};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use std::time::Duration;

const TOKEN: &str = "/auth/realms/main/protocol/openid-connect/token";
const CONTRACT: &str = "/aux/ratelimit/contract?userId=eq:8b5c2f0e-1d3a";
const TOKEN_COUNTS: &str = "/aux/ratelimit/statistics/tokenCounts/8b5c2f0e-1d3a";

fn config() -> Config {
    let policies = ["requests=1000/PT1M", "processing-units=400000/PT744H", "processing-units=30000/PT0S"];
    let policies = policies.iter().map(|text| text.parse::<Policy>().unwrap()).collect();
    Config::new(policies).customer("me", "hidden")
}

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

async fn ask_token(upstream: &Upstream, form: &str) -> Response {
    let request = client().post(format!("{}{TOKEN}", upstream.url()));
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
    request.send().await.unwrap()
}

async fn token(upstream: &Upstream) -> String {
    let answer = ask_token(upstream, "grant_type=client_credentials&client_id=me&client_secret=hidden").await;
    answer.json::<Value>().await.unwrap()["access_token"].as_str().unwrap().to_owned()
}

async fn get(upstream: &Upstream, path: &str, token: &str) -> Response {
    client().get(format!("{}{path}", upstream.url())).bearer_auth(token).send().await.unwrap()
}

#[tokio::test]
async fn only_the_customer_gets_tokens() {
    let upstream = Upstream::start(config()).await.unwrap();
    #[rustfmt::skip]
    let table = [
        ("grant_type=client_credentials&client_id=me&client_secret=hidden",     200),
        ("grant_type=client_credentials&client_id=me&client_secret=guessed",    401),
        ("grant_type=client_credentials&client_id=you&client_secret=hidden",    401),
        ("grant_type=password&client_id=me&client_secret=hidden",               400),
        ("grant_type=client_credentials",                                       422),
    ];
    for (form, status) in table {
        assert_eq!(ask_token(&upstream, form).await.status(), status, "{form}");
    }
    assert_eq!(
        (upstream.tokens().len(), upstream.asked(Endpoint::Token)),
        (1, 4),
        "the last form lacks fields, so it reaches no endpoint"
    );
    let closed = Upstream::start(Config::new(vec![])).await.unwrap();
    assert_eq!(ask_token(&closed, table[0].0).await.status(), 404);
}

#[tokio::test]
async fn contract_and_token_counts_are_those_of_the_policies() {
    let upstream = Upstream::start(config()).await.unwrap();
    let token = token(&upstream).await;
    client().get(format!("{}/process?processing-units=1000", upstream.url())).send().await.unwrap();
    let contract: Value = get(&upstream, CONTRACT, &token).await.json().await.unwrap();
    let expected = json!({"data": [
        {"type": {"name": "PROCESSING_UNITS"}, "policies": [
            {"capacity": 400_000.0, "samplingPeriod": "PT744H", "nanosBetweenRefills": 6_696_000_000.0},
            {"capacity": 30_000.0, "samplingPeriod": "PT0S", "nanosBetweenRefills": 0.0},
        ]},
        {"type": {"name": "REQUESTS"}, "policies": [
            {"capacity": 1000.0, "samplingPeriod": "PT1M", "nanosBetweenRefills": 60_000_000.0},
        ]},
    ]});
    assert_eq!(contract, expected);
    let counts: Value = get(&upstream, TOKEN_COUNTS, &token).await.json().await.unwrap();
    assert_eq!(counts["data"]["PROCESSING_UNITS"]["PT0S"], json!(29_000.0));
    let month = counts["data"]["PROCESSING_UNITS"]["PT744H"].as_f64().unwrap();
    assert!((399_000.0..399_100.0).contains(&month), "{month}");
}

#[tokio::test]
async fn only_a_good_token_opens_the_account() {
    let upstream = Upstream::start(config()).await.unwrap();
    let good = token(&upstream).await;
    for path in [CONTRACT, TOKEN_COUNTS] {
        assert_eq!(get(&upstream, path, &good).await.status(), 200);
        assert_eq!(get(&upstream, path, "another").await.status(), 401);
        assert_eq!(get(&upstream, &path.replace("8b5c", "0000"), &good).await.status(), 403);
    }
    upstream.revoke_tokens();
    assert_eq!(get(&upstream, CONTRACT, &good).await.status(), 401);
    let brief = Upstream::start(config().token_life(Duration::ZERO)).await.unwrap();
    let expired = token(&brief).await;
    assert_eq!(get(&brief, CONTRACT, &expired).await.status(), 401);
}

#[tokio::test]
async fn endpoints_break_and_are_mended() {
    let upstream = Upstream::start(config()).await.unwrap();
    let token = token(&upstream).await;
    upstream.set_fault(Endpoint::Contract, Some(Fault::Status(500)));
    assert_eq!(get(&upstream, CONTRACT, &token).await.status(), 500);
    assert_eq!(get(&upstream, TOKEN_COUNTS, &token).await.status(), 200);
    upstream.set_fault(Endpoint::Contract, Some(Fault::Body("garbage".to_owned())));
    assert_eq!(get(&upstream, CONTRACT, &token).await.text().await.unwrap(), "garbage");
    upstream.set_fault(Endpoint::Contract, Some(Fault::Hang));
    let url = format!("{}{CONTRACT}", upstream.url());
    let hung = client().get(url).timeout(Duration::from_millis(100)).send().await.unwrap_err();
    assert!(hung.is_timeout(), "{hung}");
    upstream.set_fault(Endpoint::Contract, None);
    assert_eq!(get(&upstream, CONTRACT, &token).await.status(), 200);
    assert_eq!(upstream.asked(Endpoint::Contract), 4);
}
