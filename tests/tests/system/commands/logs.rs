//! Standard error that is unread, full or closed. Permits go on, and the process ends on request.

use crate::prelude::*;
use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, pipe};

const HUB: &str =
    "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"many\"\ncapacity = 1000\nperiod = \"1s\"\n";
/// Lines of about 200 bytes: several times what a pipe holds.
const COMPLAINTS: usize = 2_000;

/// A scheduler that logs one line for each settle that reports a response of the upstream.
fn talkative(folder: &TempDir, redirections: &str) -> process::Program {
    let script = folder.path().join("talkative");
    let text = format!(
        "#!/bin/sh\nRAMPMETER_LOG=info,rampmeter_serve=debug,rampmeter_front=debug exec {RAMPMETER} \"$@\" {redirections}\n"
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    script.to_str().unwrap().to_owned().leak()
}

/// Sends settles that fill the log.
async fn provoke(worker: &Worker) {
    for _ in 0..COMPLAINTS {
        worker.tell("settle", r#"{"id": "of-no-permit", "response": {"status": 200}}"#).await;
    }
}

/// A scheduler with this standard error grants permits through all complaints, and ends in time.
async fn check(redirections: &str, stderr: impl Into<Stdio>) {
    let (nats, folder) = (nats::start().await, tempfile::tempdir().unwrap());
    let program = talkative(&folder, redirections);
    let mut process = Process::begin_on(program, &scheduler::configuration(nats.url(), HUB), stderr);
    let worker = Worker::connect(&nats, "hub").await;
    worker.status_of_leader().await;
    provoke(&worker).await;
    for _ in 0..10 {
        assert_eq!(worker.ask(json!({})).await["status"], "granted");
    }
    process.terminate();
    assert!(process.ended().await.success());
}

#[tokio::test]
async fn permits_go_on_if_standard_error_is_unread_full_or_closed_or_its_reader_is_gone() {
    let (_unread, stderr) = pipe().unwrap();
    check("", stderr).await;
    check("", File::options().write(true).open("/dev/full").unwrap()).await;
    check("2>&-", Stdio::null()).await;
    let (reader, stderr) = pipe().unwrap();
    drop(reader);
    check("", stderr).await;
}

/// Lines of a log, which a test reads when it wants them.
struct Lines(Option<BufReader<PipeReader>>);

impl Lines {
    /// Reads up to the next line with `text`.
    async fn until(&mut self, text: &'static str) -> Value {
        let mut reader = self.0.take().expect("there is one reader");
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains(text) {
                line.clear();
                assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the log ends without `{text}`");
            }
            (reader, line)
        });
        let (reader, line) = within(text, reading).await.unwrap();
        self.0 = Some(reader);
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

#[tokio::test]
async fn lost_lines_are_counted_and_logged_when_the_reader_goes_on() {
    let (nats, folder) = (nats::start().await, tempfile::tempdir().unwrap());
    let (reader, stderr) = pipe().unwrap();
    let mut process = Process::begin_on(talkative(&folder, ""), &scheduler::configuration(nats.url(), HUB), stderr);
    let mut lines = Lines(Some(BufReader::new(reader)));
    let started = lines.until("health and metrics at").await["fields"]["message"].as_str().unwrap().to_owned();
    let url = started.rsplit_once(' ').unwrap().1.to_owned();
    let worker = Worker::connect(&nats, "hub").await;
    worker.status_of_leader().await;
    let lost = until("lines are lost", async || {
        provoke(&worker).await;
        let page = Page::parse(&scheduler::get(&url).await.1).unwrap();
        Some(page.value("rampmeter_log_lines_lost_total", &[])).filter(|lost| *lost > 0.0)
    })
    .await;
    let line = lines.until("log lines were lost").await;
    assert!(line["fields"]["lost"].as_f64().unwrap() >= lost, "{line}, {lost} by the metric");
    process.terminate();
    let last = lines.until("stopped").await;
    assert_eq!(last["fields"]["message"], "stopped");
    assert!(process.ended().await.success());
}

/// A command's last complaint may stay unread.
#[tokio::test]
async fn a_command_fails_in_order_if_standard_error_is_full() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(RAMPMETER);
    command.args(["check", "--config", "/nonexistent.toml"]).stdout(Stdio::null()).stderr(full);
    let status = within("the command ends", command.status()).await.unwrap();
    assert_eq!(status.code(), Some(1), "no panic: {status}");
}
