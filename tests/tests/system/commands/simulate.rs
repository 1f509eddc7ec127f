//! `rampmeter simulate`, and the shipped scenarios.

use crate::prelude::*;

async fn simulate(arguments: &[&str]) -> (Option<i32>, String, String) {
    process::said(RAMPMETER, &[&["simulate"], arguments].concat()).await
}

fn scenario(name: &str) -> String {
    scenarios().join(name).to_str().unwrap().to_owned()
}

fn scenarios() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../simulator/scenarios")
}

/// Scenarios in which exact starts are not enough, because upstream, network or strangers differ
/// from the configuration.
const STRANGE: [&str; 10] = [
    "bad-network",
    "calls-in-flight",
    "crashing-workers",
    "counted-rejections",
    "dropped-fractions",
    "foreign-traffic",
    "halved-limit",
    "refill-in-ticks",
    "smaller-burst",
    "windows",
];

/// Scenarios of known upstreams whose limits are configured rightly, and the least share of the
/// limits that must be used.
const KNOWN: [(&str, f64); 2] = [("ietf", 0.995), ("unknown-phase", 0.99)];

/// A configuration, with workers.
const CONFIGURED: &str = r#"
until = "2s"
[nats]
url = "nats://nowhere:4222"
[http]
listen = ""
[[resource]]
name = "api"
start = "full"
[resource.provider]
kind = "sentinel-hub"
base_url = "https://services.example"
token_url = "https://services.example/token"
client_id_env = "ID"
client_secret_env = "SECRET"
[[resource.limit]]
name = "few"
capacity = 10
period = "1s"
[[fleet]]
name = "workers"
workers = 2
arrivals = { per_second = 2 }
cost = { requests = { one_of = [1, 2] } }
"#;

#[tokio::test]
async fn a_configuration_with_fleets_is_a_scenario() {
    let file = file_with(CONFIGURED);
    let path = file.path().to_str().unwrap();
    let (code, table, error) = simulate(&[path, "--strategy", "late-binding"]).await;
    assert!((code, error.as_str()) == (Some(0), "") && table.contains("late-binding"), "{table}{error}");

    let two = CONFIGURED.replace("[[fleet]]", "[[resource]]\nname = \"other\"\n[[fleet]]");
    std::fs::write(file.path(), two).unwrap();
    let (code, _, error) = simulate(&[path]).await;
    let said = format!("rampmeter: {path}:7:1: a scenario has one [[resource]], not 2\n");
    assert_eq!((code, error), (Some(1), said));
}

#[tokio::test]
async fn in_every_scenario_exact_starts_see_no_429_and_no_starvation() {
    let mut seen = 0;
    for entry in std::fs::read_dir(scenarios()).unwrap() {
        let path = entry.unwrap().path();
        let path = path.to_str().unwrap();
        if !path.ends_with(".toml") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
        assert!(head.concat().ends_with('.'), "{path} begins with what it shows");
        let (code, json, error) = simulate(&[path, "--strategy", "late-binding", "--json"]).await;
        assert_eq!((code, error.as_str()), (Some(0), ""), "{path}");
        let reports: Vec<Value> = serde_json::from_str(&json).unwrap();
        let figures = |field: &str| reports[0][field].as_f64().unwrap();
        assert_eq!(figures("starved"), 0.0, "{path}");
        seen += 1;
        if STRANGE.iter().any(|strange| path.ends_with(&format!("{strange}.toml"))) {
            continue;
        }
        assert_eq!(figures("rejected"), 0.0, "{path}");
        let known = KNOWN.iter().find(|(name, _)| path.ends_with(&format!("/{name}.toml")));
        let least = known.map_or(0.95, |(_, least)| *least);
        assert!(figures("used") > least, "{path}: {}", figures("used"));
    }
    assert!(seen >= 12 + STRANGE.len() + KNOWN.len(), "{seen}");
}

#[tokio::test]
async fn all_strategies_are_shown_side_by_side() {
    let (code, table, error) = simulate(&[&scenario("a-job.toml")]).await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let rows = |strategy: &str| table.lines().filter(|line| line.trim_start().starts_with(strategy)).count();
    for strategy in ["back-off", "retry-after", "static-share", "plain-rule", "reserve", "late-binding"] {
        assert_eq!(rows(strategy), 2, "{strategy}\n{table}");
    }
}

