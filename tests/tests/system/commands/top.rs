//! `rampmeter top`, on a pseudo-terminal.

use crate::RAMPMETER;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rampmeter_nats_server::Server;
use rampmeter_tests::patience::until;
use rampmeter_tests::terminal::Terminal;
use rampmeter_tests::worker::{Answers, Worker};
use rampmeter_tests::{nats, process, scheduler};
use serde_json::{Value, json};

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 60);
/// The beginning of the last line of the screen.
const KEYS: &str = "q quit  Tab panel";

/// Nothing refills while a test runs.
const RESOURCES: &str = r#"
[[resource]]
name = "hub"
fair_share = "team"
max_waiting = 20000
classes = [{ name = "interactive" }, { name = "bulk" }]
[[resource.limit]]
name = "per-month"
unit = "requests"
capacity = 400000
period = "744h"
[[resource.limit]]
name = "in-flight"
algorithm = "concurrency"
capacity = 4
time_to_live = "300s"
[[resource]]
name = "zoo"
[[resource.limit]]
name = "animals"
capacity = 10
period = "400h"
"#;

/// An id like those of workers, which differ at their ends.
fn id(number: usize) -> String {
    format!("0199a7c2-5d1e-7000-8000-{number:012x}")
}

fn request(number: usize) -> Value {
    let team = ["acme", "zoo-keepers"][number % 2];
    json!({"id": id(number), "mode": "wait", "class": "bulk", "labels": {"team": team}})
}

/// Requests that are served and stay in flight, and then `waiting` ones that wait for their places.
async fn queue_of(worker: &Worker, waiting: usize) -> Answers {
    let numbers: Vec<usize> = (0..waiting + 4).collect();
    let all = worker.send("permit", "[]").await;
    for some in numbers.chunks(500) {
        let requests = Value::from_iter(some.iter().copied().map(request));
        worker.send_also(&all, "permit", requests.to_string()).await;
    }
    // Right after its start, a leader grants as much as the store has heard of.
    until("the last request waits", async || (worker.status().await.classes[1].queued == waiting as u64).then_some(()))
        .await;
    all
}

fn top(nats: &Server, arguments: &[&str], size: (u16, u16)) -> Terminal {
    Terminal::run(RAMPMETER, &[&["top", "--nats", nats.url(), "--every", "0.2"], arguments].concat(), &[], size)
}

/// The exit code, the standard output and the standard error of `rampmeter top --once`.
async fn once(nats: &Server, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = process::run(RAMPMETER, &[&["top", "--once", "--nats", nats.url()], arguments].concat()).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Whether a line has these words in this order.
fn has(lines: &[String], words: &[&str]) -> bool {
    let in_order = |line: &String| {
        let mut rest = line.as_str();
        words.iter().all(|word| {
            rest.split_once(word).is_some_and(|(_, after)| {
                rest = after;
                true
            })
        })
    };
    lines.iter().any(in_order)
}

#[track_caller]
fn check(lines: &[String], words: &[&str]) {
    assert!(has(lines, words), "no line with {words:?}:\n{}", lines.join("\n"));
}

/// The lines below the head of the queue, without the keys.
fn queued(lines: &[String]) -> &[String] {
    let head = lines.iter().position(|line| line.trim_start().starts_with("# "));
    head.map_or(&[], |head| &lines[head + 1..lines.len() - 1])
}

#[tokio::test]
async fn it_shows_what_waits_and_why_and_leaves_the_terminal_as_it_was() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, RESOURCES).await;
    let worker = Worker::connect(&nats, "hub").await;
    let _waiting = queue_of(&worker, 30).await;
    let mut terminal = top(&nats, &[], SMALL);

    let lines = terminal.shows_text("30 requests wait for hub").await;

    check(&lines[..1], &["rampmeter top", "2 resources", "30 waiting", "0 × 429"]);
    check(&lines, &["resource", "waiting", "granted/s", "429", "delayed by"]);
    check(&lines, &["hub", "30", "in-flight: in flight"]);
    check(&lines, &["zoo", "0", "–"]);
    check(&lines, &["per-month", "█", "400 k", "31 d", "now"]);
    check(&lines, &["in-flight", "░░░░", "0", "4", "in flight"]);
    check(&lines, &["bulk", "██", "30"]);
    check(&lines, &["#", "request", "class", "client", "waits for", "waited", "starts"]);
    check(&lines, &["1", "0199a7c2", "bulk", "acme", "in-flight", "in "]);
    assert!(lines[23].starts_with(KEYS), "{lines:#?}");

    terminal.press("e");
    let lines = terminal.shows_text("why it waits").await;
    check(&lines, &["0 of 4 places of `in-flight` are free"]);
    check(&lines, &["takes 1 from `in-flight`"]);
    terminal.press(" ");
    terminal.press("?");
    terminal.shows_text("pause this screen, and go on").await;
    terminal.press("q");
    terminal.shows("the help is gone", |lines| !has(lines, &["pause this screen"])).await;
    terminal.press("q");
    assert!(terminal.ended().await.success());
    terminal.is_as_before().await;
}

