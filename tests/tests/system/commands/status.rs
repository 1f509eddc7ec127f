//! `rampmeter status`

use crate::prelude::*;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rampmeter_protocol::explain::{Explained, Explanation};
use rampmeter_protocol::reason::Reason;
use std::fs::File;
use std::io::{BufRead, BufReader};
use tokio::io::AsyncBufReadExt;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const HUB: &str = r#"
[[resource]]
name = "hub"
max_ahead = "8000h"
classes = [{ name = "urgent" }, { name = "bulk" }]
limit = [{ name = "few", capacity = 4, period = "400h", margin = 0 }]
"#;

/// Exit code, standard output, standard error.
async fn status(nats: &Server, arguments: &[&str]) -> (Option<i32>, String, String) {
    status_at(nats.url(), arguments).await
}

async fn status_at(url: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    process::said(RAMPMETER, &[&["status", "--nats", url], arguments].concat()).await
}

#[tokio::test]
async fn a_table_for_people() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    worker.ask(json!([{"cost": {"requests": 5.5}}, {"cost": {"requests": 4}}, {"cost": {"requests": 2.5}}])).await;
    let waiting = worker.send("permit", r#"{"mode": "wait", "class": "bulk", "age_ms": 3600000}"#).await;
    worker.status().await;

    let (code, table, errors) = status(&nats, &[]).await;

    assert_eq!((code, errors.as_str()), (Some(0), ""));
    #[rustfmt::skip]
    let expected = [
        vec!["hub", "epoch 1", "led by scheduler-"],
        vec!["2 granted", "1 refused", "0 settled", "0 returned", "0 × 429 upstream"],
        vec!["the next request is delayed by `few`"],
        vec!["`few` has -2.5 of 4 left, and this takes 1: enough in 15 d"],
        vec!["limit", "left", "of", "unit", "per", "next free"],
        vec!["few", "-2.5", "4", "requests", "17 d", "10 d"],
        vec!["class", "waiting", "longest wait"],
        vec!["urgent", "0", "–"],
        vec!["bulk", "1"],
    ];
    let mut lines = table.lines();
    for words in expected {
        let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
        assert!(line.is_some(), "no line, or not in its place, with {words:?}:\n{table}");
    }
    drop(waiting);
}

#[tokio::test]
async fn json_for_programs() {
    let nats = nats::start().await;
    let two = format!("{HUB}{}", HUB.replace("\"hub\"", "\"another\""));
    let _running = scheduler::start(&nats, &two).await;
    let (code, json, _) = status(&nats, &["--json"]).await;
    let all: Vec<Status> = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (code, all.iter().map(|status| &*status.resource).collect::<Vec<_>>()),
        (Some(0), vec!["another", "hub"])
    );
    let (code, json, _) = status(&nats, &["--json", "hub"]).await;
    let one: Vec<Status> = serde_json::from_str(&json).unwrap();
    assert_eq!((code, one.len()), (Some(0), 1));
    assert_eq!(one[0].limits[0].level, 4.0);
}

#[tokio::test]
async fn a_missing_scheduler_is_reported_clearly() {
    let nats = nats::start().await;
    #[rustfmt::skip]
    let table = [
        (vec![],                        "rampmeter: no scheduler answers on `rampmeter.resources`; is `rampmeter serve` running?\n"),
        (vec!["--prefix", "fleet"],     "rampmeter: no scheduler answers on `fleet.resources`; is `rampmeter serve` running?\n"),
        (vec!["hub"],                   "rampmeter: no running scheduler owns resource `hub`\n"),
        (vec!["hub", "--json"],         "rampmeter: no running scheduler owns resource `hub`\n"),
    ];
    for (arguments, error) in table {
        assert_eq!(status(&nats, &arguments).await, (Some(1), String::new(), error.to_owned()));
    }
}

#[tokio::test]
async fn a_resource_that_no_scheduler_has_is_told_with_those_that_there_are() {
    let (nats, _running) = scheduler::alone(HUB).await;
    for (asked, meant) in [("hbu", "; did you mean `hub`?; there is `hub`\n"), ("other", "; there is `hub`\n")] {
        let error = format!("rampmeter: no running scheduler owns resource `{asked}`{meant}");
        assert_eq!(status(&nats, &[asked]).await, (Some(1), String::new(), error));
    }
}

