//! `rampmeter init`: each preset is a configuration that holds in the simulator and serves. The
//! tests walk the folder of presets, so that another preset is a file alone.

#![allow(clippy::print_stdout, reason = "figures, shown with --nocapture")]

use crate::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};
use toml::Table;

/// The names of the presets, as their files have them.
fn names() -> Vec<String> {
    let files = repository::files("scheduler/presets", "toml");
    let names: Vec<String> =
        files.iter().map(|file| Path::new(&file.path).file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert!(names.len() >= 24, "{names:?}");
    names
}

async fn init(arguments: &[&str]) -> Result<String, String> {
    process::printed(RAMPMETER, &[&["init"], arguments].concat()).await
}

/// The plans of each preset, by `--list`.
async fn plans() -> BTreeMap<String, Vec<String>> {
    let list = init(&["--list"]).await.unwrap();
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    let entry = |lines: &[&str]| {
        let (name, plans) = lines[0].split_once(" · plans ").unwrap_or((lines[0], ""));
        (name.to_owned(), plans.split(", ").filter(|plan| !plan.is_empty()).map(str::to_owned).collect())
    };
    list.lines().collect::<Vec<_>>().chunks(2).map(entry).collect()
}

#[tokio::test]
async fn the_list_and_the_help_name_every_preset() {
    let plans = plans().await;
    let help = process::printed(RAMPMETER, &["init", "--help"]).await.unwrap();
    for name in names() {
        assert!(plans.contains_key(&name), "{name}");
        let is_group = |line: &&str| line.starts_with("  ") && line.split([' ', ',']).any(|word| word == name);
        assert!(help.lines().any(|line| is_group(&line)), "{name}\n{help}");
    }
    assert_eq!(plans["openai"], ["1", "2", "3", "4", "5"]);
    assert!(help.contains("\n  language-models    "), "{help}");
}

#[tokio::test]
async fn every_preset_is_a_configuration_for_each_of_its_plans() {
    for (name, plans) in plans().await {
        let usual = init(&[&name]).await.unwrap();
        let path = Path::new("rampmeter.toml");
        config::parse(path, &usual).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (index, plan) in plans.iter().enumerate() {
            let text = init(&[&name, if index % 2 == 0 { "--plan" } else { "--tier" }, plan]).await.unwrap();
            config::parse(path, &text).unwrap_or_else(|error| panic!("{name} {plan}: {error}"));
            assert_eq!(text == usual, index == 0, "{name} {plan}");
        }
        if name != "plain" {
            let words = usual.replace("\n# ", " ");
            assert!(words.contains("as read on 2026-") || words.contains("as read on2026-"), "{name}: a date");
            assert!(usual.contains("# [1] https://"), "{name}: a source");
        }
    }
}

#[tokio::test]
async fn numbers_are_those_of_the_plan() {
    #[rustfmt::skip]
    let table: [(&[&str], &[&str]); 4] = [
        (&["sentinel-hub", "--plan", "enterprise-l"], &["1200", "2000", "10000000", "1000000"]),
        (&["openai", "--tier", "3"],                  &["5000", "800000"]),
        (&["zendesk", "--plan", "enterprise"],        &["700", "10", "30", "100"]),
        (&["gemini", "--tier", "free"],               &["10", "250000", "250"]),
    ];
    for (arguments, expected) in table {
        let text = init(arguments).await.unwrap();
        let capacities: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("capacity = ")).collect();
        assert_eq!(capacities, expected, "{arguments:?}");
    }
}

/// Presets whose scarcest limit is a second: delays may differ by 50 ms, so that as much of each
/// second stays unused.
const SECONDS: [&str; 3] = ["airtable", "discord", "mistral"];

/// Presets with windows of which each answer tells what is left, whose workers spend a window in a
/// second or two. A call that overtakes others on its way makes them look like those of strangers.
const TOLD: [&str; 2] = ["okta", "zendesk"];

/// The part of the scarcest limit that is used if the file is right.
fn least_used(name: &str) -> f64 {
    match name {
        name if SECONDS.contains(&name) => 0.945,
        name if TOLD.contains(&name) => 0.97,
        _ => 0.99,
    }
}

