//! `rampmeter init`: each preset is a configuration that holds in the simulator and serves.

use crate::prelude::*;

/// A preset, its plans, its resource and the cost of a call. The number is the least part of its
/// narrowest limit that the workers of its scenario use.
type Known = (&'static str, &'static [&'static str], &'static str, Value, f64);

fn known() -> [Known; 8] {
    #[rustfmt::skip]
    let known: [Known; 8] = [
        ("sentinel-hub", &["exploratory", "basic", "enterprise-s", "enterprise-l", "trial"], "sentinel-hub", json!({"requests": 1, "processing-units": 2.5}), 0.99),
        ("copernicus",   &[],                                              "copernicus", json!({"requests": 1, "processing-units": 2.5}),            0.99),
        ("openai",       &["1", "2", "3", "4", "5"],                       "openai",     json!({"requests": 1, "tokens": 500}),                      0.99),
        ("anthropic",    &["1", "2", "3", "4"],                            "anthropic",  json!({"requests": 1, "input-tokens": 9, "output-tokens": 9}), 0.99),
        ("github",       &["user", "enterprise", "actions", "anonymous"],  "github",     json!({"requests": 1, "points": 5}),                        0.99),
        ("discord",      &[],                                              "discord",    json!({"requests": 1}),                                     0.95),
        ("shopify",      &["standard", "advanced", "plus", "enterprise"],  "shopify",    json!({"points": 10}),                                      0.99),
        ("plain",        &[],                                              "my-api",     json!({"requests": 1}),                                     0.99),
    ];
    known
}

async fn init(arguments: &[&str]) -> Result<String, String> {
    process::printed(RAMPMETER, &[&["init"], arguments].concat()).await
}

#[tokio::test]
async fn the_list_names_every_preset_and_its_plans() {
    let list = init(&["--list"]).await.unwrap();
    for (name, plans, ..) in known() {
        let line = list.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{list}"));
        assert!(line.contains(&plans.join(", ")), "{list}");
        assert!(repository::root().join("scheduler/presets").join(format!("{name}.toml")).exists());
    }
    assert_eq!(list.lines().count(), 2 * known().len(), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
}

#[tokio::test]
async fn every_preset_is_a_configuration_for_each_of_its_plans() {
    for (name, plans, ..) in known() {
        let usual = init(&[name]).await.unwrap();
        let path = Path::new("rampmeter.toml");
        config::parse(path, &usual).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (index, plan) in plans.iter().enumerate() {
            let text = init(&[name, if index % 2 == 0 { "--plan" } else { "--tier" }, plan]).await.unwrap();
            config::parse(path, &text).unwrap_or_else(|error| panic!("{name} {plan}: {error}"));
            assert_eq!(text == usual, index == 0, "{name} {plan}");
        }
    }
}

#[tokio::test]
async fn numbers_are_those_of_the_plan() {
    let large = init(&["sentinel-hub", "--plan", "enterprise-l"]).await.unwrap();
    let capacities: Vec<_> = large.lines().filter_map(|line| line.strip_prefix("capacity = ")).collect();
    assert_eq!(capacities, ["1200", "2000", "10000000", "1000000"]);
    let third = init(&["openai", "--tier", "3"]).await.unwrap();
    let capacities: Vec<_> = third.lines().filter_map(|line| line.strip_prefix("capacity = ")).collect();
    assert_eq!(capacities, ["5000", "800000"]);
}

/// Simulated workers ask for more than the limits allow. They use the limits fully, and the
/// upstream rejects no call.
#[tokio::test]
async fn the_scenario_of_every_preset_shows_no_refusal() {
    let folder = tempfile::tempdir().unwrap();
    for (name, _, _, _, used) in known() {
        let path = folder.path().join(format!("{name}.toml"));
        std::fs::write(&path, init(&[name, "--scenario"]).await.unwrap()).unwrap();
        let arguments = ["simulate", path.to_str().unwrap(), "--strategy", "late-binding", "--json"];
        let output = process::run(RAMPMETER, &arguments).await;
        let error = String::from_utf8(output.stderr).unwrap();
        let reports: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{name}: {error}"));
        let report = &reports[0];
        assert_eq!(report["rejected"], 0, "{name}: {report}");
        assert!(report["used"].as_f64().unwrap() >= used, "{name}: {report}");
    }
}

#[tokio::test]
async fn a_scheduler_of_all_presets_grants_permits() {
    let nats = nats::start().await;
    let mut resources = String::new();
    for (name, ..) in known() {
        resources.push_str(&init(&[name]).await.unwrap());
    }
    let front = Front::start(&nats, "", &resources).await;
    for (name, _, resource, cost, _) in known() {
        let body = json!({ "cost": cost, "labels": { "model": "large" } }).to_string();
        let answer = front.post(&format!("/v1/permit/{resource}"), body).await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("granted")), "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    #[rustfmt::skip]
    let table: [(&[&str], &str); 5] = [
        (&["opnai"],                        "there is no preset `opnai`"),
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