#[tokio::test]
async fn the_configuration_says_which_server_unless_an_argument_does() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rampmeter.toml");
    let path = file.to_str().unwrap();
    let ask = async |arguments: &[&str], variables: &[(&str, &str)]| {
        let variables = [variables, &[("RAMPMETER_CONFIG", path)]].concat();
        process::told(RAMPMETER, &[&["status"], arguments].concat(), &variables).await
    };
    let write = |url: &str, more: &str| std::fs::write(&file, format!("[nats]\nurl = \"{url}\"\n{more}")).unwrap();
    write(nats.url(), "\n[[resource]]\nname = 5\n");
    let (code, said) = ask(&[], &[]).await;
    assert!(code == Some(0) && said.starts_with("hub"), "faults elsewhere do not count: {said}");
    write("nats://127.0.0.1:1", "");
    for (arguments, variables) in [(vec!["--nats", nats.url()], vec![]), (vec![], vec![("RAMPMETER_NATS", nats.url())])]
    {
        assert_eq!(ask(&arguments, &variables).await.0, Some(0));
    }
    let (code, said) = ask(&[], &[]).await;
    let names_it =
        format!("rampmeter: the NATS server is that of {path}: no NATS server answers at nats://127.0.0.1:1; ");
    assert!(code == Some(1) && said.starts_with(&names_it), "{said}");
    write(nats.url(), "prefixx = 5\n");
    let (code, said) = ask(&[], &[]).await;
    assert!(code == Some(1) && said.contains("rampmeter.toml:3:1: unknown field `prefixx`"), "{said}");
}

