//! Forecasts, within a second, of what other limits and other callers would cause.

use super::page_error::PageError;
use super::question::ask;
use crate::front_client::FrontClient;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::time::Span;
use rampmeter_serve::messages::inbound::Endpoint;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bound on a forecast, which runs beside the permit threads and may occupy no core for long.
const LONGEST_RUN: Span = Span::from_secs(1);
/// The pause after a forecast, in multiples of its duration: forecasts use at most a third of a core.
const PAUSES_PER_RUN: u32 = 2;
/// The virtual time of a forecast.
const HORIZON_SECS: f64 = 600.0;
/// Bound on the calls of a forecast. More do not fit into a second.
const MAX_CALLS: f64 = 20_000.0;
/// Bound on the fleets of callers, one for each class.
const MAX_FLEETS: usize = 16;
/// Bound on the callers of a fleet.
const MAX_CALLERS: u32 = 1000;
/// Bound on a limit's share of its capacity, in percent.
const MAX_PERCENT: f64 = 10_000.0;

/// Answers the page's what-if questions.
pub trait Forecaster: fmt::Debug + Send + Sync {
    /// Returns a resource's figures under these conditions. Stops early, with void figures, once `goes_on` is false.
    ///
    /// # Errors
    /// See [`ForecastError`].
    fn forecast(
        &self,
        status: &Status,
        tried: &WhatIf,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Value, ForecastError>;
}

/// Why there is no forecast.
#[derive(Debug)]
pub enum ForecastError {
    /// The conditions do not fit the resource.
    Invalid(String),
    /// The forecast has failed.
    Failed(String),
}

impl From<ForecastError> for PageError {
    fn from(error: ForecastError) -> Self {
        match error {
            ForecastError::Invalid(why) => PageError::invalid(why),
            ForecastError::Failed(why) => PageError::unavailable(why),
        }
    }
}

/// Runs one forecast at a time.
#[derive(Clone, Debug)]
pub(super) struct Forecasts {
    forecaster: &'static dyn Forecaster,
    places: Arc<Semaphore>,
}

/// The conditions of a forecast.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhatIf {
    /// The capacity of all limits, in percent of the present one.
    pub capacity_percent: f64,
    /// The callers of each class.
    pub fleets: Vec<Callers>,
}

/// The callers of one class.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callers {
    /// The class.
    pub class: Name,
    /// The number of workers.
    pub workers: u32,
    /// Calls per second of all workers together.
    pub per_second: f64,
    /// The cost of a call by unit; 1 for units left out.
    #[serde(default)]
    pub cost: BTreeMap<Name, f64>,
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

    /// Returns the virtual time of the forecast, short enough for at most 20 000 calls.
    #[must_use]
    pub fn horizon_secs(&self) -> f64 {
        let per_second: f64 = self.fleets.iter().map(|fleet| fleet.per_second).sum();
        HORIZON_SECS.min(MAX_CALLS / per_second)
    }
}

impl Forecasts {
    pub(super) fn new(forecaster: &'static dyn Forecaster) -> Self {
        Forecasts { forecaster, places: Arc::new(Semaphore::new(1)) }
    }

    pub(super) async fn run(&self, front_client: &FrontClient, name: &Name, tried: WhatIf) -> Result<Value, PageError> {
        tried.check().map_err(PageError::invalid)?;
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return Err(PageError::unavailable("another forecast runs: try again in a second"));
        };
        let question = StatusQuery { limits_toml: true, ..StatusQuery::default() };
        let status: Status = ask(front_client, name, &Endpoint::Status, &question).await?;
        let (forecaster, clock) = (self.forecaster, front_client.clock);
        let run = tokio::task::spawn_blocking(move || run(forecaster, &status, &tried, clock, place)).await;
        run.map_err(|panic| PageError::unavailable(format!("the simulator has failed: {panic}")))?
    }
}

/// Runs a forecast. The place is free again after a pause.
fn run(
    forecaster: &dyn Forecaster,
    status: &Status,
    tried: &WhatIf,
    clock: Clock,
    place: OwnedSemaphorePermit,
) -> Result<Value, PageError> {
    let begun = clock.now();
    let mut is_cut = false;
    let figures = forecaster.forecast(status, tried, &mut || {
        is_cut = clock.now().since(begun) > LONGEST_RUN;
        !is_cut
    });
    let pause = clock.now().since(begun).duration() * PAUSES_PER_RUN;
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        drop(place);
    });
    match figures {
        Ok(_) if is_cut => {
            let why = format!("the forecast would take longer than {LONGEST_RUN}: try fewer calls");
            Err(PageError::unavailable(why))
        }
        figures => figures.map_err(PageError::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
