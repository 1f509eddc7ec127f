//! The upstreams that ship, over HTTP: the dialects read all that they tell.

use crate::prelude::*;
use rampmeter_dialects::{Dialect, DialectReading, Reader};
use rampmeter_protocol::settle::{Headers, Response};
use rampmeter_protocol::text::Text;
use rampmeter_scheduler_core::adaptation::observation::{Reading, Scope, Verdict};
use rampmeter_upstream::Preset;
use tokio::io::{AsyncBufReadExt, BufReader};

/// An upstream, and the reader of its answers.
struct Stage {
    upstream: Upstream,
    reader: Reader,
}

impl Stage {
    async fn new(preset: &str) -> Self {
        Self::of(Preset::named(preset).unwrap()).await
    }

    async fn of(preset: Preset) -> Self {
        let dialect: Dialect = preset.dialect().name().parse().unwrap();
        Self { upstream: Upstream::start(Config::of(preset)).await.unwrap(), reader: Reader::of(dialect) }
    }

    /// Reads the answer to a call with this query, as a worker passes it on.
    async fn call(&self, query: &str) -> DialectReading {
        let url = format!("{}/process?{query}", self.upstream.url());
        let answer = http().get(url).send().await.unwrap();
        let mut status = answer.status().as_u16();
        let shown = answer.headers().iter().filter(|(name, _)| speaks_of_limits(name.as_str()));
        let shown = shown.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let mut headers: Vec<(String, String)> = shown.collect();
        let body: Value = answer.json().await.unwrap();
        if let Some(throttle_status) = body["extensions"]["cost"].get("throttleStatus") {
            headers.push(("throttle-status".to_owned(), throttle_status.to_string()));
        }
        if body["errors"][0]["extensions"]["code"] == "THROTTLED" {
            status = 429;
        }
        let headers = headers.into_iter().map(|(name, value)| (Text::from(name), Text::from(value)));
        let response = Response { status, headers: Headers::first_of(headers), quota_spent: false, code: None };
        self.reader.read(&response, unix_ms())
    }
}

