//! What the SDK logs while no scheduler leads the resource of its requests.

use crate::prelude::*;
use std::io::{self, Write};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::fmt::MakeWriter;

const RESOURCES: &str =
    "[[resource]]\nname = \"my-api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"1s\"\n";

/// The log of this thread, on which a test and its client run.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Log::default();
        let lines = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        (log, set_default(lines))
    }

    /// Waits for the line with `text`.
    async fn line(&self, text: &str) -> String {
        until(text, async || {
            let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            log.lines().find(|line| line.contains(text)).map(str::to_owned)
        })
        .await
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_mistyped_resource_is_told_with_the_names_that_are_led() {
    let (log, _logging) = Log::start();
    let (nats, _running) = scheduler::alone(RESOURCES).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let waiting = tokio::spawn(client.resource("my-apo").unwrap().acquire(1).into_future());
    let line = log.line("no scheduler leads").await;
    assert!(line.contains("WARN") && line.contains("resource=my-apo"), "{line}");
    assert!(line.contains("no scheduler leads `my-apo`; did you mean `my-api`? Schedulers lead `my-api`"), "{line}");
    assert!(!waiting.is_finished(), "by default it waits");
    waiting.abort();
}

#[tokio::test]
async fn a_scheduler_that_does_not_run_is_told_and_that_it_came_too() {
    let (log, _logging) = Log::start();
    let nats = nats::start().await;
    let client = Client::connect(nats.url()).await.unwrap();
    let waiting = tokio::spawn(client.resource("my-api").unwrap().acquire(1).into_future());
    let line = log.line("no scheduler has answered for").await;
    assert!(line.contains("WARN") && line.contains("is `rampmeter serve` running?"), "{line}");

    let _running = scheduler::start(&nats, RESOURCES).await;
    let line = log.line("a scheduler of the resource answers again").await;
    assert!(line.contains("INFO") && line.contains("resource=my-api"), "{line}");
    drop(waiting.await.unwrap().unwrap());
}