/// Reaches `survey::MAX_LISTED`.
#[tokio::test]
async fn ten_thousand_requests_on_terminals_of_every_size() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, RESOURCES).await;
    let worker = Worker::connect(&nats, "hub").await;
    let _waiting = queue_of(&worker, 10_000).await;
    let mut terminal = top(&nats, &["hub"], SMALL);
    let title = "10 000 requests wait for hub, the first 100";
    for (columns, rows) in [SMALL, LARGE, SMALL, (60, 20), LARGE, SMALL] {
        terminal.resize((columns, rows));
        let last = usize::from(rows) - 1;
        let is_full = |lines: &[String]| {
            let is_row = |line: &String| line.contains("bulk") && line.contains("0199a7c2");
            let rows = queued(lines);
            let is_framed = lines[0].starts_with("rampmeter top") && lines[last].starts_with(KEYS);
            is_framed && has(lines, &[title]) && !rows.is_empty() && rows.iter().all(is_row)
        };
        let lines = terminal.shows("a full screen without old lines", is_full).await;
        assert_eq!(lines.iter().filter(|line| line.contains(title)).count(), 1, "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.contains("rampmeter top")).count(), 1, "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= usize::from(columns)), "{lines:#?}");
        let ids = queued(&lines).iter().filter(|line| line.contains(&id(4)[24..])).count();
        assert!(ids <= 1 && (columns < LARGE.0 || lines.iter().any(|line| line.contains(&id(4)))), "{lines:#?}");
    }
    // The next hundred, and back.
    terminal.press(">");
    terminal.shows_text("10 000 requests wait for hub, 100 of them, 9 800 behind these").await;
    terminal.press("<");
    terminal.shows_text(title).await;
    terminal.press("\u{3}");
    assert!(terminal.ended().await.success());
    terminal.is_as_before().await;
}

#[tokio::test]
async fn rows_are_sorted_filtered_and_other_resources_are_shown() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, RESOURCES).await;
    let worker = Worker::connect(&nats, "hub").await;
    let _waiting = queue_of(&worker, 6).await;
    let mut terminal = top(&nats, &[], SMALL);
    terminal.shows_text("6 requests wait for hub").await;

    terminal.press("/KEEPERS\r");
    // The queue is filtered while the filter is typed.
    let is_filtered = |lines: &[String]| {
        has(lines, &["6 requests wait for hub, 3 of these shown"]) && has(lines, &["# /KEEPERS ", "request"])
    };
    let lines = terminal.shows("the requests of keepers", is_filtered).await;
    assert!(queued(&lines).iter().all(|line| line.is_empty() || line.contains("zoo-")), "{lines:#?}");
    terminal.press("\u{1b}");
    terminal.shows("all requests again", |lines| has(lines, &["acme"]) && !has(lines, &["KEEPERS"])).await;

    terminal.press("ss");
    terminal.shows_text("request ▲").await;
    terminal.press("r");
    let lines = terminal.shows_text("request ▼").await;
    assert!(queued(&lines)[0].contains(&id(9)[33..]), "the last id is the first\n{lines:#?}");

    terminal.press("\u{1b}[C");
    let lines = terminal.shows_text("no request waits for zoo").await;
    check(&lines, &["animals", "10", "17 d", "now"]);
    terminal.press("q");
    assert!(terminal.ended().await.success());
}

