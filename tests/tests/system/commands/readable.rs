//! What commands print is read by people: narrow tables, short figures, and logs without alarm.

use crate::prelude::*;

const COLUMNS: usize = 80;

/// Limits of every kind, with large figures and long periods.
const HUB: &str = r#"
[[resource]]
name = "sentinel-hub"
fair_share = "team"
classes = [{ name = "interactive" }, { name = "bulk", headroom = 0.5 }]
limit = [
    { name = "units-per-month", unit = "processing-units", capacity = 400000, period = "744h" },
    { name = "per-minute", capacity = 600, period = "1m" },
    { name = "in-flight", algorithm = "concurrency", capacity = 4, time_to_live = "60s" },
    { name = "per-team", key = ["team"], capacity = 300, period = "10h" },
]
"#;

/// What the command prints. Checks that the command succeeds, and that every line is narrow.
async fn printed(arguments: &[&str]) -> String {
    let output = process::run(RAMPMETER, arguments).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (printed, error) = (text(output.stdout), text(output.stderr));
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{arguments:?}");
    for line in printed.lines() {
        assert!(line.chars().count() <= COLUMNS, "{} columns in {arguments:?}: {line}", line.chars().count());
    }
    printed
}

async fn at(nats: &Server, arguments: &[&str]) -> String {
    printed(&[arguments, &["--nats", nats.url()]].concat()).await
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks that there is a row which begins with these cells.
#[track_caller]
fn check_row(table: &str, cells: &[&str]) {
    let begins = |line: &str| {
        let row: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        row.starts_with(cells)
    };
    assert!(table.lines().any(begins), "no row {cells:?} in\n{table}");
}

fn wait(id: usize) -> Value {
    let id = format!("0199a7c2-5d1e-7000-8000-{id:012x}");
    json!({"id": id, "mode": "wait", "class": "bulk", "labels": {"team": "a"}})
}

#[tokio::test]
async fn status_explain_and_state_fit_a_terminal() {
    let (nats, running, worker) = Worker::beside_scheduler(HUB).await;
    let _waiting = worker.send("permit", Value::from_iter((0..15).map(wait)).to_string()).await;
    worker.status().await;

    let status = at(&nats, &["status"]).await;
    check_row(&status, &["units-per-month", "400 k", "400 k", "processing-units", "31 d", "now"]);
    check_row(&status, &["in-flight", "2", "4", "requests", "in flight", "now"]);
    check_row(&status, &["bulk", "13"]);
    for note in [
        "`units-per-month`: a margin of ",
        " is never used, because clocks and delays differ",
        "`in-flight`: a call holds its place until it is settled, or for its TTL of 1 min",
        "`per-team`: 1 key is in use; this is the fullest, `a`",
        "the next request is delayed by `in-flight`: `in-flight` has 2 of 4 left; class `bulk` must leave 2, and this takes 1: ",
    ] {
        assert!(in_one_line(&status).contains(note), "{note}:\n{status}");
    }
    assert_eq!(status.lines().filter(|line| line.starts_with('─')).count(), 2, "a line below each head\n{status}");

    let queue = at(&nats, &["explain", "sentinel-hub"]).await;
    assert!(queue.starts_with("13 requests wait\n"), "{queue}");
    assert!(queue.contains("in-flight: headroom"), "{queue}");
    assert!(queue.ends_with("and 3 more\n"), "{queue}");

    scheduler::stop(running).await;
    let state = at(&nats, &["state"]).await;
    check_row(&state, &["units-per-month"]);
    assert!(!state.contains(&u64::MAX.to_string()), "{state}");
}

#[tokio::test]
async fn simulations_and_jobs_fit_a_terminal() {
    let scenario = |name: &str| repository::root().join("simulator/scenarios").join(name).to_str().unwrap().to_owned();
    let all = printed(&["simulate", &scenario("a-job.toml")]).await;
    assert!(all.contains("The binding limit is `requests-per-10-s`."), "{all}");
    printed(&["simulate", &scenario("light-beside-heavy.toml"), "--strategy", "late-binding"]).await;

    let nats = nats::start().await;
    let queue = guilds::queue(nats.url()).await;
    queue.publish(Job::new("guild-1", "a role")).await.unwrap();
    let jobs = at(&nats, &["jobs", "status", "roles"]).await;
    check_row(&jobs, &["guild-1", "-", "1", "0", "0"]);
}

/// The messages of a log at this level or above.
fn messages(log: &str, levels: &[&str]) -> Vec<String> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.filter(|line| levels.contains(&line["level"].as_str().unwrap()));
    lines.map(|line| line["fields"]["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn logs_end_start_up_with_one_line_and_a_clean_stop_warns_of_nothing() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("nats://127.0.0.1:{port}");
    let data = tempfile::tempdir().unwrap();
    let arguments = ["--embedded-nats", "--data", data.path().to_str().unwrap()];
    let mut process = Process::start_with(RAMPMETER, &scheduler::configuration(&url, HUB), &arguments).await;
    let expected = format!("ready: leads `sentinel-hub`; workers connect to {url} or http://127.0.0.1:");
    until("start-up has ended", async || {
        messages(&process.log(), &["INFO"]).iter().any(|line| line.starts_with(&expected)).then_some(())
    })
    .await;
    process.terminate();
    assert!(process.ended().await.success());
    let log = process.log();
    assert_eq!(messages(&log, &["WARN", "ERROR"]), Vec::<String>::new(), "{log}");
    assert_eq!(messages(&log, &["INFO"]).iter().filter(|line| line.starts_with("ready: ")).count(), 1);
}