/// Simulated workers ask for more than the limits allow. They use the limits fully, and the
/// upstream rejects no call.
#[tokio::test]
async fn the_scenario_of_every_preset_shows_no_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let mut faults = Vec::new();
    for name in names() {
        let scenario = init(&[&name, "--scenario"]).await.unwrap();
        let report = simulated(&folder, &scenario).await;
        let used = report["used"].as_f64().unwrap();
        println!(
            "{name}: {} refused of {}, {} of {:.1} %",
            report["rejected"],
            report["ok"],
            report["binding"],
            100.0 * used
        );
        if report["rejected"] != 0 || used < least_used(&name) {
            faults.push(format!("{name}: {} refused, {used}", report["rejected"]));
        }
    }
    assert_eq!(faults, [""; 0]);
}

/// What late binding makes of a scenario.
async fn simulated(folder: &TempDir, scenario: &str) -> Value {
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, scenario).unwrap();
    let arguments = ["simulate", path.to_str().unwrap(), "--strategy", "late-binding", "--json"];
    let output = process::run(RAMPMETER, &arguments).await;
    let error = String::from_utf8(output.stderr).unwrap();
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}\n{scenario}"));
    reports[0].clone()
}

/// By how much the file is wrong, and which part of the account strangers use.
struct Wrong {
    what: &'static str,
    file: f64,
    strangers: f64,
}

/// The part of the scarcest limit that is used although something is wrong.
const LEAST_USED: f64 = 0.97;

const WRONG: [Wrong; 3] = [
    Wrong { what: "a file five times too high", file: 5.0, strangers: 0.0 },
    Wrong { what: "a file a fifth too low", file: 0.8, strangers: 0.0 },
    Wrong { what: "strangers of 20 %", file: 1.0, strangers: 0.2 },
];

/// The presets of `RAMPMETER_PRESETS=all` or `=NAME,NAME`, played with what is wrong in practice.
/// After the first minute, hardly a call of ours is refused, and the limits are used.
#[tokio::test]
async fn presets_hold_with_a_wrong_file_and_with_strangers() {
    let Ok(asked) = std::env::var("RAMPMETER_PRESETS") else { return };
    let asked = |name: &String| asked == "all" || asked.split(',').any(|asked| asked == name);
    let folder = tempfile::tempdir().unwrap();
    let mut faults = Vec::new();
    for name in names().into_iter().filter(asked) {
        let scenario: Table = init(&[&name, "--scenario"]).await.unwrap().parse().unwrap();
        let right = simulated(&folder, &scenario.to_string()).await;
        let policies = policies(&name).await;
        for wrong in &WRONG {
            let scenario = wrong.scenario(&scenario, &right, &policies);
            let mut first = scenario.clone();
            first.insert("until".to_owned(), "1m".into());
            let (first, whole) =
                (simulated(&folder, &first.to_string()).await, simulated(&folder, &scenario.to_string()).await);
            let own = |report: &Value| -> f64 {
                let fleets =
                    report["fleets"].as_array().unwrap().iter().take(right["fleets"].as_array().unwrap().len());
                fleets.map(|fleet| fleet["rejected"].as_f64().unwrap()).sum()
            };
            let refused = (own(&whole) - own(&first)) / (own(&whole) + whole["ok"].as_f64().unwrap()).max(1.0);
            let used = whole["used"].as_f64().unwrap() * wrong.over(&scenario, &whole["binding"]);
            println!(
                "{name}, {}: {:.2} % refused after a minute, {:.1} % used",
                wrong.what,
                100.0 * refused,
                100.0 * used
            );
            if refused > 0.005 || used < LEAST_USED.min(least_used(&name)) {
                faults.push(format!("{name}, {}: {:.2} %, {:.1} %", wrong.what, 100.0 * refused, 100.0 * used));
            }
        }
    }
    assert_eq!(faults, [""; 0]);
}

impl Wrong {
    /// How much more this limit of the file allows in the long run than the upstream. A bucket with
    /// a `refill_interval` refills as before.
    fn over(&self, scenario: &Table, binding: &Value) -> f64 {
        let limits = scenario["resource"][0]["limit"].as_array().unwrap();
        let binding = limits.iter().find(|limit| limit["name"].as_str() == binding.as_str()).unwrap();
        if binding.get("refill_interval").is_some() { 1.0 } else { self.file.max(1.0) }
    }

