//! Budgets in money: a call reserves the most that it may cost, and pays what its answer says.

use super::models::{chat, levels_in_micros, model, post, proxy};
use crate::prelude::*;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use rampmeter_tests::process::{run_in, said};
use rampmeter_tests::vendor::Vendor;
use std::sync::atomic::{AtomicU64, Ordering};

/// A dollar a year, for an API that speaks as OpenAI's.
fn budget(capacity: f64) -> String {
    format!(
        "[[resource]]\nname = \"api\"\ndialect = \"openai\"\nstart = \"full\"\n\
         [[resource.limit]]\nname = \"budget\"\nunit = \"usd\"\nalgorithm = \"quota\"\nresets = \"never\"\ncapacity = {capacity}\n"
    )
}

/// A request of 100 bytes or a little more, for at most this many tokens.
fn ask(model: &str, most: u32) -> String {
    chat(&format!("\"{}\"", "a".repeat(50)), most).replace("\"m\"", &format!("\"{model}\""))
}

/// Millionths of a dollar that are left of one dollar.
async fn left(proxy: &ProxyProcess) -> i64 {
    levels_in_micros(proxy, "api").await[0]
}

/// gpt-4o takes 2.50 for a million tokens of input, 1.25 from its cache, and 10.00 of output.
#[tokio::test]
async fn a_call_pays_what_its_answer_says_and_the_most_if_that_is_uncertain() {
    let usage = "{\"prompt_tokens\":40,\"completion_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":10}}";
    let stream = format!("data: {{\"choices\":[]}}\n\ndata: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n");
    let paid = 30 * 25 / 10 + 10 * 125 / 100 + 1 + 7 * 10;
    let body = ask("gpt-4o-2024-08-06", 100);
    let prompt = (body.len() as i64 * 25 + 9) / 10;
    let most = prompt + 100 * 10;
    #[rustfmt::skip]
    let table = [
        (200, "application/json",  format!("{{\"usage\":{usage}}}"),             paid),
        (200, "text/event-stream", stream,                                       paid),
        (200, "application/json",  "{\"choices\":[]}".to_owned(),                most),
        (200, "text/event-stream", "data: {\"choices\":[]}\n\n".to_owned(),      most),
        (200, "application/json",  "{\"usage\":{\"prompt_tokens\":40}}".to_owned(), most),
        (200, "text/event-stream", format!("data: {{\"message\":{{\"usage\":{usage}}}}}\n\ndata: {{\"delta\":{{\"text\":\"and\"}}}}\n\n"), most),
        (422, "application/json",  "{\"error\":{}}".to_owned(),                  0),
        (400, "application/json",  "{\"error\":{}}".to_owned(),                  prompt),
        (500, "application/json",  "{\"error\":{}}".to_owned(),                  most),
    ];
    for (status, content_type, answer, expected) in table {
        let told = format!("{status} {answer}");
        let answering = async move |_read: bytes::Bytes| {
            (StatusCode::from_u16(status).unwrap(), [(CONTENT_TYPE, content_type)], answer)
        };
        let proxy = proxy(&budget(1.0), &serve(Router::new().fallback(answering)).await, "").await;
        assert_eq!(post(&proxy, "/v1/chat/completions", body.clone()).await, status, "{told}");
        until(&told, async || (left(&proxy).await == 1_000_000 - expected).then_some(())).await;
    }
}

/// A budget that some calls pass by holds nothing.
#[tokio::test]
async fn a_call_without_a_price_is_refused_unless_its_route_states_one() {
    let folder = tempfile::tempdir().unwrap();
    let prices = folder.path().join("prices.json");
    std::fs::write(&prices, r#"{"date":"2026-01-01","models":{"own":{"input":1,"output":1,"most":10}}}"#).unwrap();
    let settings = format!(
        "prices = {:?}\n[[proxy.route]]\npath = \"/v1/images/*\"\nmethods = [\"POST\"]\ncost = {{ usd = 0.04 }}\n",
        prices.display()
    );
    let upstream = model("application/json", "{}").await;
    let proxy = proxy(&budget(1.0), &upstream, &settings).await;
    #[rustfmt::skip]
    let table = [
        ("/v1/chat/completions",    ask("unheard-of", 5),                   422),
        ("/v1/chat/completions",    chat("\"a\"", 5).replace("model", "no"), 422),
        ("/v1/audio/speech",        ask("gpt-4o", 5),                       200),
        ("/v1/batches",             "{\"input_file_id\":\"f\"}".to_owned(), 422),
        ("/v1/messages/count_tokens", ask("unheard-of", 5),                 200),
        ("/v1/images/generations",  "{}".to_owned(),                        200),
        ("/v1/chat/completions",    ask("own", 5),                          200),
    ];
    for (path, body, status) in table {
        assert_eq!(post(&proxy, path, body.clone()).await, status, "{path} {body}");
    }
    let answer = http().post(format!("{}/v1/chat/completions", proxy.url())).body(ask("unheard-of", 5));
    let text = answer.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("there is no price of `unheard-of`") && text.contains("`prices`"), "{text}");
}

