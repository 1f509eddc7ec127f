//! The endpoint for reverse proxies: `/check`.

use crate::prelude::*;
use async_nats::Client;

const API: &str = r#"
[[resource]]
name = "api"
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [
    { name = "few", capacity = 2, period = "400h", margin = 0 },
    { name = "units", unit = "processing-units", capacity = 5, period = "1h" },
]
"#;

/// Four calls a second, one at a time.
const PACED: &str =
    "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"pace\"\ncapacity = 1\nperiod = \"250ms\"\nmargin = 0\n";

#[tokio::test]
async fn calls_pass_until_the_limit_is_reached() {
    let (_nats, front) = Front::alone("[http.check]\nresource = \"api\"", API).await;
    let policy = "\"few\";q=2;w=1440000";
    let first = front.get("/check", &[]).await;
    assert_eq!((first.status, first.header("ratelimit")), (200, Some("\"few\";r=1;t=720000")), "{first:?}");
    assert_eq!(first.header("ratelimit-policy"), Some(policy), "the first answer tells it too: {first:?}");
    let second = front.get("/check/some/path?query", &[]).await;
    assert_eq!((second.status, second.header("ratelimit")), (200, Some("\"few\";r=0;t=1440000")), "{second:?}");
    let refused = until("the policies are known", async || {
        let refused = front.post("/check", "a body that nobody reads").await;
        (refused.header("ratelimit-policy") == Some(policy)).then_some(refused)
    })
    .await;
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=720_000).contains(&seconds), "{refused:?}");
    assert_eq!(refused.header("ratelimit"), Some(format!("\"few\";r=0;t={seconds}").as_str()));
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("not_in_time")));
}

/// The test itself gives these answers for the resource, again and again, and shows the requests.
async fn witness(client: &Client, answers: Vec<Value>) -> tokio::sync::mpsc::UnboundedReceiver<Value> {
    let mut asked = client.subscribe("rampmeter.permit.other").await.unwrap();
    client.flush().await.unwrap();
    let (client, (heard, hear)) = (client.clone(), tokio::sync::mpsc::unbounded_channel());
    tokio::spawn(async move {
        let mut answers = answers.into_iter().cycle();
        while let Some(message) = asked.next().await {
            let request: Value = serde_json::from_slice(&message.payload).unwrap();
            let mut answer = answers.next().unwrap();
            answer["id"] = request["id"].clone();
            client.publish(message.reply.unwrap(), answer.to_string().into()).await.unwrap();
            heard.send(request).ok();
        }
    });
    hear
}

#[tokio::test]
async fn a_query_states_labels_and_costs() {
    let nats = nats::start().await;
    let client = nats::connect(&nats).await;
    let mut asked = witness(&client, vec![json!({"status": "granted", "delay_ms": 0, "epoch": 1})]).await;
    let check = "[http.check]\nresource = \"other\"\nclass = \"bulk\"\ntrusted_proxies = [\"127.0.0.1\"]\nlabels = { client = \"query:key\" }\n\
        cost = { requests = 2, units = { from = \"query:units\", default = 1, max = 50 } }\n";
    let front = Front::start(&nats, check, API).await;
    #[rustfmt::skip]
    let table = [
        // path                         X-Original-URI              labels                  units
        ("/check/a?key=me&units=7",     None,                       json!({"client": "me"}), json!(7)),
        ("/check?units=2.5",            None,                       json!(null),            json!(2.5)),
        ("/check",                      Some("/a?units=8&key=%41"), json!({"client": "A"}), json!(8)),
        ("/check?units=9",              Some("/a"),                 json!(null),            json!(1)),
        ("/check/a?units=60",           Some("/a?units=60"),        json!(null),            json!(50)),
    ];
    for (path, original, labels, units) in table {
        let headers: Vec<(&str, &str)> = original.into_iter().map(|uri| ("x-original-uri", uri)).collect();
        assert_eq!(front.get(path, &headers).await.status, 200, "{path}");
        let asked = asked.recv().await.unwrap();
        assert_eq!((&asked["labels"], &asked["cost"]), (&labels, &json!({"requests": 2, "units": units})), "{path}");
        assert_eq!((&asked["class"], &asked["mode"]), (&json!("bulk"), &json!("allow")));
    }
    for (path, original, reason) in [
        ("/check?units=7", "/a?units=8", "`x-original-uri` and `/check?…` contradict each other"),
        ("/check", "/a?key=a&key=b", "`key` is in the query more than once"),
        ("/check", "/a?units=much", "`units` is not readable: it has no amount"),
    ] {
        let refused = front.get(path, &[("x-original-uri", original)]).await;
        assert_eq!(refused.status, 400);
        assert!(refused.body.as_str().unwrap().contains(reason), "{refused:?}");
    }
}

