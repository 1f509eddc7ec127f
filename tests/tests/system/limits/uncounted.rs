//! Requests that no limit counts, by mistake: a wrong unit, or a label that is never sent.

use crate::prelude::*;

/// A typo in the unit.
const TYPO: &str = r#"
[[resource]]
name = "my-api"
limit = [{ name = "few", unit = "request", capacity = 5, period = "10s" }]
"#;

/// Five a client and five in all; the limit of clients is never needed if no request names one.
const KEYED: &str = r#"
[[resource]]
name = "my-api"
limit = [
    { name = "all", capacity = 1000, period = "10s" },
    { name = "per-client", key = ["client"], capacity = 5, period = "10s" },
]
"#;

const NOTE: &str = "resource `my-api`: no limit counts `requests`, so that requests without a `cost` are refused \
                    (`unknown_unit`). Limits count `request`; did you mean `unit = \"requests\"` in place of \
                    \"request\"?";

/// What a command prints on standard output.
async fn output(arguments: &[&str]) -> String {
    process::printed(RAMPMETER, arguments).await.unwrap()
}

#[tokio::test]
async fn check_and_serve_warn_of_a_unit_that_no_request_has() {
    let file = file_with(TYPO);
    let check = async || output(&["check", "--config", file.path().to_str().unwrap()]).await;
    assert_eq!(check().await.lines().next(), Some(&*format!("note: {NOTE}")));
    let meant = TYPO.replace("name = \"my-api\"", "name = \"my-api\"\nuncounted = \"allow\"");
    std::fs::write(file.path(), meant).unwrap();
    assert!(!check().await.contains("note: "), "the file says that it is meant");

    let nats = nats::start().await;
    let serving = Process::start(RAMPMETER, &nats, TYPO).await;
    let log = serving.log();
    assert!(log.contains(&NOTE.replace('"', "\\\"")), "{log}");
}

#[tokio::test]
async fn a_label_that_no_request_carries_is_in_the_status_and_in_the_log() {
    let (nats, serving, worker) = Worker::beside_process(RAMPMETER, KEYED).await;
    let noted = "note: no request has carried the label `client`, so that `per-client` holds none";
    let status = async || output(&["status", "--nats", nats.url()]).await;
    assert!(!status().await.contains("note: "), "no request has come yet");
    for _ in 0..10 {
        assert_eq!(worker.ask(json!({"labels": {"route": "/"}})).await["status"], "granted");
    }
    assert!(status().await.contains(noted), "{}", status().await);
    assert_eq!(worker.limit("per-client").await.missing_labels, ["client"]);
    let warning = "no request carries the label `client`, so that the limit `per-client` holds none";
    assert_eq!(serving.log().matches(warning).count(), 1, "{}", serving.log());
    worker.ask(json!({"labels": {"client": "ada"}})).await;
    assert!(!status().await.contains("note: "), "{}", status().await);
}