#[tokio::test]
async fn a_refusal_says_what_is_left_of_a_budget() {
    // A call reserves 0.0103, and its answer does not say what it took.
    let proxy = proxy(&budget(0.015), &model("application/json", "{}").await, "").await;
    assert_eq!(post(&proxy, "/v1/chat/completions", ask("gpt-4o", 1000)).await, 200);
    let asked = http().post(format!("{}/v1/chat/completions", proxy.url())).body(ask("gpt-4o", 1000));
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 429);
    let text = answer.text().await.unwrap();
    assert!(text.contains("more of the quota than the 0.004"), "{text}");
}

/// 64 clients call as often as they may. Each call reserves about four times what it costs, so that the first
/// refusal would come early if nobody waited for settles.
#[tokio::test]
async fn a_budget_is_used_to_its_end_and_never_exceeded() {
    let vendor = Vendor::start(Duration::from_millis(1)).await;
    let proxy = proxy(&budget(1.0), vendor.url(), "").await;
    let used_at_first_refusal = AtomicU64::default();
    let client = async |_| {
        while post(&proxy, "/v1/chat/completions", ask("gpt-4o", 200)).await == 200 {}
        used_at_first_refusal.fetch_min(vendor.billed(), Ordering::Relaxed);
    };
    used_at_first_refusal.store(u64::MAX, Ordering::Relaxed);
    join_all((0..64).map(client)).await;
    let billed = vendor.billed();
    let first = used_at_first_refusal.load(Ordering::Relaxed);
    assert!((980_000..=1_000_000).contains(&first), "{first} of a million when the first call was refused");
    assert!(billed <= 1_000_000, "the vendor bills {billed}");
    let calls = vendor.calls() as i64;
    until("all are settled", async || {
        // Each call is rounded up to a millionth.
        let booked = 1_000_000 - left(&proxy).await;
        (billed as i64..=billed as i64 + calls).contains(&booked).then_some(())
    })
    .await;
}

#[tokio::test]
async fn use_is_counted_by_team_and_model() {
    let usage = "{\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":7}}";
    let limits = budget(1.0).replace("dialect", "usage_by = [\"team\", \"model\"]\ndialect");
    let labels = "labels = { team = \"header:x-team\", model = \"body:model\" }";
    let proxy = proxy(&limits, &model("application/json", usage).await, labels).await;
    for team in ["red", "red", "blue"] {
        let request = http().post(format!("{}/v1/chat/completions", proxy.url())).header("x-team", team);
        assert_eq!(request.body(ask("gpt-4o", 5)).send().await.unwrap().status(), 200);
    }
    let url = std::fs::read_to_string(proxy.data().join("nats-url")).unwrap();
    until("the use is written", async || {
        let shown = run_in(RAMPMETER, &["usage", "api", "--csv"], &[("RAMPMETER_NATS", url.trim())]).await;
        let text = String::from_utf8(shown.stdout).unwrap();
        let has = |row: &str| text.lines().any(|line| line.ends_with(row));
        (has("\"red · gpt-4o\",default,usd,0.00034") && has("\"blue · gpt-4o\",default,usd,0.00017")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_command_tells_what_a_call_costs_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (request, answer) = (
        file("request.json", &ask("gpt-4o", 100).replace(",\"max_tokens\":100", "")),
        file("answer.json", "{\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":7}}"),
    );
    #[rustfmt::skip]
    let table: [(&[&str], i32, &[&str]); 6] = [
        (&["gpt-4o", "--input", "1200", "--output", "300"],         0, &["0.006000", "prices of "]),
        (&["gpt-4o-mini", "--input", "1", "--output", "0"],         0, &["0.000001", "rounded up by 0.00000085"]),
        (&["--body", &request],                                     0, &["input, at most", "16 384", "`max_tokens`"]),
        (&["--body", &request, "--answer", &answer],                0, &["0.000170"]),
        (&["unheard-of", "--input", "1"],                           1, &["no price of `unheard-of`", "--list"]),
        (&["--list"],                                               0, &["gpt-4o", "claude-", "USD per million"]),
    ];
    for (arguments, code, expected) in table {
        let (exit, out, error) = said(RAMPMETER, &[&["price"], arguments].concat()).await;
        let text = out + &error;
        assert_eq!(exit, Some(code), "{arguments:?}: {text}");
        expected.iter().for_each(|part| assert!(text.contains(part), "{arguments:?} lacks {part}: {text}"));
    }
    let (_, json, _) = said(RAMPMETER, &["price", "gpt-4o", "--input", "1000", "--output", "0", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["usd"], 0.0025, "{json}");
}
