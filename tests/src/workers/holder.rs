//! Calls in flight, and processes that hold a permit for one, to be killed.

use crate::patience::within;
use crate::process::Program;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A resource `api` that allows this many calls in flight. Without a report each ends after this
/// many whole seconds.
pub fn calls_in_flight(capacity: usize, time_to_live: Duration) -> String {
    let seconds = time_to_live.as_secs();
    format!(
        "[[resource]]\nname = \"api\"\nstart = \"full\"\n[[resource.limit]]\nname = \"in-flight\"\n\
         algorithm = \"concurrency\"\ncapacity = {capacity}\ntime_to_live = \"{seconds}s\"\n"
    )
}

/// A process that holds a permit of `api`. Dropping it kills it.
///
/// # Panics
/// If `program` can't be run, or gets no permit.
pub async fn holder(program: Program, nats_url: &str) -> Child {
    let mut command = Command::new(program);
    let mut child = command.args([nats_url, "api"]).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = within("a worker holds a permit", lines.next_line()).await.unwrap();
    assert_eq!(line.as_deref(), Some("held"));
    child
}
