//! Reads a fleet of simulated workers from the file.

use rampmeter_config::reading::source::{ConfigError, Source};
use rampmeter_config::reading::value::{Duration, Number};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::cost::{CostModel, Draw};
use rampmeter_simulator::fleet::{Arrivals, Clients, Crashes, Fleet, Shift, Values};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FleetTable {
    pub(super) name: Spanned<String>,
    workers: Count,
    class: Option<String>,
    clients: Option<Clients>,
    client: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, Values>,
    #[serde(default)]
    cost: CostTable,
    shift: Option<ShiftTable>,
    arrivals: Option<Spanned<ArrivalsTable>>,
    calls: Option<Count>,
    think: Option<Spanned<Duration>>,
    from: Option<Spanned<Duration>>,
    until: Option<Spanned<Duration>>,
    crashes: Option<CrashesTable>,
    #[serde(default)]
    foreign: bool,
}

/// A number of workers or calls. More would not fit into a machine's memory.
type Count = Number<1, 1_000_000>;

/// An interval, long enough for other events too.
type Interval = Duration<1, { 366 * 86_400_000 }>;

type CostTable = BTreeMap<String, Spanned<DrawTable>>;

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "an amount, { between = [1, 4] }, { one-of = [1, 25] } or { mean = 2, most = 25 }"
)]
enum DrawTable {
    Always(f64),
    #[serde(rename_all = "kebab-case")]
    Between {
        between: [f64; 2],
    },
    #[serde(rename_all = "kebab-case")]
    OneOf {
        #[serde(alias = "one_of")]
        one_of: Vec<f64>,
    },
    Exponential {
        mean: f64,
        most: f64,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShiftTable {
    every: Interval,
    cost: CostTable,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "{ per-second = 5 } or { calls = 100, every = \"10s\" }")]
enum ArrivalsTable {
    #[serde(rename_all = "kebab-case")]
    Poisson {
        #[serde(alias = "per_second")]
        per_second: f64,
    },
    Bursts {
        calls: Count,
        every: Interval,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CrashesTable {
    every: Interval,
    pause: Duration,
    until: Option<Duration>,
}

impl FleetTable {
    /// Returns the fleet, in a world that ends at `end`.
    pub(super) fn fleet(&self, source: &Source, end: Time) -> Result<Fleet, ConfigError> {
        let shift = |shift: &ShiftTable| Ok(Shift { every: shift.every.into(), to: cost(source, &shift.cost)? });
        let crashes = |crashes: &CrashesTable| Crashes {
            every: crashes.every.into(),
            pause: crashes.pause.into(),
            until: crashes.until.map_or(Time::NEVER, at),
        };
        let clients = if self.client.is_some() { Clients::One } else { Clients::Unnamed };
        Ok(Fleet {
            class: self.class.clone(),
            clients: self.clients.unwrap_or(clients),
            client: self.client.clone(),
            labels: self.labels.clone(),
            cost: cost(source, &self.cost)?,
            shift: self.shift.as_ref().map(shift).transpose()?,
            arrivals: self.arrivals(source)?,
            calls: self.calls.map(|calls| usize::from(calls) as u32),
            think: self.think.as_ref().map_or(Span::ZERO, |think| (*think.get_ref()).into()),
            from: self.from(source, end)?,
            until: self.until(),
            crashes: self.crashes.as_ref().map(crashes),
            foreign: self.foreign,
            ..Fleet::new(self.name.get_ref(), self.workers.into())
        })
    }

    fn arrivals(&self, source: &Source) -> Result<Arrivals, ConfigError> {
        match (&self.arrivals, &self.think) {
            (None, _) => Ok(Arrivals::Loop),
            (Some(_), Some(think)) => Err(source.fault(&think.span(), "give `arrivals` or `think`, not both")),
            (Some(table), None) => arrivals(source, table),
        }
    }

    /// Returns the start of the fleet, which must be before its end and the world's.
    fn from(&self, source: &Source, end: Time) -> Result<Time, ConfigError> {
        let from = self.from.as_ref().map_or(Time::ORIGIN, |from| at(*from.get_ref()));
        let span = self.from.as_ref().or(self.until.as_ref()).map_or(self.name.span(), Spanned::span);
        let begins = from < self.until().min(end);
        if begins { Ok(from) } else { Err(source.fault(&span, "the fleet ends before it begins")) }
    }

    fn until(&self) -> Time {
        self.until.as_ref().map_or(Time::NEVER, |until| at(*until.get_ref()))
    }
}

fn cost(source: &Source, table: &CostTable) -> Result<CostModel, ConfigError> {
    table.iter().try_fold(CostModel::new(), |model, (unit, table)| Ok(model.with(unit, draw(source, table)?)))
}

fn draw(source: &Source, table: &Spanned<DrawTable>) -> Result<Draw, ConfigError> {
    let amount = |units: &f64| Amount::new(*units).map_err(|error| source.fault(&table.span(), error.to_string()));
    match table.get_ref() {
        DrawTable::Always(units) => Ok(Draw::Always(amount(units)?)),
        DrawTable::Between { between: [least, most] } if least > most => {
            Err(source.fault(&table.span(), format!("`between` is the least and the most, not [{least}, {most}]")))
        }
        DrawTable::Between { between: [least, most] } => Ok(Draw::Between(amount(least)?, amount(most)?)),
        DrawTable::OneOf { one_of } if one_of.is_empty() => {
            Err(source.fault(&table.span(), "`one-of` needs at least one amount"))
        }
        DrawTable::OneOf { one_of } => Ok(Draw::OneOf(one_of.iter().map(amount).collect::<Result<_, _>>()?)),
        DrawTable::Exponential { mean, most } if mean > most => {
            Err(source.fault(&table.span(), format!("a mean is at most `most`, {most}, not {mean}")))
        }
        DrawTable::Exponential { mean, most } => Ok(Draw::Exponential { mean: amount(mean)?, most: amount(most)? }),
    }
}

fn arrivals(source: &Source, table: &Spanned<ArrivalsTable>) -> Result<Arrivals, ConfigError> {
    match table.get_ref() {
        ArrivalsTable::Poisson { per_second } if *per_second > 0.0 && *per_second <= 1e6 => {
            Ok(Arrivals::Poisson { per_second: *per_second })
        }
        ArrivalsTable::Poisson { .. } => {
            Err(source.fault(&table.span(), "a rate in calls per second is above 0 and at most 1e6"))
        }
        ArrivalsTable::Bursts { calls, every } => {
            Ok(Arrivals::Bursts { calls: usize::from(*calls) as u32, every: (*every).into() })
        }
    }
}

pub(super) fn at(since: Duration) -> Time {
    Time::ORIGIN + Span::from(since)
}
