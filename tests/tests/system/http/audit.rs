//! What the log and metrics tell of refused requests, and of operators' orders.

use crate::prelude::*;

const TOKENS: &str = "[[token]]\nname = \"ada\"\nsecret = \"canary-of-the-operator\"\npage = \"operate\"\n\
                      [[token]]\nname = \"ben\"\nsecret = \"canary-of-a-client\"\nresources = [\"other\"]\npage = \"view\"\n";

/// A scheduler whose tokens are in the returned file, and its URL.
async fn guarded(nats: &Server) -> (Process, String, NamedTempFile) {
    let file = file_with(TOKENS);
    let config = scheduler::configuration(nats.url(), &format!("tokens_file = {:?}\n{FOUR}", file.path()));
    let mut process = Process::begin_in(RAMPMETER, &config, &[], &[]);
    process.until_ready().await;
    let url = process.http().unwrap();
    (process, url, file)
}

async fn post(url: &str, token: &str, path: &str, body: &Value, origin: Option<&str>) -> Response {
    let request = http().post(format!("{url}{path}")).bearer_auth(token).json(body);
    let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
    Response::read(request.send().await.unwrap()).await
}

/// The fields of the log's lines with this message.
fn lines(process: &Process, message: &str) -> Vec<Value> {
    let lines = process.log();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["fields"]["message"] == message).collect()
}

#[tokio::test]
async fn refused_requests_are_counted_and_logged_once_a_minute() {
    let nats = nats::start().await;
    let (process, url, _file) = guarded(&nats).await;
    let (ada, ben, wrong) = ("canary-of-the-operator", "canary-of-a-client", "canary-of-a-stranger");
    #[rustfmt::skip]
    let table = [
        (wrong, "/v1/permit/hub",           None,                           401),
        (wrong, "/page/order/thaw/hub",     None,                           401),
        (wrong, "/v1/settle/hub",           None,                           401),
        (ben,   "/v1/permit/hub",           None,                           403),
        (ben,   "/page/order/thaw/hub",     None,                           403),
        (ada,   "/v1/permit/hub",           Some("https://page.example"),   403),
    ];
    for (token, path, origin, status) in table {
        let answer = post(&url, token, path, &json!({}), origin).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    assert_eq!(post(&url, ada, "/v1/permit/hub", &json!({}), None).await.status, 200);
    let metrics = scheduler::get(&format!("{url}/metrics")).await.1;
    let logged = lines(&process, "an HTTP request is refused");
    for (reason, count, token) in
        [("unauthorized", 3, json!(null)), ("forbidden", 2, json!("ben")), ("web_page", 1, json!(null))]
    {
        let sample = format!("rampmeter_http_refused_total{{reason=\"{reason}\"}} {count}");
        assert!(metrics.contains(&sample), "{sample}\n{metrics}");
        let of_reason: Vec<&Value> =
            logged.iter().map(|line| &line["fields"]).filter(|fields| fields["reason"] == reason).collect();
        assert_eq!(of_reason.len(), 1, "{logged:?}");
        assert_eq!((&of_reason[0]["address"], &of_reason[0]["token"]), (&json!("127.0.0.1"), &token), "{logged:?}");
    }
    assert!(!process.log().contains("canary") && !metrics.contains("canary"));
    process.stop().await;
}

/// Reaches `MAX_ORDER`.
#[tokio::test]
async fn every_order_of_an_operator_is_in_the_audit_log() {
    let nats = nats::start().await;
    let (process, url, _file) = guarded(&nats).await;
    let rules = FOUR.replace("capacity = 4", "capacity = 7");
    #[rustfmt::skip]
    let over_http = [
        ("freeze",  "/page/order/freeze/hub",   json!({"limit": "few", "for_ms": 1000.0}),  r#"{"limit":"few","for_ms":1000.0}"#),
        ("thaw",    "/page/order/thaw/hub",     json!({"limit": "few"}),                    r#"{"limit":"few"}"#),
        ("purge",   "/page/order/purge/hub",    json!({}),                                  "{}"),
        ("apply",   "/page/order/apply",        json!({"rules": rules, "if_revision": 0}),  "over revision 0"),
    ];
    for (what, path, body, _) in &over_http {
        let answer = post(&url, "canary-of-the-operator", path, body, None).await;
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
    }
    let options = async_nats::ConnectOptions::new().custom_inbox_prefix("_INBOX_eve");
    let client = options.connect(nats.url()).await.unwrap();
    let long = "no order ".repeat(50);
    let over_nats = [("freeze", r#"{"for_ms":1}"#), ("thaw", ""), ("purge", &long), ("empty", "{}")];
    for (what, order) in over_nats {
        client.request(format!("rampmeter.{what}.hub"), order.to_owned().into()).await.unwrap();
    }
    until("the rules count", async || process.log().contains("in force in place of").then_some(())).await;
    until("all orders are logged", async || (lines(&process, "an operator's order").len() >= 9).then_some(())).await;
    let logged: Vec<Value> = lines(&process, "an operator's order");
    let logged: Vec<[&str; 5]> = logged
        .iter()
        .inspect(|line| assert_eq!(line["target"], "rampmeter_audit"))
        .map(|line| ["who", "what", "on", "from", "order"].map(|field| line["fields"][field].as_str().unwrap()))
        .collect();
    let mut expected: Vec<[&str; 5]> =
        over_http.iter().map(|(what, _, _, order)| ["ada", *what, "hub", "127.0.0.1", *order]).collect();
    expected.extend(
        over_nats.iter().map(|(what, order)| ["_INBOX_eve", *what, "hub", "nats", &order[..order.len().min(300)]]),
    );
    for order in expected {
        assert!(logged.contains(&order), "{order:?} is not in {logged:#?}");
    }
    let taken = logged.iter().filter(|order| order[..4] == ["ada", "apply", "hub", "page"]).count();
    assert_eq!((taken, logged.len()), (1, 9), "{logged:#?}");
    assert!(!process.log().contains("canary"));
    process.stop().await;
}