/// A bucket as an answer tells it: what it is about, what remains of what, and the seconds until it
/// is full.
type Told = (&'static str, f64, f64, RangeInclusive<f64>);

fn check(query: &str, readings: &[Reading], expected: &[Told]) {
    assert_eq!(readings.len(), expected.len(), "{query}: {readings:?}");
    for (reading, (scope, remaining, capacity, reset)) in readings.iter().zip(expected) {
        let figures = (text(&reading.scope), reading.remaining.units(), reading.capacity.unwrap().units());
        assert_eq!(figures, ((*scope).to_owned(), *remaining, *capacity), "{query}");
        let seconds = reading.reset.unwrap().secs();
        assert!(reset.contains(&seconds), "{query}: {scope} is full in {seconds} s");
    }
}

fn text(scope: &Scope) -> String {
    match scope {
        Scope::Unnamed => "unnamed".to_owned(),
        Scope::Unit(unit) => format!("unit={unit}"),
        Scope::Limit(name) => format!("limit={name}"),
    }
}

#[tokio::test]
async fn the_remaining_amount_is_read_from_every_upstream() {
    #[rustfmt::skip]
    let table: [(&str, &str, &[Told]); 6] = [
        ("github",      "method=GET",                                       &[("limit=core", 4999.0, 5000.0, 3590.0..=3601.0)]),
        ("discord",     "route=messages&channel=a",                         &[("limit=abcd1234", 4.0, 5.0, 4.9..=5.0)]),
        ("openai",      "model=large&input-tokens=1000&max-tokens=500",     &[("unit=requests", 499.0, 500.0, 0.1..=0.2),
                                                                              ("unit=tokens", 28_500.0, 30_000.0, 3.0..=3.0)]),
        ("anthropic",   "input-tokens=600&output-tokens=400",               &[("unit=requests", 49.0, 50.0, 0.0..=2.2),
                                                                              ("unit=input-tokens", 29_000.0, 30_000.0, 0.0..=2.2),
                                                                              ("unit=output-tokens", 8000.0, 8000.0, 0.0..=4.0)]),
        ("ietf",        "tenant=a",                                         &[("unit=requests", 99.0, 100.0, 0.0..=60.0),
                                                                              ("unit=requests", 99_999.0, 100_000.0, 0.0..=86_400.0),
                                                                              ("unit=requests", 29.0, 30.0, 0.0..=60.0)]),
        ("shopify",     "points=46",                                        &[("unit=points", 954.0, 1000.0, 0.91..=0.92)]),
    ];
    for (preset, query, expected) in table {
        let read = Stage::new(preset).await.call(query).await;
        assert_eq!((&read.observation.verdict, &read.unreadable[..]), (&Verdict::Passed, &[][..]), "{preset}");
        check(preset, &read.observation.readings, expected);
    }
}

/// A preset, a call, and how often it is made until all is taken. Then the call that is refused,
/// the limit that refuses it, the pause that is told, and whether other accounts are blamed.
type Refusal = (&'static str, &'static str, u32, &'static str, &'static str, Option<RangeInclusive<f64>>, bool);

#[tokio::test]
async fn refusals_are_read_from_every_upstream() {
    #[rustfmt::skip]
    let table: [Refusal; 9] = [
        // The hour is used up; a pause is an hour at most.
        ("github",      "requests=5000&method=GET",         1,      "method=GET",                   "limit=core",           Some(3590.0..=3600.0),  false),
        ("github",      "method=PATCH",                     180,    "method=GET",                   "unnamed",              Some(60.0..=60.0),      false),
        ("discord",     "route=roles&guild=a",              10,     "route=roles&guild=a",          "limit=bcde2345",       Some(9.0..=10.0),       false),
        ("discord",     "requests=50",                      1,      "route=roles&guild=a",          "limit=global",         Some(0.0..=1.0),        false),
        ("discord",     "route=shared&channel=a",           5,      "route=shared&channel=a",       "limit=cdef3456",       Some(4.0..=5.0),        true),
        ("openai",      "model=a&tokens=30000",             1,      "model=a&tokens=1000",          "unit=tokens",          Some(2.0..=2.0),        false),
        ("anthropic",   "output-tokens=8000",               1,      "output-tokens=200",            "unit=output-tokens",   Some(1.0..=2.0),        false),
        ("ietf",        "requests=30&tenant=a",             1,      "tenant=a",                     "unit=requests",        Some(0.0..=60.0),       false),
        ("shopify",     "points=1000",                      1,      "points=900",                   "unit=points",          None,                   false),
    ];
    for (preset, all, times, refused, of, pause, blames_others) in table {
        let stage = Stage::new(preset).await;
        for _ in 0..times {
            assert_eq!(stage.call(all).await.observation.verdict, Verdict::Passed, "{preset}: {all}");
        }
        let read = stage.call(refused).await;
        assert!(read.unreadable.is_empty(), "{preset}: {read:?}");
        let Verdict::Limited { scope, retry_after, by_other_accounts: others } = read.observation.verdict else {
            panic!("{read:?}")
        };
        assert_eq!((text(&scope).as_str(), others), (of, blames_others), "{preset}: {refused}");
        let fits = match (&pause, retry_after) {
            (Some(pause), Some(shown)) => pause.contains(&shown.secs()),
            (pause, shown) => pause.is_none() && shown.is_none(),
        };
        assert!(fits, "{preset}: {refused}: {retry_after:?}");
    }
}

/// Windows of hours, which an account meets long after those of minutes.
#[tokio::test]
async fn a_window_that_tells_only_its_used_share_is_read_when_it_is_used_up() {
    let file = include_str!("../../../../simulator/upstream/presets/anthropic.toml");
    let small = file.replace("output-tokens=4800000/5h", "output-tokens=4000/5h");
    assert_ne!(small, file);
    let stage = Stage::of(small.parse().unwrap()).await;
    assert_eq!(stage.call("output-tokens=4000").await.observation.verdict, Verdict::Passed);
    let read = stage.call("output-tokens=1").await;
    let Verdict::Limited { scope, retry_after, .. } = read.observation.verdict else { panic!("{read:?}") };
    assert_eq!(text(&scope), "limit=unified-5h");
    assert_eq!(retry_after.unwrap().secs(), 3600.0, "a pause is an hour at most");
}

#[tokio::test]
async fn the_command_is_any_of_them() {
    let arguments = ["upstream", "--preset", "github", "--listen", "127.0.0.1:0", "--response-ms", "0"];
    let mut playing =
        Command::new(RAMPMETER).args(arguments).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(playing.stdout.take().unwrap()).lines();
    let line = within("its first line", lines.next_line()).await.unwrap().unwrap();
    let (url, limits) = line.split_once(" enforces ").unwrap();
    assert_eq!(limits, "requests=5000/PT1H;first-use, points=900/PT1M;sliding-window, 100 at the same time");
    let answer = http().get(format!("{url}/process?method=GET")).send().await.unwrap();
    assert_eq!(answer.headers()["x-ratelimit-remaining"], "4999");

    let output = process::run(RAMPMETER, &["upstream", "--preset", "gitlab"]).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("there is no preset `gitlab`; there are anthropic, discord, github"), "{error}");
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
