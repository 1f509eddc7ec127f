//! Presets of upstreams in commands. What dialects read of them is in `scheduler/dialects/tests`, and
//! what a scheduler discovers by it in `simulator/tests/behaviour/discover.rs`.

use crate::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::test]
async fn the_command_is_any_of_them() {
    let arguments = ["upstream", "--preset", "github", "--listen", "127.0.0.1:0", "--response-ms", "0"];
    let mut playing =
        Command::new(RAMPMETER).args(arguments).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(playing.stdout.take().unwrap()).lines();
    let line = within("its first line", lines.next_line()).await.unwrap().unwrap();
    let (url, limits) = line.split_once(" enforces ").unwrap();
    let core = "requests=5000/PT1H;first-use, requests=5000/PT1H;first-use, requests=30/PT1M;first-use, ";
    assert!(limits.starts_with(core) && limits.ends_with(", 100 at the same time"), "{limits}");
    let answer = http().get(format!("{url}/process?method=GET")).send().await.unwrap();
    assert_eq!(answer.headers()["x-ratelimit-remaining"], "4999");

    let output = process::run(RAMPMETER, &["upstream", "--preset", "gitlab"]).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("there is no preset `gitlab`; did you mean `github`?"), "{error}");
}

#[tokio::test]
async fn a_scenario_takes_a_preset_that_lies_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let preset = "dialect = \"plain\"\n[[limit]]\nlimit = \"requests=7/1h;first-use\"\n";
    std::fs::write(folder.path().join("own.toml"), preset).unwrap();
    let scenario = r#"
until = "1m"
[resource]
name = "api"
[[resource.limit]]
name = "many"
capacity = 100
period = "1h"
[upstream]
preset = "own.toml"
[[fleet]]
name = "workers"
workers = 20
"#;
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, scenario).unwrap();
    let output =
        process::run(RAMPMETER, &["simulate", path.to_str().unwrap(), "--strategy", "back-off", "--json"]).await;
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reports[0]["ok"], 7, "{reports}");
}