#[tokio::test]
async fn every_refusal_has_its_status() {
    #[rustfmt::skip]
    let table = [
        ("no_limit",        503,    None),
        ("queue_full",      503,    Some("3")),
        ("too_many_keys",   503,    None),
        ("quota_spent",     403,    Some("3")),
        ("never_fits",      422,    None),
        ("unknown_class",   400,    None),
    ];
    let refusal = |(code, _, retry_after): &(&str, u16, Option<&str>)| {
        let retry_after_ms = retry_after.map(|_| 2000.5);
        json!({"status": "refused", "code": code, "message": "", "retry_after_ms": retry_after_ms, "epoch": 1})
    };
    let nats = nats::start().await;
    let _asked = witness(&nats::connect(&nats).await, table.iter().map(refusal).collect()).await;
    // A refusal by another scheduler is no outage.
    let check = "[http.check]\nresource = \"other\"\non_unavailable = \"allow\"";
    let front = Front::start(&nats, check, API).await;
    for (code, status, retry_after) in table {
        let response = front.get("/check", &[]).await;
        assert_eq!((response.status, response.header("retry-after")), (status, retry_after), "{code}");
    }
}

#[tokio::test]
async fn throttle_holds_an_answer_back_before_it_refuses() {
    let nats = nats::start().await;
    let check = "[http.check]\nresource = \"api\"\nthrottle = \"600ms\"";
    let front = Front::start(&nats, check, PACED).await;
    let clock = Clock::start();
    let begun = clock.now();
    let answers = join_all((0..6).map(|_| async {
        let status = front.get("/check", &[]).await.status;
        (status, clock.now().since(begun).duration())
    }))
    .await;
    let mut passed: Vec<Duration> = answers.iter().filter(|(status, _)| *status == 200).map(|(_, at)| *at).collect();
    passed.sort();
    assert!((2..=4).contains(&passed.len()), "one at once, then one in 250 ms, for 600 ms: {answers:?}");
    for (turn, at) in passed.iter().enumerate() {
        let earliest = Duration::from_millis(250) * u32::try_from(turn).unwrap();
        assert!(*at + Duration::from_millis(5) >= earliest, "{answers:?}");
    }
    assert!(answers.iter().all(|(status, _)| [200, 429].contains(status)), "{answers:?}");
}

#[tokio::test]
async fn one_client_of_the_site_takes_its_share_of_what_is_held_back() {
    let check =
        "max_connections = 8\n[http.check]\nresource = \"api\"\nthrottle = \"60s\"\ntrusted_proxies = [\"127.0.0.1\"]";
    // One in ten seconds.
    let busy = PACED.replace("capacity = 1", "capacity = 10").replace("250ms", "100s");
    let (_nats, front, worker) = Worker::beside_front(check, &busy).await;
    worker.ask(json!({"cost": {"requests": 10}})).await;
    let ask = |client: &str| {
        let request = http().get(format!("http://{}/check", front.address())).header("x-forwarded-for", client);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    let mut greedy: JoinSet<u16> = (0..5).map(|_| ask("9.9.9.9")).collect();
    for _ in 0..2 {
        let beyond = within("it is not held back", greedy.join_next()).await;
        assert_eq!(beyond.unwrap().unwrap(), 429, "three of four places are one client's");
    }
    let quiet: JoinSet<u16> = [ask("8.8.8.8")].into_iter().collect();
    worker.until_queued(4).await;
    assert_eq!((greedy.len(), quiet.len()), (3, 1));
}

#[tokio::test]
async fn without_an_answer_the_policy_decides() {
    for (policy, status) in [("", 503), ("on_unavailable = \"refuse\"", 503), ("on_unavailable = \"allow\"", 200)] {
        let (mut nats, front) = Front::alone(&format!("[http.check]\nresource = \"api\"\n{policy}"), API).await;
        assert_eq!(front.get("/check", &[]).await.status, 200);
        nats.kill().await.unwrap();
        let response = front.get("/check", &[]).await;
        assert_eq!(response.status, status, "{policy}");
        assert_eq!(response.header("retry-after"), (status == 503).then_some("1"));
    }
}

/// Its permit is granted, and starts in ten seconds.
#[tokio::test]
async fn a_proxy_that_hangs_up_while_a_permit_is_held_gives_it_back() {
    let http = "[http.check]\nresource = \"api\"\nthrottle = \"20s\"";
    let ahead = PACED.replace("250ms", "10s").replace("name = \"api\"", "name = \"api\"\nhorizon = \"15s\"");
    let (_nats, front, worker) = Worker::beside_front(http, &ahead).await;
    assert_eq!(front.get("/check", &[]).await.status, 200);
    tokio::select! {
        response = front.get("/check", &[]) => panic!("the permit is not held: {response:?}"),
        () = until("it is granted", async || (worker.status().await.counters.granted == 2).then_some(())) => {}
    }
    until("the permit is given back", async || (worker.status().await.counters.returned == 1).then_some(())).await;
}