#[tokio::test]
async fn a_pause_is_shown_begun_and_ended() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, RESOURCES).await;
    let worker = Worker::connect(&nats, "hub").await;
    worker.ask(json!({"id": "one", "labels": {"team": "acme"}})).await;
    let response = json!({"status": 429, "headers": {"retry-after": "50"}});
    worker.settle(json!({"id": "one", "response": response})).await;
    let mut terminal = top(&nats, &[], SMALL);
    let lines = terminal.shows_text("paused ").await;
    check(&lines, &["rampmeter top", "1 × 429"]);

    terminal.press("f");
    terminal.shows_text("choose a limit first").await;
    terminal.press("\t\t");
    for limit in ["per-month", "in-flight"] {
        terminal.press("f");
        terminal.shows_text(&format!("a pause of `{limit}` of hub")).await;
        terminal.press("n");
        terminal.shows_text("nothing was thawed").await;
        terminal.press("fy");
        terminal.shows_text(&format!("`{limit}` is ")).await;
        terminal.press("j");
    }
    terminal.shows("no pause", |lines| !has(lines, &["paused "])).await;
    assert!(worker.status().await.limits.iter().all(|limit| limit.frozen_ms == 0.0));
    terminal.press("f");
    terminal.shows_text("Shall no call that takes from `in-flight` of hub start for a minute?").await;
    terminal.press("n");
    terminal.shows_text("nothing was frozen").await;
    terminal.press("fy");
    terminal.shows_text("`in-flight` is frozen for a minute").await;
    terminal.shows_text("paused ").await;
    assert!(worker.limit("in-flight").await.frozen_ms > 50_000.0);
    terminal.press("f");
    terminal.shows_text("a pause of `in-flight` of hub").await;
    terminal.press("y");
    terminal.shows_text("`in-flight` is thawed: calls go on").await;
    terminal.press("q");
    assert!(terminal.ended().await.success());
}

#[tokio::test]
async fn a_scheduler_may_come_later_and_go() {
    let nats = nats::start().await;
    let terminal = top(&nats, &[], SMALL);
    terminal.shows_text("no scheduler answers").await;
    let running = scheduler::start(&nats, RESOURCES).await;
    terminal.shows_text("no request waits for hub").await;
    scheduler::stop(running).await;
    terminal
        .shows("the end of the scheduler", |lines| {
            has(lines, &["no running scheduler owns resource"]) || has(lines, &["no scheduler answers"])
        })
        .await;
}

#[tokio::test]
async fn colours_are_left_out_if_they_are_unwanted() {
    let nats = nats::start().await;
    let _running = scheduler::start(&nats, RESOURCES).await;
    let arguments = ["top", "--nats", nats.url()];
    for (variable, is_coloured) in [("", true), ("1", false)] {
        let mut terminal = Terminal::run(RAMPMETER, &arguments, &[("NO_COLOR", variable)], SMALL);
        terminal.shows_text("no request waits for hub").await;
        kill(Pid::from_raw(i32::try_from(terminal.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert!(terminal.ended().await.success());
        terminal.is_as_before().await;
        assert_eq!(terminal.bytes().contains("\u{1b}[38;5;"), is_coloured, "{:?}", terminal.bytes());
    }
}

#[tokio::test]
async fn a_panic_gives_the_terminal_back_before_its_message() {
    let mut terminal = Terminal::run(env!("CARGO_BIN_EXE_panicking-screen"), &[], &[], SMALL);
    assert!(!terminal.ended().await.success());
    terminal.is_as_before().await;
    terminal.shows_text("a bug on purpose").await;
}

#[tokio::test]
async fn one_picture_for_scripts() {
    let nats = nats::start().await;
    let (code, output, error) = once(&nats, &[]).await;
    assert_eq!((code, &*output), (Some(1), ""));
    assert_eq!(error, "rampmeter: no scheduler answers on `rampmeter.resources`; is `rampmeter serve` running?\n");
    let _running = scheduler::start(&nats, RESOURCES).await;
    let worker = Worker::connect(&nats, "hub").await;
    let _waiting = queue_of(&worker, 30).await;

    let (code, picture, error) = once(&nats, &[]).await;
    assert_eq!((code, &*error), (Some(0), ""));
    let lines: Vec<String> = picture.lines().map(str::to_owned).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80 && !line.ends_with(' ')), "{picture}");
    check(&lines, &["rampmeter top · 2 resources · 30 waiting · 0 × 429"]);
    check(&lines, &["30", "0199a7c2", "bulk", "in-flight"]);
    assert!(!picture.contains('\u{1b}') && !picture.contains(KEYS), "{picture}");

    let (code, all, _) = once(&nats, &["--json"]).await;
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!((code, all.as_array().unwrap().len()), (Some(0), 2));
    assert_eq!((&all[0]["status"]["resource"], &all[0]["queue"]["waiting"]), (&json!("hub"), &json!(30)));
    assert_eq!(all[0]["queue"]["listed"].as_array().unwrap().len(), 30);
    let (_, one, _) = once(&nats, &["--json", "zoo"]).await;
    assert_eq!(serde_json::from_str::<Value>(&one).unwrap().as_array().unwrap().len(), 1);

    let (code, _, error) = once(&nats, &["nothing"]).await;
    assert_eq!((code, &*error), (Some(1), "rampmeter: no running scheduler owns resource `nothing`\n"));
    let output = process::run(RAMPMETER, &["top", "--nats", nats.url()]).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "rampmeter: there is no terminal; `rampmeter top --once` prints one picture\n");
}