    /// The scenario with this file, against an upstream that keeps to `policies`.
    fn scenario(&self, right: &Table, report: &Value, policies: &[String]) -> Table {
        let mut scenario = right.clone();
        let limits = scenario["resource"].as_array_mut().unwrap()[0]["limit"].as_array_mut().unwrap();
        for limit in limits {
            let capacity = &mut limit["capacity"];
            let right = capacity.as_float().unwrap_or_else(|| capacity.as_integer().unwrap() as f64);
            *capacity = (right * self.file).clamp(1.0, 1e9).into();
        }
        let upstream = scenario.entry("upstream").or_insert_with(|| Table::new().into()).as_table_mut().unwrap();
        if !upstream.contains_key("preset") {
            let change =
                Table::from_iter([("at".to_owned(), "0s".into()), ("limits".to_owned(), policies.to_vec().into())]);
            upstream.insert("changes".to_owned(), vec![toml::Value::from(change)].into());
        }
        if self.strangers > 0.0 {
            let fleets = scenario["fleet"].as_array_mut().unwrap();
            let strangers: Vec<toml::Value> = fleets
                .iter()
                .enumerate()
                .map(|(index, fleet)| self.strangers_of(fleet, &report["fleets"][index]))
                .collect();
            fleets.extend(strangers);
        }
        scenario
    }

    /// Strangers who call as this fleet does.
    fn strangers_of(&self, fleet: &toml::Value, report: &Value) -> toml::Value {
        let mut strangers = fleet.as_table().unwrap().clone();
        let per_second = self.strangers * report["ok"].as_f64().unwrap() / 600.0;
        strangers.remove("think");
        strangers.insert("name".to_owned(), format!("{}, strangers", fleet["name"].as_str().unwrap()).into());
        strangers.insert("foreign".to_owned(), true.into());
        strangers
            .insert("arrivals".to_owned(), Table::from_iter([("per-second".to_owned(), per_second.into())]).into());
        strangers.into()
    }
}

/// What `rampmeter upstream` says that it enforces, without the calls in flight. Its Shopify is that
/// of the documented answer, not of a plan.
async fn policies(name: &str) -> Vec<String> {
    if name == "shopify" {
        return vec!["points=2000/20s".to_owned()];
    }
    let mut playing = started_upstream(name);
    let mut lines = BufReader::new(playing.stdout.take().unwrap()).lines();
    let line = within("its first line", lines.next_line()).await.unwrap().unwrap();
    let (_, limits) = line.split_once(" enforces ").unwrap();
    limits.split(", ").filter(|limit| limit.contains('=')).map(str::to_owned).collect()
}

fn started_upstream(name: &str) -> Child {
    let arguments = ["upstream", "--preset", name, "--listen", "127.0.0.1:0", "--response-ms", "0"];
    Command::new(RAMPMETER).args(arguments).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

/// A service without a file in `simulator/upstream` is an upstream all the same.
#[tokio::test]
async fn the_limits_of_a_preset_are_those_of_its_upstream() {
    assert_eq!(policies("notion").await, ["requests=180/PT1M;first-use"]);
    let mut playing = started_upstream("okta");
    let mut lines = BufReader::new(playing.stdout.take().unwrap()).lines();
    let line = within("its first line", lines.next_line()).await.unwrap().unwrap();
    let (url, _) = line.split_once(" enforces ").unwrap();
    let answer = async |query: &str| http().get(format!("{url}/process/api/v1/x?{query}")).send().await.unwrap();
    let headers = answer("endpoint=apps").await.headers().clone();
    assert_eq!(
        (&headers["x-rate-limit-limit"], &headers["x-rate-limit-remaining"]),
        (&"100".parse().unwrap(), &"99".parse().unwrap())
    );
    assert_eq!(answer("endpoint=other").await.headers()["x-rate-limit-limit"], "1200");
    let statuses: Vec<u16> = join_all((0..100).map(|_| answer("endpoint=apps")))
        .await
        .iter()
        .map(|answer| answer.status().as_u16())
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 1);
}

