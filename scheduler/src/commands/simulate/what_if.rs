//! Answers the page's what-if questions by simulating a scenario.

use super::scenario;
use rampmeter_front::{Callers, ForecastError, Forecaster, WhatIf};
use rampmeter_protocol::status::Status;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::outcome::Outcome;
use rampmeter_simulator::report::Report;
use rampmeter_simulator::world::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Table;

const CURVE_POINTS: f64 = 120.0;

#[derive(Clone, Copy, Debug)]
pub(crate) struct WhatIfSimulator;

impl Forecaster for WhatIfSimulator {
    fn forecast(
        &self,
        status: &Status,
        tried: &WhatIf,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Value, ForecastError> {
        let text = scenario_text(status, tried).map_err(|error| ForecastError::Failed(error.to_string()))?;
        let world = scenario::parse(Path::new("what-if"), &text, None);
        let world = world.map_err(|error| ForecastError::Invalid(error.to_string()))?;
        let interval = Span::from_millis((1e3 * tried.horizon_secs() / CURVE_POINTS).ceil() as u64);
        let world = world.observed_every(interval);
        let outcome = world.run_while(|_| goes_on()).map_err(|error| ForecastError::Failed(error.to_string()))?;
        Ok(figures(&world, &outcome))
    }
}

/// Returns the scenario, as people would write it.
fn scenario_text(status: &Status, tried: &WhatIf) -> Result<String, toml::de::Error> {
    let mut limits: Table = status.limits_toml.as_deref().unwrap_or_default().parse()?;
    let resource = limits.entry("resource").or_insert_with(|| Table::new().into());
    let mut units = Vec::new();
    if let Some(resource) = resource.as_table_mut() {
        let all = resource.get_mut("limit").and_then(toml::Value::as_array_mut);
        for limit in all.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
            scale(limit, tried.capacity_percent / 100.0);
            units.extend(limit.get("unit").and_then(toml::Value::as_str).map(str::to_owned));
        }
        resource.insert("name".to_owned(), status.resource.to_string().into());
        let classes =
            status.classes.iter().map(|class| Table::from_iter([("name".to_owned(), class.name.to_string().into())]));
        resource.insert("classes".to_owned(), classes.map(toml::Value::from).collect::<Vec<_>>().into());
    }
    let fleets = tried.fleets.iter().map(|fleet| toml::Value::from(fleet_table(fleet, &units)));
    limits.insert("fleet".to_owned(), fleets.collect::<Vec<_>>().into());
    limits.insert("until".to_owned(), format!("{:.3}s", tried.horizon_secs()).into());
    Ok(limits.to_string())
}

/// Returns the fleet of `callers`, whose calls cost 1 of each of `units` by default.
fn fleet_table(callers: &Callers, units: &[String]) -> Table {
    let cost = units.iter().map(|unit| (unit.clone(), toml::Value::from(1.0)));
    let named = callers.cost.iter().map(|(unit, amount)| (unit.to_string(), toml::Value::from(*amount)));
    let cost: Table = cost.chain(named).collect();
    let arrivals = Table::from_iter([("per-second".to_owned(), toml::Value::from(callers.per_second))]);
    Table::from_iter([
        ("name".to_owned(), toml::Value::from(callers.class.to_string())),
        ("class".to_owned(), callers.class.to_string().into()),
        ("workers".to_owned(), i64::from(callers.workers).into()),
        ("arrivals".to_owned(), arrivals.into()),
        ("cost".to_owned(), cost.into()),
    ])
}

fn scale(limit: &mut Table, factor: f64) {
    let number = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    if let Some(capacity) = limit.get("capacity").and_then(number) {
        limit.insert("capacity".to_owned(), toml::Value::from(capacity * factor));
    }
}

/// Returns the figures, and the upstream's remaining amounts over time, by unit.
fn figures(world: &World, outcome: &Outcome) -> Value {
    let report = Report::new(world, outcome);
    let seconds: Vec<f64> = outcome.levels.iter().map(|levels| levels.at.since(Time::ORIGIN).secs()).collect();
    let mut levels: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (unit, micros) in outcome.levels.iter().flat_map(|levels| &levels.micros) {
        levels.entry(unit).or_default().push(*micros as f64 / 1e6);
    }
    json!({
        "seconds": report.seconds, "ok": report.ok, "rejected": report.rejected, "unfinished": report.unfinished,
        "binding": report.binding, "used": report.used, "classes": report.classes,
        "curve": {"seconds": seconds, "levels": levels},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let limits = "[[resource.limit]]\nname = \"few\"\ncapacity = 10\nperiod = \"1s\"\n";
        serde_json::from_value(json!({
            "resource": "hub", "epoch": 1, "leader": "a", "limits": [], "limits_toml": limits,
            "classes": [{"name": "urgent", "queued": 0, "oldest_ms": 0.0}, {"name": "bulk", "queued": 0, "oldest_ms": 0.0}],
            "counters": {"granted": 0, "refused": 0, "settled": 0, "upstream_429": 0, "returned": 0},
        }))
        .unwrap()
    }

    fn tried(percent: f64, per_second: f64) -> WhatIf {
        let fleets = json!([{"class": "urgent", "workers": 5, "per_second": 1.0},
            {"class": "bulk", "workers": 50, "per_second": per_second}]);
        serde_json::from_value(json!({"capacity_percent": percent, "fleets": fleets})).unwrap()
    }

    fn forecast(percent: f64, per_second: f64) -> Value {
        WhatIfSimulator.forecast(&status(), &tried(percent, per_second), &mut || true).unwrap()
    }

    #[test]
    fn more_calls_than_the_limit_holds_wait_and_twice_the_limit_serves_them() {
        let (scarce, enough) = (forecast(100.0, 12.0), forecast(200.0, 12.0));
        let unfinished = |figures: &Value| figures["unfinished"].as_u64().unwrap();
        assert!(unfinished(&scarce) > 500 && unfinished(&enough) < 50, "{scarce} {enough}");
        assert_eq!((&scarce["rejected"], &scarce["binding"]), (&json!(0), &json!("few")));
        let urgent = scarce["classes"][0]["wait_ms"]["p99"].as_f64().unwrap();
        assert!(urgent < 2000.0, "{scarce}");
    }
}
