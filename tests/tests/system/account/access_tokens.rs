//! Access tokens: workers that may ask get the provider's, and requests for tokens take permits of
//! a limit of their own.

use crate::prelude::*;

const VERBOSE: [(&str, &str); 3] = [portal::ENVIRONMENT[0], portal::ENVIRONMENT[1], ("RAMPMETER_LOG", "trace")];

async fn token(worker: &Worker) -> Value {
    body(&worker.request("token", "").await)
}

/// The scheduler logs everything that it does, and so does NATS' client.
#[tokio::test]
async fn a_worker_that_may_ask_gets_the_access_token() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    let resources = portal::resource("hub", 1000, &upstream, "share_token = true");
    let text = scheduler::configuration(nats.url(), &resources);
    let mut process = Process::begin_in(RAMPMETER, &text, &[], &VERBOSE);
    process.until_ready().await;
    let worker = Worker::connect(&nats, "hub").await;
    let first = token(&worker).await;
    let tokens = upstream.tokens();
    assert_eq!((&first["status"], &first["access_token"]), (&json!("token"), &json!(tokens[0])));
    let left = first["valid_ms"].as_f64().unwrap();
    assert!((1.0..=3_600_000.0).contains(&left), "{left} ms");

    let hub = Client::connect(nats.url()).await.unwrap().resource("hub").unwrap();
    assert_eq!(hub.access_token().await.unwrap().secret(), tokens[0]);
    assert_eq!(upstream.tokens().len(), 1, "all share one");
    let shown = [worker.status().await.provider.map(|known| format!("{known:?}")).unwrap(), process.log()];
    process.terminate();
    process.ended().await;
    for text in [&shown[..], &[process.log()]].concat() {
        assert!(!text.contains(tokens[0].rsplit('.').next().unwrap()), "the token is shown");
    }
}

#[tokio::test]
async fn an_access_token_is_shared_only_if_the_configuration_says_so() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    let process = portal::start(RAMPMETER, &nats, &portal::resource("hub", 1000, &upstream, "")).await;
    let worker = Worker::connect(&nats, "hub").await;
    let refused = token(&worker).await;
    assert_eq!(refused["code"], "invalid_request");
    assert!(refused["message"].as_str().unwrap().contains("`share_token`"), "{refused}");
    let client = Client::connect(nats.url()).await.unwrap();
    let error = client.resource("hub").unwrap().access_token().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused(Code::InvalidRequest), "{error}");
    let error = client.resource("other").unwrap().access_token().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    process.stop().await;
}

/// Questions of workers do not flood an endpoint that fails.
#[tokio::test]
async fn a_worker_is_told_that_there_is_no_token() {
    let nats = nats::start().await;
    let upstream = portal::with_token_life(Duration::from_millis(100)).await;
    let hub = portal::resource("hub", 1000, &upstream, "share_token = true").replace("\"1s\"", "\"1h\"");
    let process = portal::start(RAMPMETER, &nats, &hub).await;
    let worker = Worker::connect(&nats, "hub").await;
    until("the provider has answered", async || {
        worker.status().await.provider.filter(|provider| provider.state == ProviderState::Ok)
    })
    .await;
    upstream.set_fault(Endpoint::Token, Some(Fault::Status(500)));
    let refused = until("its token has ended", async || {
        Some(token(&worker).await).filter(|answer| answer["status"] == "refused")
    })
    .await;
    assert_eq!((&refused["code"], &refused["retry_after_ms"]), (&json!("unavailable"), &json!(5000.0)), "{refused}");
    assert_eq!(refused["message"], "access token: answered 500, no success");
    let asked = upstream.asked(Endpoint::Token);
    for _ in 0..50 {
        assert_eq!(token(&worker).await["status"], "refused");
    }
    assert_eq!(upstream.asked(Endpoint::Token), asked);
    process.stop().await;
}

/// Tokens live for a tenth of a second here, and the provider asks for limits every second.
#[tokio::test]
async fn requests_for_tokens_take_permits_of_their_own_limit() {
    let nats = nats::start().await;
    let upstream = portal::with_token_life(Duration::from_millis(100)).await;
    let hub = portal::resource("hub", 1000, &upstream, "token_resource = \"hub-token\"");
    let token = "[[resource]]\nname = \"hub-token\"\n[[resource.limit]]\nname = \"tokens\"\ncapacity = 3\n\
                 period = \"1h\"\nmargin = 0\nlearn = false\n";
    let process = portal::start(RAMPMETER, &nats, &format!("{hub}{token}")).await;
    let permits = Worker::connect(&nats, "hub-token").await;
    until("all permits are used", async || (permits.status().await.counters.settled == 3).then_some(())).await;
    permits.until_queued(1).await;
    assert_eq!(upstream.asked(Endpoint::Token), 3);
    process.stop().await;
}

/// The endpoint's own 429 is settled like that of any call, so that workers pause too.
#[tokio::test]
async fn a_429_to_a_request_for_a_token_is_settled() {
    let nats = nats::start().await;
    let upstream = portal::upstream(&["requests=1000/PT1M"]).await;
    upstream.set_fault(Endpoint::Token, Some(Fault::Status(429)));
    let hub = portal::resource("hub", 1000, &upstream, "token_resource = \"hub-token\"");
    let token = "[[resource]]\nname = \"hub-token\"\n[[resource.limit]]\nname = \"tokens\"\ncapacity = 60\n\
                 period = \"1m\"\n";
    let process = portal::start(RAMPMETER, &nats, &format!("{hub}{token}")).await;
    let permits = Worker::connect(&nats, "hub-token").await;
    until("a 429 is settled", async || (permits.status().await.counters.upstream_429 > 0).then_some(())).await;
    process.stop().await;
}
