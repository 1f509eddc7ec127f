//! Whose limit a refusal speaks of, over HTTP, where all clients are one user.

use crate::prelude::*;

/// Discord, GitHub and Slack as users write them, and a quota by the day.
const RESOURCES: &str = r#"
[[resource]]
name = "bot"
dialect = "discord"
start = "full"
limit = [
    { name = "everything", capacity = 50, period = "1s" },
    { name = "guild", key = ["guild"], capacity = 10, period = "1s" },
]
[[resource]]
name = "code"
dialect = "github"
start = "full"
limit = [{ name = "core", algorithm = "fixed-window", capacity = 5000, period = "1h" }]
[[resource]]
name = "chat"
start = "full"
limit = [
    { name = "app", capacity = 100, period = "1s" },
    { name = "method", key = ["method"], capacity = 20, period = "1m" },
    { name = "in-flight", algorithm = "concurrency", capacity = 50, time_to_live = "60s" },
]
[[resource]]
name = "crm"
start = "full"
limit = [{ name = "per-day", algorithm = "quota", capacity = 1000, resets = "day" }]
[[resource]]
name = "shop"
dialect = "shopify"
start = "full"
limit = [{ name = "points", unit = "points", capacity = 5000, period = "20s" }]
"#;

/// Asks at once, without a wait.
async fn ask(front: &Front, resource: &str, labels: &Value) -> Value {
    let request = json!({ "mode": "allow", "labels": labels });
    front.post(&format!("/v1/permit/{resource}"), request.to_string()).await.body
}

/// Makes a call, which the upstream answers with `response`.
async fn call(front: &Front, resource: &str, labels: &Value, response: &Value) {
    let granted = ask(front, resource, labels).await;
    assert_eq!(granted["status"], "granted", "{resource} {labels}: {granted}");
    let settle = json!({ "id": granted["id"], "response": response });
    let settled = front.post(&format!("/v1/settle/{resource}"), settle.to_string()).await;
    assert_eq!(settled.body["status"], "settled", "{settle}: {settled:?}");
}

#[tokio::test]
async fn a_refusal_stops_the_calls_of_its_limit_and_no_other_ones() {
    let (_nats, front) = Front::alone("", RESOURCES).await;
    let bucket = |scope: &str| {
        json!({ "status": 429, "headers": {
            "retry-after": "12", "x-ratelimit-bucket": "4f9c2d", "x-ratelimit-limit": "5", "x-ratelimit-remaining": "0",
            "x-ratelimit-reset-after": "12", "x-ratelimit-scope": scope,
        } })
    };
    let resource = |of: &str| {
        json!({ "status": 403, "headers": {
            "x-ratelimit-resource": of, "x-ratelimit-limit": "30", "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": (unix_secs() + 40).to_string(),
        } })
    };
    let bare = json!({ "status": 429, "headers": { "retry-after": "20" } });
    let (x, y, none) = (json!({ "guild": "x" }), json!({ "guild": "y" }), json!({}));
    let (post, list) = (json!({ "method": "post" }), json!({ "method": "list" }));
    #[rustfmt::skip]
    let table = [
        // what answers to a call of this kind, whether such calls stop, and whether those go on
        ("bot",     &x,     bucket("user"),         true,   &y),
        ("bot",     &y,     bucket("shared"),       true,   &none),
        ("bot",     &none,  bucket("user"),         false,  &none),
        ("code",    &none,  resource("search"),     false,  &none),
        ("code",    &none,  resource("graphql"),    false,  &none),
        ("chat",    &post,  bare,                   true,   &list),
        ("code",    &none,  resource("core"),       true,   &none),
    ];
    for (resource, labels, response, stops, others) in table {
        call(&front, resource, labels, &response).await;
        let again = ask(&front, resource, labels).await;
        assert_eq!(again["status"] == "refused", stops, "{resource} {labels} {response}: {again}");
        if labels != others {
            let other = ask(&front, resource, others).await;
            assert_eq!(other["status"], "granted", "{resource} {labels} {response}: {other}");
        }
    }
}

#[tokio::test]
async fn a_bucket_that_the_file_has_not_teaches_no_limit_of_all_calls() {
    let (_nats, front) = Front::alone("", RESOURCES).await;
    for (resource, headers) in [
        (
            "bot",
            json!({ "x-ratelimit-bucket": "77aa", "x-ratelimit-limit": "5", "x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "300" }),
        ),
        (
            "code",
            json!({ "x-ratelimit-resource": "graphql", "x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4", "x-ratelimit-reset": (unix_secs() + 3000).to_string() }),
        ),
    ] {
        call(&front, resource, &json!({}), &json!({ "status": 200, "headers": headers })).await;
        let asked = json!({ "mode": "allow", "cost": { "requests": 40 } });
        let granted = front.post(&format!("/v1/permit/{resource}"), asked.to_string()).await.body;
        assert_eq!(granted["status"], "granted", "{resource}: {granted}");
    }
}

#[tokio::test]
async fn who_needs_a_spent_quota_is_told_when_its_calendar_resets_it() {
    let (_nats, front) = Front::alone("", RESOURCES).await;
    call(&front, "crm", &json!({}), &json!({ "status": 429, "headers": {}, "quota_spent": true })).await;
    let refused = ask(&front, "crm", &json!({})).await;
    let midnight = 86_400_000 - unix_secs() % 86_400 * 1000;
    let told = refused["retry_after_ms"].as_f64().unwrap();
    assert_eq!(refused["code"], "quota_spent", "{refused}");
    // A day may begin meanwhile.
    assert!((told - midnight as f64).abs() < 10_000.0 || midnight < 10_000 || told < 10_000.0, "{refused}");
}

/// Two answers say that the plan has a fifth of what the file says.
#[tokio::test]
async fn the_status_says_what_the_upstream_states_and_what_the_file_says() {
    let (nats, front) = Front::alone("", RESOURCES).await;
    let throttle = json!({ "maximumAvailable": 1000, "currentlyAvailable": 990, "restoreRate": 50 }).to_string();
    let response = json!({ "status": 200, "headers": { "throttle-status": throttle } });
    for _ in 0..2 {
        let asked = json!({ "mode": "allow", "cost": { "points": 10 } });
        let granted = front.post("/v1/permit/shop", asked.to_string()).await.body;
        let settle = json!({ "id": granted["id"], "response": response });
        front.post("/v1/settle/shop", settle.to_string()).await;
    }
    let status = |arguments: &'static [&'static str]| {
        let arguments = [&["status", "--nats", nats.url()], arguments].concat();
        async move { process::said(RAMPMETER, &arguments).await.1 }
    };
    let text = status(&["shop"]).await;
    assert!(text.contains("`points`: the upstream states 1000 in 20 s, the file says 5000"), "{text}");
    let json = status(&["--json", "shop"]).await;
    assert!(json.replace(' ', "").contains(r#""states":1000.0"#), "{json}");
}

fn unix_secs() -> u64 {
    unix_ms() / 1000
}
