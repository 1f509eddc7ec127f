//! Several tokens of the HTTP front: what each holder may ask for, and how tokens change.

use crate::prelude::*;

const RESOURCES: &str = r#"
[[resource]]
name = "hub"
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [{ name = "few", capacity = 100, period = "400h" }]

[[resource]]
name = "other"
limit = [{ name = "few", capacity = 100, period = "400h" }]
"#;

const TOKENS: &str = r#"
[[token]]
name = "team-a"
secret = "canary-of-team-a-1"
resources = ["hub"]
classes = ["bulk"]
client = "a"

[[token]]
name = "operator"
secret = "canary-of-the-operator"
"#;

/// Asks with a token.
async fn ask(url: &str, token: &str, path: &str, body: &Value) -> Response {
    let request = http().post(format!("{url}{path}")).bearer_auth(token).json(body);
    Response::read(request.send().await.unwrap()).await
}

#[tokio::test]
async fn a_holder_names_only_what_its_token_allows() {
    let nats = nats::start().await;
    let file = file_with(TOKENS);
    let check = "[http.check]\nresource = \"other\"";
    let front = Front::start(&nats, &format!("tokens_file = {:?}\n{check}", file.path()), RESOURCES).await;
    let url = format!("http://{}", front.address());
    let (team, operator) = ("canary-of-team-a-1", "canary-of-the-operator");
    #[rustfmt::skip]
    let table = [
        (team,      "/v1/permit/hub",   json!({}),                              200, ""),
        (team,      "/v1/permit/hub",   json!({"class": "bulk"}),               200, ""),
        (team,      "/v1/permit/hub",   json!({"labels": {"client": "a"}}),     200, ""),
        (team,      "/v1/permit/hub",   json!({"id": "x", "class": "urgent"}),  403, "token `team-a` may not name class `urgent`; it may name `bulk`"),
        (team,      "/v1/permit/hub",   json!({"labels": {"client": "b"}}),     403, "token `team-a` may not name client `b`; it may name `a`"),
        (team,      "/v1/permit/other", json!({}),                              403, "token `team-a` may not ask for resource `other`; it may ask for `hub`"),
        (team,      "/v1/permit/none",  json!({}),                              403, "token `team-a` may not ask for resource `none`; it may ask for `hub`"),
        (team,      "/v1/settle/other", json!({"id": "x"}),                     403, "token `team-a` may not ask for resource `other`; it may ask for `hub`"),
        (team,      "/check",           json!({}),                              403, "token `team-a` may not ask for resource `other`; it may ask for `hub`"),
        (operator,  "/v1/permit/hub",   json!({"class": "urgent", "labels": {"client": "b"}}), 200, ""),
        (operator,  "/v1/permit/other", json!({}),                              200, ""),
        (operator,  "/check",           json!({}),                              200, ""),
    ];
    for (token, path, body, status, message) in table {
        let response = ask(&url, token, path, &body).await;
        assert_eq!(response.status, status, "{token} {path} {body}: {response:?}");
        if status == 403 {
            let typed = (&response.body["code"], &response.body["message"], &response.body["id"]);
            assert_eq!(typed, (&json!("forbidden"), &json!(message), &body["id"]), "{response:?}");
        }
    }
    let several = ask(&url, team, "/v1/permit/hub", &json!([{"class": "urgent"}, {"class": "bulk"}])).await;
    assert_eq!((several.status, &several.body[0]["code"]), (200, &json!("forbidden")), "{several:?}");
    assert_eq!(several.body[1]["status"], "granted", "{several:?}");
}

/// Replaces the file in one step, as orchestrators do.
fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

async fn status(url: &str, token: &str) -> u16 {
    ask(url, token, "/v1/permit/hub", &json!({})).await.status
}

#[tokio::test]
async fn tokens_change_without_a_restart() {
    let nats = nats::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    replace(&path, TOKENS);
    let config = scheduler::configuration(nats.url(), &format!("tokens_file = {path:?}\n{RESOURCES}"));
    let mut process = Process::begin_in(RAMPMETER, &config, &[], &[("RAMPMETER_LOG", "trace")]);
    process.until_ready().await;
    let url = process.http().unwrap();
    let (old, new) = ("canary-of-team-a-1", "canary-of-team-a-2");
    assert_eq!((status(&url, old).await, status(&url, new).await), (200, 401));

    replace(&path, "[[token]]\nname = \"team-a\"\nsecret = \"canary\"\n");
    let message =
        ":3:10: a `secret` has 16 bytes or more, not 6: otherwise it can be guessed; the former tokens stay in force";
    until("the log says what is wrong", async || process.log().contains(message).then_some(())).await;
    assert_eq!((status(&url, old).await, status(&url, new).await), (200, 401));

    replace(&path, &TOKENS.replace(old, new));
    until("the new token counts", async || (status(&url, new).await == 200).then_some(())).await;
    assert_eq!(status(&url, old).await, 401);

    std::fs::remove_file(&path).unwrap();
    until("the log says that it is gone", async || process.log().contains("can't be read").then_some(())).await;
    assert_eq!(status(&url, new).await, 200);
    let log = process.log();
    assert_eq!(log.lines().find(|line| line.contains("canary")), None, "the log shows a token");
    process.stop().await;
}
