//! The web page: the rights to look and to order, and its bounds against hostile clients.

use crate::prelude::*;

const TOKENS: &str = r#"
[[token]]
name = "worker"
secret = "canary-of-the-worker"

[[token]]
name = "viewer"
secret = "canary-of-the-viewer"
page = "view"

[[token]]
name = "hub-operator"
secret = "canary-of-hub-operator"
resources = ["hub"]
page = "operate"

[[token]]
name = "operator"
secret = "canary-of-the-operator"
page = "operate"
"#;

const HOSTILE: &str = "<img src=x onerror=alert(1)>\u{202e}\"'`";

/// A front with these tokens. The file is theirs.
async fn guarded(nats: &Server) -> (Front, NamedTempFile) {
    let file = file_with(TOKENS);
    (Front::start(nats, &format!("tokens_file = {:?}", file.path()), SHARED).await, file)
}

/// Posts `body` with a token, or gets `path` without a body.
async fn ask(front: &Front, token: &str, path: &str, body: Option<Value>) -> Response {
    let url = format!("http://{}{path}", front.address());
    let request = body.map_or_else(|| http().get(&url), |body| http().post(&url).json(&body)).bearer_auth(token);
    Response::read(within("an answer", request.send()).await.unwrap()).await
}

/// Takes all that `hub` has, and has one more request wait.
async fn one_waits(nats: &Server, client: &str) -> (Worker, Answers) {
    let worker = Worker::connect(nats, "hub").await;
    worker.ask(json!({"id": "taken", "cost": {"requests": 4}, "labels": {"client": client}})).await;
    let asked = json!({"id": "secret-id-of-a-request", "mode": "wait", "class": "bulk", "labels": {"client": client}});
    let waiting = worker.send("permit", asked.to_string()).await;
    worker.until_queued(1).await;
    (worker, waiting)
}

/// The list of waiting requests.
async fn waiting(front: &Front, asked: Value) -> Response {
    front.post("/page/waiting/hub", asked.to_string()).await
}

/// The events of a stream, until `found` finds something in one.
async fn heard<T>(front: &Front, path: &str, mut found: impl FnMut(&str, Value) -> Option<T>) -> T {
    let mut response = http().get(format!("http://{}{path}", front.address())).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    let mut text = String::new();
    let looking = async {
        loop {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().expect("the stream goes on")).unwrap());
            while let Some((event, rest)) = text.split_once("\n\n") {
                let data = event.strip_prefix("event: ").and_then(|event| event.split_once("\ndata: "));
                let result = data.and_then(|(name, data)| found(name, serde_json::from_str(data).unwrap()));
                text = rest.to_owned();
                if let Some(result) = result {
                    return result;
                }
            }
        }
    };
    within("the event is heard", looking).await
}

