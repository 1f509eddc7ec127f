//! The simulator's forecast of what would happen with other limits and other callers, within a
//! second.

use super::page_error::PageError;
use super::question::ask;
use crate::config::parse_scenario;
use crate::serve::http::front_client::FrontClient;
use crate::serve::messages::inbound::Endpoint;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::outcome::Outcome;
use rampmeter_simulator::report::Report;
use rampmeter_simulator::world::World;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toml::Table;

/// How long a forecast may take. It runs beside the permit threads, and may take no core for long.
const LONGEST_RUN: Span = Span::from_secs(1);
/// After a forecast, pause for this many times its duration, so forecasts use at most a third of a
/// core.
const PAUSES_PER_RUN: u32 = 2;
/// The virtual time of a forecast.
const HORIZON_SECS: f64 = 600.0;
/// The most calls of a forecast: more do not fit into a second.
const MAX_CALLS: f64 = 20_000.0;
/// The most fleets of callers, one for each class.
const MAX_FLEETS: usize = 16;
/// The most callers of a fleet.
const MAX_CALLERS: u32 = 1000;
/// The most that a limit may have of its capacity, in percent.
const MAX_PERCENT: f64 = 10_000.0;
/// Observations on a curve.
const CURVE_POINTS: f64 = 120.0;

/// One forecast at a time.
#[derive(Clone, Debug)]
pub(super) struct Forecasts(Arc<Semaphore>);

impl Default for Forecasts {
    fn default() -> Self {
        Forecasts(Arc::new(Semaphore::new(1)))
    }
}

/// What is to be tried.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhatIf {
    /// The share of all capacities that limits have, in percent.
    capacity_percent: f64,
    fleets: Vec<Callers>,
}

/// The calls of one class.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Callers {
    class: Name,
    workers: u32,
    per_second: f64,
    /// The cost of a call by unit. Units that are left out cost 1.
    #[serde(default)]
    cost: BTreeMap<Name, f64>,
}

impl WhatIf {
    fn check(&self) -> Result<(), &'static str> {
        let is_rate = |rate: f64| rate > 0.0 && rate <= MAX_CALLS;
        match self {
            WhatIf { capacity_percent, .. } if !(*capacity_percent > 0.0 && *capacity_percent <= MAX_PERCENT) => {
                Err("limits have more than 0 and at most 10 000 percent of their capacity")
            }
            WhatIf { fleets, .. } if !(1..=MAX_FLEETS).contains(&fleets.len()) => Err("from 1 to 16 classes call"),
            WhatIf { fleets, .. } if !fleets.iter().all(|fleet| (1..=MAX_CALLERS).contains(&fleet.workers)) => {
                Err("a class has from 1 to 1000 workers")
            }
            WhatIf { fleets, .. } if !fleets.iter().all(|fleet| is_rate(fleet.per_second)) => {
                Err("a class makes more than 0 and at most 20 000 calls a second")
            }
            WhatIf { .. } => Ok(()),
        }
    }

    /// The virtual time, short enough for at most `MAX_CALLS` calls.
    fn horizon_secs(&self) -> f64 {
        let per_second: f64 = self.fleets.iter().map(|fleet| fleet.per_second).sum();
        HORIZON_SECS.min(MAX_CALLS / per_second)
    }

    /// The scenario, as people write it.
    fn scenario(&self, status: &Status) -> Result<String, toml::de::Error> {
        let mut limits: Table = status.limits_toml.as_deref().unwrap_or_default().parse()?;
        let resource = limits.entry("resource").or_insert_with(|| Table::new().into());
        let mut units = Vec::new();
        if let Some(resource) = resource.as_table_mut() {
            let all = resource.get_mut("limit").and_then(toml::Value::as_array_mut);
            for limit in all.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
                scale(limit, self.capacity_percent / 100.0);
                units.extend(limit.get("unit").and_then(toml::Value::as_str).map(str::to_owned));
            }
            resource.insert("name".to_owned(), status.resource.to_string().into());
            let classes = status
                .classes
                .iter()
                .map(|class| Table::from_iter([("name".to_owned(), class.name.to_string().into())]));
            resource.insert("classes".to_owned(), classes.map(toml::Value::from).collect::<Vec<_>>().into());
        }
        let fleets = self.fleets.iter().map(|fleet| toml::Value::from(fleet.table(&units)));
        limits.insert("fleet".to_owned(), fleets.collect::<Vec<_>>().into());
        limits.insert("until".to_owned(), format!("{:.3}s", self.horizon_secs()).into());
        Ok(limits.to_string())
    }
}

impl Callers {
    fn table(&self, units: &[String]) -> Table {
        let cost = units.iter().map(|unit| (unit.clone(), toml::Value::from(1.0)));
        let named = self.cost.iter().map(|(unit, amount)| (unit.to_string(), toml::Value::from(*amount)));
        let cost: Table = cost.chain(named).collect();
        let arrivals = Table::from_iter([("per-second".to_owned(), toml::Value::from(self.per_second))]);
        Table::from_iter([
            ("name".to_owned(), toml::Value::from(self.class.to_string())),
            ("class".to_owned(), self.class.to_string().into()),
            ("workers".to_owned(), i64::from(self.workers).into()),
            ("arrivals".to_owned(), arrivals.into()),
            ("cost".to_owned(), cost.into()),
        ])
    }
}