/// What a worker of the scenario's first fleet asks for.
fn request(scenario: &Table) -> Value {
    let fleet = scenario["fleet"][0].as_table().unwrap();
    let first = |value: &toml::Value| {
        let least = value.get("between").and_then(|range| range.get(0)?.as_integer());
        value.as_integer().or(least).unwrap_or(1)
    };
    let cost = fleet.get("cost").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let mut cost: BTreeMap<String, i64> = cost.iter().map(|(unit, value)| (unit.clone(), first(value))).collect();
    if scenario["resource"][0]["limit"].as_array().unwrap().iter().any(|limit| limit.get("unit").is_none()) {
        cost.insert("requests".to_owned(), 1);
    }
    let labels = fleet.get("labels").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let labels: BTreeMap<&String, &str> =
        labels.iter().map(|(label, value)| (label, value.as_str().unwrap_or("a"))).collect();
    json!({ "cost": cost, "labels": labels })
}

/// The proxies of presets wait for an upstream, and do not keep a scheduler from its work.
#[tokio::test]
async fn a_scheduler_of_all_presets_grants_permits() {
    let nats = nats::start().await;
    let mut resources = String::new();
    for name in names() {
        resources.push_str(&init(&[&name]).await.unwrap());
    }
    let front = Front::start(&nats, "", &resources).await;
    for name in names() {
        let scenario: Table = init(&[&name, "--scenario"]).await.unwrap().parse().unwrap();
        let resource = scenario["resource"][0]["name"].as_str().unwrap();
        let answer = front.post(&format!("/v1/permit/{resource}"), request(&scenario).to_string()).await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("granted")), "{name}: {answer:?}");
    }
}

/// Answers of a service as its documentation has them, the limit that they pause, and for how many
/// seconds at least.
#[tokio::test]
async fn objections_pause_the_limit_that_a_service_means() {
    #[rustfmt::skip]
    let table = [
        ("airtable", json!({"labels": {"base": "a"}}),          json!({"status": 429}), "base", 25.0),
        ("notion",   json!({}),                                 json!({"status": 529, "headers": {"retry-after": "20"}}), "connection", 15.0),
        ("okta",     json!({"labels": {"endpoint": "apps"}}),   json!({"status": 429, "headers": {"x-rate-limit-limit": "100", "x-rate-limit-remaining": "0", "x-rate-limit-reset": (unix_ms() / 1000 + 40).to_string()}}), "apps", 30.0),
        ("stripe",   json!({"labels": {"method": "GET", "endpoint": "a"}}), json!({"status": 429, "headers": {"stripe-rate-limited-reason": "global-rate"}}), "account", 0.1),
        ("jira",     json!({"cost": {"requests": 1, "points": 5}}), json!({"status": 429, "headers": {"ratelimit-reason": "jira-quota-global-based", "retry-after": "50"}}), "points", 40.0),
        ("hubspot",  json!({}),                                 json!({"status": 429, "code": "reached your daily limit"}), "daily", 1.0),
        ("slack",    json!({"labels": {"method": "users.list", "workspace": "one"}}), json!({"status": 429, "headers": {"retry-after": "30"}}), "tier-2", 25.0),
    ];
    for (preset, mut request, response, limit, least) in table {
        let text = init(&[preset]).await.unwrap();
        let resource = &text[text.find("[[resource]]").unwrap()..];
        let (_nats, _scheduler, worker) = Worker::beside_scheduler(resource).await;
        request["id"] = json!("a");
        worker.ask(request).await;
        assert_eq!(worker.settle(json!({"id": "a", "response": response})).await["status"], "settled", "{preset}");
        let paused = worker.limit(limit).await;
        let secs = paused.frozen_ms.max(paused.next_free_ms) / 1e3;
        assert!(paused.paused_by.is_some() && secs >= least, "{preset}: {secs} s, {paused:?}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    #[rustfmt::skip]
    let table: [(&[&str], &str); 6] = [
        (&["opnai"],                        "there is no preset `opnai`; did you mean `openai`?"),
        (&["salesforce"],                   "there is no preset `salesforce`; there are `plain`, "),
        (&["openai", "--tier", "9"],        "`openai` has no plan `9`"),
        (&["discord", "--plan", "large"],   "`discord` has no plans; leave out `--plan`"),
        (&[],                               "PRESET"),
        (&["--list", "openai"],             "cannot be used with"),
    ];
    for (arguments, expected) in table {
        let error = init(arguments).await.unwrap_err();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