#[tokio::test]
async fn a_picture_shows_every_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let [short, path] = ["short.toml", "picture.svg"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let text = repository::file("simulator/scenarios/urgent-over-bulk.toml").unwrap().text;
    std::fs::write(&short, text.replace(r#"until = "15m""#, r#"until = "1m""#)).unwrap();
    let (code, _, error) = simulate(&[&short, "--plot", &path]).await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let picture = std::fs::read_to_string(path).unwrap();
    for message in
        ["<svg", "what the upstream could spend", "waits by class", "429", "back-off", "late-binding: 0", "bulk"]
    {
        assert!(picture.contains(message), "{message}");
    }
}

/// What dialects read of presets is in `scheduler/dialects/tests`, and what a scheduler discovers by them in
/// `simulator/tests/behaviour/discover.rs`.
#[tokio::test]
async fn a_scenario_takes_a_preset_that_lies_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let preset = "dialect = \"plain\"\n[[limit]]\nlimit = \"requests=7/1h;first-use\"\n";
    std::fs::write(folder.path().join("own.toml"), preset).unwrap();
    let path = folder.path().join("scenario.toml");
    let scenario = "until = \"1m\"\n[resource]\nname = \"api\"\n\
        [[resource.limit]]\nname = \"many\"\ncapacity = 100\nperiod = \"1h\"\n\
        [upstream]\npreset = \"own.toml\"\n[[fleet]]\nname = \"workers\"\nworkers = 20\n";
    std::fs::write(&path, scenario).unwrap();
    let (_, reports, error) = simulate(&[path.to_str().unwrap(), "--strategy", "back-off", "--json"]).await;
    let reports: Value = serde_json::from_str(&reports).unwrap_or_else(|_| panic!("{error}"));
    assert_eq!(reports[0]["ok"], 7, "{reports}");
}

#[tokio::test]
async fn clients_are_shown_for_one_strategy() {
    let (_, table, _) = simulate(&[&scenario("light-beside-heavy.toml"), "--strategy", "late-binding"]).await;
    assert!(table.contains("heavy-") && table.contains("the other 70 too"), "{table}");
}

#[tokio::test]
async fn faults_of_a_scenario_are_reported_with_their_place() {
    let valid = repository::file("simulator/scenarios/a-job.toml").unwrap().text;
    #[rustfmt::skip]
    let table = [
        ("workers = 200",       "wrokers = 200",        "16:1: unknown field `wrokers`"),
        ("workers = 200",       "workers = -1",         "16:11: invalid value: integer `-1`"),
        ("capacity = 200",      "capacity = 0",         "11:12: a capacity is above 0"),
        ("calls = 5",           "think = \"soon\"",     "17:9: a duration is written as ISO 8601"),
        ("calls = 5",           "",                     "fleet `workers` never stops; say how many calls it makes"),
        ("-units = 2 }",        "-units = 201 }",       "`: the cost of 201 exceeds the limit's capacity of 200"),
        ("-units = 2 }",        "-units = { one-of = [] } }", "`one-of` needs at least one amount"),
        ("-units = 2 }",        "-units = { most = 2 } }", "an amount, { between = [1, 4] }, { one-of = [1, 25] } or { mean = 2, most = 25 }"),
        ("calls = 5",           "calls = 5\narrivals = { per-second = 0 }", "18:12: a rate in calls per second is above 0 and at most 1e6"),
        ("calls = 5",           "calls = 5\ncrashes = { every = \"0s\", pause = \"1s\" }", "18:21: this is from 1ms to 31622400s, not 0ns"),
        ("workers = 200",       "workers = 0",          "16:11: this is from 1 to 1000000, not 0"),
        ("calls = 5",           "calls = 5000000",      "17:9: this is from 1 to 1000000, not 5000000"),
        ("calls = 5",           "calls = 5\nfrom = \"20s\"\nuntil = \"10s\"", "18:8: the fleet ends before it begins"),
        ("calls = 5",           "think = \"1s\"\narrivals = { per-second = 1 }", "17:9: give `arrivals` or `think`, not both"),
        ("-units = 2 }",        "-units = { between = [4, 1] } }", "`between` is the least and the most, not [4, 1]"),
        ("-units = 2 }",        "-units = { between = [1, 4], mean = 2 } }", "an amount, { between = [1, 4] }"),
        ("-units = 2 }",        "-units = { mean = 4, most = 2 } }", "a mean is at most `most`, 2, not 4"),
        ("[[fleet]]",           "[network]\nrequest_ms = [-5, 1]\n[[fleet]]", "a delay is [least, most] in ms, from 0 to 3600000, not [-5, 1]"),
        ("[[fleet]]",           "[upstream]\nlimits = [\"tokens=50/10s\"]\n[[fleet]]", "no limit of the resource counts `tokens`"),
        ("[[fleet]]",           "[upstream]\nlimits = [\"processing-units=1/10s\"]\n[[fleet]]", "the upstream can never serve what a call may cost"),
        ("[[fleet]]",           "[[fleet]]\nname = \"workers\"\nworkers = 1\ncalls = 1\n[[fleet]]", "there are two fleets `workers`"),
        ("[[fleet]]",           "[network]\nloss = 1\n[[fleet]]", "a part of all messages is from 0 to below 1, not 1"),
        ("[[fleet]]",           "[upstream]\nlimits = [\"requests=50/10s;luck\"]\n[[fleet]]", "luck"),
        ("[[fleet]]",           "[upstream]\npreset = \"gitlab\"\n[[fleet]]", "there is no preset `gitlab`; there are anthropic, discord, github"),
        ("[[fleet]]",           "[upstream]\npreset = \"nowhere.toml\"\n[[fleet]]", "nowhere.toml: this preset can't be read"),
        ("[[fleet]]",           "[upstream]\npreset = \"github\"\nform = { dialect = \"plain\" }\n[[fleet]]", "16:8: a preset says this already"),
        ("[[fleet]]",           "[upstream.form]\ndialect = \"plain\"\nheaders = { x-left = \"[\" }\n[[fleet]]", "and no brackets"),
        ("[[fleet]]",           "[upstream]\ndialect = \"klingon\"\n[[fleet]]", "there is no dialect `klingon`"),
        ("[[fleet]]",           "[upstream]\nretry_after = \"never\"\n[[fleet]]", "`Retry-After` is in `ms` or `seconds`, or there is `none`, but not `never`"),
    ];
    for (right, wrong, message) in table {
        assert!(valid.contains(right), "{right}");
        let file = file_with(valid.replacen(right, wrong, 1));
        let (code, output, error) = simulate(&[file.path().to_str().unwrap()]).await;
        assert_eq!((code, output.as_str()), (Some(1), ""), "{wrong}");
        assert!(error.contains(message), "{wrong}\n{error}");
    }
    let (code, _, error) = simulate(&[&scenario("a-job.toml"), "--strategy", "luck"]).await;
    assert_eq!(code, Some(2));
    assert!(error.contains("a strategy is back-off, retry-after"), "{error}");
}