/// Multiplies the capacity of `limit`.
fn scale(limit: &mut Table, factor: f64) {
    let number = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    if let Some(capacity) = limit.get("capacity").and_then(number) {
        limit.insert("capacity".to_owned(), toml::Value::from(capacity * factor));
    }
}

impl Forecasts {
    /// The outcome for the resource `name` under the given conditions.
    pub(super) async fn run(
        &self,
        front_client: &FrontClient,
        name: &Name,
        tried: &WhatIf,
    ) -> Result<Value, PageError> {
        tried.check().map_err(PageError::invalid)?;
        let Ok(place) = self.0.clone().try_acquire_owned() else {
            return Err(PageError::unavailable("another forecast runs: try again in a second"));
        };
        let question = serde_json::to_vec(&StatusQuery { limits_toml: true, ..StatusQuery::default() })
            .expect("a question is plain data");
        let status: Status = ask(front_client, name, &Endpoint::Status, question).await?;
        let scenario = tried.scenario(&status).map_err(|error| PageError::unavailable(error.to_string()))?;
        let world = parse_scenario(std::path::Path::new("what-if"), &scenario, None);
        let world = world.map_err(|error| PageError::invalid(error.to_string()))?;
        let interval = Span::from_millis((1e3 * tried.horizon_secs() / CURVE_POINTS).ceil() as u64);
        let (world, clock) = (world.observed_every(interval), front_client.clock());
        let run = tokio::task::spawn_blocking(move || run(&world, clock, place)).await;
        let figures = run.map_err(|panic| PageError::unavailable(format!("the simulator has failed: {panic}")))?;
        figures.map_err(PageError::unavailable)
    }
}

/// Runs `world`. The place is free again after a pause.
fn run(world: &World, clock: Clock, place: OwnedSemaphorePermit) -> Result<Value, String> {
    let begun = clock.now();
    let mut is_cut = false;
    let outcome = world.run_while(|_| {
        is_cut = clock.now().since(begun) > LONGEST_RUN;
        !is_cut
    });
    let pause = clock.now().since(begun).duration() * PAUSES_PER_RUN;
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        drop(place);
    });
    match outcome {
        Ok(_) if is_cut => Err(format!("the forecast would take longer than {LONGEST_RUN}: try fewer calls")),
        Ok(outcome) => Ok(figures(world, &outcome)),
        Err(error) => Err(error.to_string()),
    }
}

/// The figures, and how much the upstream has left over time, by unit.
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

    /// The fault of this many fleets with this many workers, each with these calls a second.
    fn fault(percent: f64, fleets: usize, workers: u32, per_second: f64) -> Option<&'static str> {
        let fleet = json!({"class": "bulk", "workers": workers, "per_second": per_second});
        let tried = json!({"capacity_percent": percent, "fleets": vec![fleet; fleets]});
        serde_json::from_value::<WhatIf>(tried).unwrap().check().err()
    }

    /// Reaches `MAX_PERCENT`, `MAX_FLEETS`, `MAX_CALLERS` and `MAX_CALLS`.
    #[test]
    fn what_is_tried_is_bounded() {
        assert_eq!(fault(10_000.0, 16, 1000, 20_000.0), None);
        let table = [
            (fault(10_001.0, 1, 1, 1.0), "limits have more than 0 and at most 10 000 percent of their capacity"),
            (fault(1.0, 17, 1, 1.0), "from 1 to 16 classes call"),
            (fault(1.0, 1, 1001, 1.0), "a class has from 1 to 1000 workers"),
            (fault(1.0, 1, 1, 20_001.0), "a class makes more than 0 and at most 20 000 calls a second"),
        ];
        for (found, expected) in table {
            assert_eq!(found, Some(expected));
        }
    }

    fn tried(percent: f64, per_second: f64) -> WhatIf {
        let fleets = json!([{"class": "urgent", "workers": 5, "per_second": 1.0},
            {"class": "bulk", "workers": 50, "per_second": per_second}]);
        serde_json::from_value(json!({"capacity_percent": percent, "fleets": fleets})).unwrap()
    }

    fn forecast(percent: f64, per_second: f64) -> Value {
        let scenario = tried(percent, per_second).scenario(&status()).unwrap();
        let world = parse_scenario(std::path::Path::new("what-if"), &scenario, None).unwrap();
        figures(&world, &world.run().unwrap())
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

    #[test]
    fn a_forecast_has_bounds() {
        assert_eq!(tried(100.0, 12.0).check(), Ok(()));
        assert!(
            [tried(0.0, 12.0), tried(1e9, 1.0), tried(1.0, 0.0), tried(1.0, 1e9)]
                .iter()
                .all(|wrong| wrong.check().is_err())
        );
        assert_eq!(tried(100.0, 12.0).horizon_secs(), 600.0);
        assert_eq!(tried(100.0, 1999.0).horizon_secs(), 10.0);
    }
}