#[tokio::test]
async fn a_browser_may_run_nothing_but_the_files_of_the_page() {
    let (_nats, front) = Front::alone("", SHARED).await;
    for (path, content_type) in
        [("/", "text/html"), ("/assets/main.js", "text/javascript"), ("/assets/page.css", "text/css")]
    {
        let page = front.get(path, &[]).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.header("content-type").unwrap().starts_with(content_type), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        let tag = page.header("etag").unwrap();
        assert_eq!(front.get(path, &[("if-none-match", tag)]).await.status, 304, "{path}");
        assert_eq!(front.get(path, &[("if-none-match", "\"other\"")]).await.status, 200, "{path}");
    }
    for path in ["/assets/none.js", "/assets/../Cargo.toml", "/assets/%2e%2e%2fCargo.toml"] {
        assert_eq!(front.get(path, &[]).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_stream_tells_all_and_then_what_changes() {
    let (nats, front) = Front::alone("", SHARED).await;
    let line = heard(&front, "/page/live", |name, data| (name == "whole").then_some(data)).await;
    assert_eq!(
        (&line["resources"]["hub"]["waiting"], &line["resources"]["other"]["limits"]),
        (&json!(0), &json!(1)),
        "{line}"
    );
    let worker = Worker::connect(&nats, "hub").await;
    let mut asked = None;
    let change = heard(&front, "/page/live/hub", |name, data| match name {
        "whole" => {
            assert_eq!(data["limits"]["few"]["level"], 4, "{data}");
            let worker = worker.client().clone();
            asked = Some(tokio::spawn(async move {
                let request = r#"{"id": "a", "cost": {"requests": 3}}"#;
                worker.request("rampmeter.permit.hub", request.into()).await.unwrap();
            }));
            None
        }
        _ => data["limits"]["few"].get("level").is_some().then_some(data),
    })
    .await;
    assert_eq!(change["limits"], json!({"few": {"level": 1}}), "only what has changed: {change}");
    let missing = front.get("/page/live/none", &[]).await;
    assert_eq!((missing.status, &missing.body["message"]), (404, &json!("this scheduler has no such resource")));
}

#[tokio::test]
async fn every_scheduler_shows_what_another_one_leads() {
    let (nats, leading) = scheduler::alone(SHARED).await;
    let front = Front::start(&nats, "", SHARED).await;
    let (_worker, _waiting) = one_waits(&nats, "a").await;
    let shown = heard(&front, "/page/live/hub", |name, data| (name == "whole").then_some(data)).await;
    assert_eq!((&shown["duty"], &shown["limits"]["few"]["level"]), (&json!("standing by"), &json!(0)), "{shown}");
    let list = waiting(&front, json!({})).await;
    assert_eq!((list.status, &list.body["waiting"]), (200, &json!(1)), "{list:?}");
    scheduler::stop(leading).await;
}

#[tokio::test]
async fn hostile_names_are_data_and_ids_stay_secret() {
    let (nats, front) = Front::alone("", SHARED).await;
    let (_worker, _waiting) = one_waits(&nats, HOSTILE).await;
    let list = waiting(&front, json!({})).await;
    assert_eq!(
        (list.status, list.header("content-type"), list.header("x-content-type-options")),
        (200, Some("application/json"), Some("nosniff"))
    );
    let first = &list.body["first"][0];
    assert_eq!(
        (&first["client"], &first["reason"], &first["id"]),
        (&json!(HOSTILE), &json!("stock"), &json!("secret-i…"))
    );
    assert!(!list.body.to_string().contains("secret-id"), "{list:?}");
    let by_handle = waiting(&front, json!({"request": first["handle"]})).await;
    let by_id = waiting(&front, json!({"id": "secret-id-of-a-request"})).await;
    assert_eq!(
        (&by_handle.body["request"]["handle"], &by_id.body["request"]["handle"]),
        (&first["handle"], &first["handle"])
    );
    let unknown = waiting(&front, json!({"request": "secret-id-of-a-request"})).await;
    assert_eq!(unknown.status, 400, "an id is no handle: {unknown:?}");
}

#[tokio::test]
async fn without_a_token_that_operates_nothing_is_ordered() {
    let nats = nats::start().await;
    let open = Front::start(&nats, "", SHARED).await;
    let orders = [
        ("/page/order/freeze/hub", json!({"for_ms": 1000})),
        ("/page/order/thaw/hub", json!({})),
        ("/page/order/purge/hub", json!({})),
        ("/page/order/cancel/hub", json!({"request": "x"})),
        ("/page/order/apply", json!({"rules": ""})),
        ("/page/order/delete-job", json!({"queue": "roles", "sequence": 1})),
    ];
    for (path, body) in &orders {
        let refused = open.post(path, body.to_string()).await;
        let message = "this needs a token with `page = \"operate\"`, in the `tokens_file` of [http]";
        assert_eq!((refused.status, &refused.body["message"]), (403, &json!(message)), "{path}");
    }
    scheduler::stop(open.running).await;
    let (front, _file) = guarded(&nats).await;
    let (worker, viewer, of_hub) = ("canary-of-the-worker", "canary-of-the-viewer", "canary-of-hub-operator");
    for (path, body) in &orders {
        let refused = ask(&front, viewer, path, Some(body.clone())).await;
        assert_eq!(
            (refused.status, &refused.body["message"]),
            (403, &json!("token `viewer` has no `page = \"operate\"`")),
            "{path}"
        );
        assert_eq!(front.post(path, body.to_string()).await.status, 401, "{path}: a browser adds no token by itself");
        let strange = front.post_with(path, &[("content-type", "text/plain")], body.to_string()).await;
        assert_eq!(strange.status, 401, "{path}");
        let in_url = format!("{path}?token=canary-of-the-operator&authorization=Bearer%20canary-of-the-operator");
        assert_eq!(front.post(&in_url, body.to_string()).await.status, 401, "{path}");
    }
    #[rustfmt::skip]
    let table = [
        // the token, the path, and the status
        ("",        "/page/live",           401),
        ("",        "/page/rights",         401),
        (worker,    "/page/live",           403),
        (worker,    "/page/live/hub",       403),
        (worker,    "/page/rights",         403),
        (worker,    "/page/rules",          403),
        (of_hub,    "/page/live",           403),
        (of_hub,    "/page/live/other",     403),
        (of_hub,    "/page/history/other?limit=few", 403),
        (of_hub,    "/page/rules",          403),
        (of_hub,    "/page/rights",         200),
        (of_hub,    "/page/history/hub?limit=few", 200),
        (of_hub,    "/page/schedulers",     403),
        (of_hub,    "/page/jobs",           403),
        (viewer,    "/page/jobs",           200),
        (viewer,    "/page/rules",          200),
        (viewer,    "/page/schedulers",     200),
    ];
    for (token, path, status) in table {
        assert_eq!(ask(&front, token, path, None).await.status, status, "{token} {path}");
    }
    let deletion = json!({"queue": "roles", "sequence": 1});
    let foreign = ask(&front, of_hub, "/page/order/delete-job", Some(deletion)).await;
    assert_eq!(foreign.status, 403, "queues belong to no resource: {foreign:?}");
    let foreign = ask(&front, of_hub, "/page/order/thaw/other", Some(json!({}))).await;
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let rules = "[[resource]]\nname = \"other\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 9\nperiod = \"1s\"\n";
    let foreign = ask(&front, of_hub, "/page/order/apply", Some(json!({"rules": rules}))).await;
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let other_page = http().post(format!("http://{}/page/order/thaw/hub", front.address()));
    let other_page =
        other_page.bearer_auth("canary-of-the-operator").header("origin", "https://page.example").json(&json!({}));
    assert_eq!(other_page.send().await.unwrap().status().as_u16(), 403, "not even with a token");
}

#[tokio::test]
async fn schedulers_are_listed_with_what_they_lead_and_what_the_store_holds() {
    let (nats, front) = Front::alone("", SHARED).await;
    let _standby = scheduler::begin(&nats, SHARED).await;
    let names =
        |value: &Value| value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    let list = until("each leads one resource", async || {
        let list = front.get("/page/schedulers", &[]).await.body;
        let leads: Vec<Vec<String>> = list["schedulers"].as_array()?.iter().map(|one| names(&one["leads"])).collect();
        (leads.len() == 2 && leads.iter().all(|leads| leads.len() == 1)).then_some(list)
    });
    let list = list.await;
    let me = list["schedulers"].as_array().unwrap().iter().find(|one| one["name"] == list["me"]).unwrap();
    assert_eq!((&me["leads"], &me["stands_by"]), (&json!(["hub"]), &json!(["other"])), "{list}");
    let record = &list["records"][0];
    assert_eq!((&record["resource"], &record["leader"], &record["epoch"]), (&json!("hub"), &list["me"], &json!(1)));
    assert!(record["checkpoint"].as_u64() >= Some(1) && record["age_ms"].as_u64() < Some(60_000), "{record}");
}

#[tokio::test]
async fn an_operator_cancels_and_ends_waits() {
    let nats = nats::start().await;
    let (front, _file) = guarded(&nats).await;
    let operator = "canary-of-the-operator";
    let (worker, _waiting) = one_waits(&nats, "team-a").await;
    let list = ask(&front, operator, "/page/waiting/hub", Some(json!({}))).await;
    let handle = list.body["first"][0]["handle"].clone();
    let cancelled = ask(&front, operator, "/page/order/cancel/hub", Some(json!({"request": handle}))).await;
    assert_eq!((cancelled.status, &cancelled.body), (200, &json!({"status": "settled"})), "{cancelled:?}");
    assert_eq!(worker.status().await.classes[1].queued, 0);
    let asked = json!({"id": "again", "mode": "wait", "class": "bulk", "labels": {"client": "team-a"}});
    let mut ended = worker.send("permit", asked.to_string()).await;
    worker.until_queued(1).await;
    let purged = ask(&front, operator, "/page/order/purge/hub", Some(json!({"client": "team-a"}))).await;
    assert_eq!((purged.status, &purged.body), (200, &json!({"ended": 1})), "{purged:?}");
    assert_eq!(ended.body().await["code"], "purged");
}

#[tokio::test]
async fn an_operator_freezes_and_thaws_a_limit() {
    let nats = nats::start().await;
    let (front, _file) = guarded(&nats).await;
    let worker = Worker::connect(&nats, "hub").await;
    worker.ask(json!({"id": "a"})).await;
    worker.settle(json!({"id": "a", "response": {"status": 429, "headers": {"retry-after": "50"}}})).await;
    until("it is frozen", async || (worker.limit("few").await.frozen_ms > 0.0).then_some(())).await;
    let thawed = ask(&front, "canary-of-hub-operator", "/page/order/thaw/hub", Some(json!({"limit": "few"}))).await;
    assert_eq!((thawed.status, &thawed.body), (200, &json!({"limits": ["few"]})), "{thawed:?}");
    assert!(worker.limit("few").await.frozen_ms <= 0.0);
    let order = json!({"limit": "few", "for_ms": 60_000});
    let frozen = ask(&front, "canary-of-hub-operator", "/page/order/freeze/hub", Some(order)).await;
    assert_eq!((frozen.status, &frozen.body), (200, &json!({"limits": ["few"]})), "{frozen:?}");
    assert!(worker.limit("few").await.frozen_ms > 50_000.0);
    let too_long = json!({"for_ms": 1e9});
    let refused = ask(&front, "canary-of-hub-operator", "/page/order/freeze/hub", Some(too_long)).await;
    assert_eq!(refused.status, 409, "{refused:?}");
}

#[tokio::test]
async fn rules_are_applied_after_their_difference_was_seen() {
    let nats = nats::start().await;
    let (front, _file) = guarded(&nats).await;
    let operator = "canary-of-the-operator";
    let apply = async |body: Value| ask(&front, operator, "/page/order/apply", Some(body)).await;
    let rules = "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 7\nperiod = \"400h\"\nmargin = 0\n";
    let wrong = apply(json!({"rules": rules.replace('7', "0")})).await;
    assert_eq!((wrong.status, &wrong.body["message"]), (400, &json!("page:5:12: a capacity is above 0")));
    let seen = apply(json!({"rules": rules})).await;
    assert_eq!((seen.status, &seen.body["revision"]), (200, &json!(0)), "{seen:?}");
    assert!(seen.body["difference"].as_str().unwrap().contains("~ few: capacity 4 → 7"), "{seen:?}");
    let worker = Worker::connect(&nats, "hub").await;
    assert_eq!(worker.limit("few").await.capacity, 4.0, "looking changes nothing");
    let written = apply(json!({"rules": rules, "if_revision": 0})).await;
    assert_eq!((written.status, &written.body), (200, &json!({"written": 1})), "{written:?}");
    until("they are in force", async || (worker.limit("few").await.capacity == 7.0).then_some(())).await;
    assert_eq!(worker.status().await.rules.unwrap().by.as_deref(), Some("operator"));
    let late = apply(json!({"rules": rules.replace('7', "8"), "if_revision": 0})).await;
    assert_eq!(late.status, 409, "{late:?}");
    let unknown = apply(json!({"rules": rules.replace("hub", "none")})).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let editions = ask(&front, "canary-of-the-viewer", "/page/rules", None).await;
    assert!(editions.body["editions"][0]["text"].as_str().unwrap().contains("capacity = 7"), "{editions:?}");
}

#[tokio::test]
async fn ten_thousand_streams_are_no_more_than_their_bound() {
    let (_nats, front) = Front::alone("", SHARED).await;
    let (client, url) = (http(), format!("http://{}/page/live/hub", front.address()));
    let open = async || client.get(&url).send().await.unwrap();
    let together = join_all((0..200).map(|_| open())).await;
    let taken = together.iter().filter(|response| response.status() == 200).count();
    let refused = together.iter().filter(|response| response.status() == 503).count();
    assert_eq!((taken, refused), (43, 157), "two thirds are one address's");
    drop(together);
    for _ in 0..98 {
        drop(join_all((0..100).map(|_| open())).await);
    }
    until("the places of those that are gone are free", async || (open().await.status() == 200).then_some(())).await;
    assert_eq!(front.post("/v1/permit/hub", "{}").await.status, 200, "permits have other places");
}

#[tokio::test]
async fn the_page_can_be_left_out() {
    let (_nats, front) = Front::alone("page = false", SHARED).await;
    for path in ["/", "/assets/main.js", "/page/live", "/page/rights"] {
        assert_eq!(front.get(path, &[]).await.status, 404, "{path}");
    }
    assert_eq!(front.post("/v1/permit/hub", "{}").await.status, 200);
}