#[tokio::test]
async fn what_delays_the_first_request_of_each_class_is_told_alike_everywhere() {
    let limits = r#"
[[resource]]
name = "api"
default_class = "urgent"
classes = [{ name = "urgent" }, { name = "bulk" }, { name = "idle" }]
limit = [
    { name = "calls", capacity = 50, period = "1h", margin = 0 },
    { name = "units", unit = "units", capacity = 200, period = "1h", margin = 0 },
]
"#;
    let (nats, running, worker) = Worker::beside_scheduler(limits).await;
    worker.ask(json!({"cost": {"units": 200}})).await;
    let mut waiting = Vec::new();
    for (class, units) in [("bulk", 20), ("urgent", 18), ("bulk", 1)] {
        waiting.push(
            worker.send("permit", json!({"mode": "wait", "class": class, "cost": {"units": units}}).to_string()).await,
        );
    }
    let shown = worker.status().await;
    let told =
        |one: &Explained| (one.class.to_string(), one.limited_by.clone().unwrap().to_string(), one.reason.unwrap());
    let of_status: Vec<_> = shown.first_waiting().map(told).collect();
    let expected = ["urgent", "bulk"].map(|class| (class.into(), "units".into(), Reason::Stock));
    assert_eq!(of_status, expected);
    assert_eq!((shown.limited_by.as_deref(), shown.reason), (Some("units"), Some(Reason::Stock)));
    for (class, limit, reason) in of_status {
        let listed =
            process::printed(RAMPMETER, &["explain", "api", "--class", &class, "--json", "--nats", nats.url()]).await;
        let listed: Explanation = serde_json::from_str(&listed.unwrap()).unwrap();
        assert_eq!(told(&listed.first[0]), (class.clone(), limit, reason), "explain of {class}");
    }
    let (_, metrics) = scheduler::page(&running, "/metrics").await;
    for class in ["urgent", "bulk"] {
        let sample = format!(r#"rampmeter_delayed{{resource="api",class="{class}",limit="units",reason="stock"}} 1"#);
        assert!(metrics.contains(&sample), "{sample}:\n{metrics}");
    }
    let text = status(&nats, &[]).await.1;
    for line in [
        "the next request of class `urgent` is delayed by `units`:",
        "the next request of class `bulk` is delayed by `units`:",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    let (code, _, error) = process::said(RAMPMETER, &["explain", "api", "--class", "bluk", "--nats", nats.url()]).await;
    assert!(code == Some(1) && error.contains("`urgent`, `bulk`, `idle`"), "{error}");
    let held =
        process::printed(RAMPMETER, &["explain", "api", "--limit", "calls", "--nats", nats.url()]).await.unwrap();
    assert_eq!(held, "no request waits\n");
}

#[tokio::test]
async fn a_denied_inbox_is_told_with_the_remedy() {
    let nats = shipped::single().await;
    let url = shipped::url(&nats, "operator");
    let (code, output, error) = status_at(&url, &[]).await;
    assert_eq!((code, output.as_str()), (Some(1), ""));
    let denial = "the NATS server does not permit it: Permissions Violation for Subscription to \"_INBOX.";
    assert!(error.contains(denial) && error.contains("--inbox-prefix or RAMPMETER_INBOX_PREFIX"), "{error}");
    let (_, _, error) = status_at(&url, &["--inbox-prefix", "_INBOX_operator"]).await;
    assert!(error.contains("no scheduler answers on `rampmeter.resources`"), "{error}");
}

#[tokio::test]
async fn learned_costs_are_shown() {
    let resource = "[[resource]]\nname = \"hub\"\nlearn_costs = [\"route\"]\n\
                    [[resource.limit]]\nname = \"units\"\nunit = \"units\"\ncapacity = 100000\nperiod = \"1m\"\n";
    let (nats, process, worker) = Worker::beside_process(RAMPMETER, resource).await;
    for call in 0..100 {
        let id = format!("call-{call}");
        let labels = json!({"route": "/half"});
        worker.ask(json!({"id": id, "cost": {"units": 200}, "labels": labels, "mode": "wait"})).await;
        worker.settle(json!({"id": id, "cost": {"units": 100}})).await;
    }
    let shown = status(&nats, &[]).await.1;
    assert!(shown.contains("cost of `/half`: 0.5 × the estimate of units, learned from 100 calls\n"));
    process.stop().await;
}

/// Runs `rampmeter status --watch` with this standard output.
fn watch(nats: &Server, arguments: &[&str], stdout: impl Into<Stdio>) -> Child {
    let mut command = Command::new(RAMPMETER);
    command.args([&["status", "--watch=0.2", "--nats", nats.url()], arguments].concat());
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

/// The texts that a program draws on this terminal, each of which begins where the one before did.
fn drawings(terminal: File) -> UnboundedReceiver<String> {
    let (sender, drawings) = unbounded_channel();
    std::thread::spawn(move || {
        let (mut terminal, mut text) = (BufReader::new(terminal), Vec::new());
        while terminal.read_until(b'J', &mut text).is_ok_and(|read| read > 0) {
            if text.ends_with(b"\x1b[J") {
                sender.send(String::from_utf8(std::mem::take(&mut text)).unwrap()).ok();
            }
        }
    });
    drawings
}

async fn until_drawn(drawings: &mut UnboundedReceiver<String>, words: &str) {
    until(words, async || {
        let drawing = drawings.recv().await.expect("it goes on");
        let text = drawing.strip_prefix("\x1b[H").expect("it begins in the upper left corner");
        let text = text.strip_suffix("\x1b[J").unwrap().replace("\x1b[K\r\n", "\n");
        assert!(!text.contains('\x1b'), "nothing else is cleared or moved: {drawing:?}");
        text.contains(words).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_watched_status_is_drawn_in_place_until_ctrl_c() {
    let nats = nats::start().await;
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(Some(&size), None).unwrap();
    let mut watching = watch(&nats, &[], terminal.slave);
    let mut drawings = drawings(terminal.master.into());
    until_drawn(&mut drawings, "rampmeter: no scheduler answers on `rampmeter.resources`").await;
    let running = scheduler::start(&nats, HUB).await;
    until_drawn(&mut drawings, "\n0 granted").await;
    Worker::connect(&nats, "hub").await.ask(json!([{"cost": {"requests": 1}}])).await;
    until_drawn(&mut drawings, "\n1 granted").await;
    scheduler::stop(running).await;
    until_drawn(&mut drawings, "rampmeter: no ").await;
    kill(Pid::from_raw(i32::try_from(watching.id().unwrap()).unwrap()), Signal::SIGINT).unwrap();
    let ended = within("it ends", watching.wait()).await.unwrap();
    assert!(ended.success(), "{ended}");
}

#[tokio::test]
async fn a_watched_status_is_printed_again_and_again_to_a_pipe() {
    let nats = nats::start().await;
    let mut json = watch(&nats, &["--json"], Stdio::piped());
    let mut json_lines = tokio::io::BufReader::new(json.stdout.take().unwrap()).lines();
    let mut next = async || within("a line", json_lines.next_line()).await.unwrap().expect("it goes on");
    let failure: Value = serde_json::from_str(&next().await).unwrap();
    let error = "no scheduler answers on `rampmeter.resources`; is `rampmeter serve` running?";
    assert_eq!(failure, json!({"error": error}));
    let _running = scheduler::start(&nats, HUB).await;
    let mut answers = 0;
    while answers < 2 {
        let line = next().await;
        answers += usize::from(serde_json::from_str::<Vec<Status>>(&line).is_ok_and(|all| all.len() == 1));
        assert!(answers == 0 || line.starts_with('['), "{line}");
    }

    let mut tables = watch(&nats, &["hub"], Stdio::piped());
    let mut table_lines = tokio::io::BufReader::new(tables.stdout.take().unwrap()).lines();
    let mut text = String::new();
    while text.matches("led by").count() < 2 {
        text += &(within("a line", table_lines.next_line()).await.unwrap().expect("it goes on") + "\n");
    }
    let tables_before: Vec<&str> = text.split("\n\nhub · epoch").collect();
    assert!(tables_before.len() == 2 && tables_before[0].starts_with("hub · epoch"), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");

    drop((json_lines, table_lines));
    for mut unread in [json, tables] {
        assert!(within("it ends", unread.wait()).await.unwrap().success());
    }
}
