//! A fleet of simulated workers, in the file.

use rampmeter_config::reading::source::{ConfigError, Source};
use rampmeter_config::reading::value::span;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_simulator::cost::{CostModel, Draw};
use rampmeter_simulator::fleet::{Arrivals, Clients, Crashes, Fleet, Shift, Values};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use toml::Spanned;

/// A fleet of equal workers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FleetTable {
    pub(super) name: Spanned<String>,
    workers: Spanned<u64>,
    class: Option<String>,
    clients: Option<ClientsTable>,
    client: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, Spanned<LabelTable>>,
    #[serde(default)]
    cost: CostTable,
    shift: Option<ShiftTable>,
    arrivals: Option<Spanned<ArrivalsTable>>,
    calls: Option<Spanned<u64>>,
    think: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    until: Option<Spanned<String>>,
    crashes: Option<CrashesTable>,
    #[serde(default)]
    foreign: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ClientsTable {
    Each,
    One,
    None,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "a value for all, or { of = 50 }")]
enum LabelTable {
    One(String),
    Of { of: u64 },
}

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
    every: Spanned<String>,
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
        calls: u64,
        every: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CrashesTable {
    every: Spanned<String>,
    pause: Spanned<String>,
    until: Option<Spanned<String>>,
}

impl FleetTable {
    /// The fleet, in a world that ends at `end`.
    pub(super) fn fleet(&self, source: &Source, end: Time) -> Result<Fleet, ConfigError> {
        let workers = whole(source, &self.workers, "workers")?;
        let shift =
            |shift: &ShiftTable| Ok(Shift { every: positive(source, &shift.every)?, to: cost(source, &shift.cost)? });
        let crashes = |crashes: &CrashesTable| {
            let until = time(source, crashes.until.as_ref(), Time::NEVER)?;
            Ok(Crashes { every: positive(source, &crashes.every)?, pause: span(source, &crashes.pause)?, until })
        };
        Ok(Fleet {
            class: self.class.clone(),
            clients: match self.clients {
                Some(ClientsTable::Each) => Clients::Each,
                Some(ClientsTable::One) => Clients::One,
                None if self.client.is_some() => Clients::One,
                Some(ClientsTable::None) | None => Clients::Unnamed,
            },
            client: self.client.clone(),
            labels: self
                .labels
                .iter()
                .map(|(label, table)| Ok((label.clone(), values(source, table)?)))
                .collect::<Result<_, _>>()?,
            cost: cost(source, &self.cost)?,
            shift: self.shift.as_ref().map(shift).transpose()?,
            arrivals: self.arrivals(source)?,
            calls: self.calls.as_ref().map(|calls| whole(source, calls, "calls")).transpose()?,
            think: self.think.as_ref().map_or(Ok(Span::ZERO), |think| span(source, think))?,
            from: self.from(source, end)?,
            until: time(source, self.until.as_ref(), Time::NEVER)?,
            crashes: self.crashes.as_ref().map(crashes).transpose()?,
            foreign: self.foreign,
            ..Fleet::new(self.name.get_ref(), workers as usize)
        })
    }

    fn arrivals(&self, source: &Source) -> Result<Arrivals, ConfigError> {
        match (&self.arrivals, &self.think) {
            (None, _) => Ok(Arrivals::Loop),
            (Some(_), Some(think)) => Err(source.fault(&think.span(), "give `arrivals` or `think`, not both")),
            (Some(table), None) => arrivals(source, table),
        }
    }

    /// The start of the fleet, which must be before its end and the world's.
    fn from(&self, source: &Source, end: Time) -> Result<Time, ConfigError> {
        let from = time(source, self.from.as_ref(), Time::ORIGIN)?;
        let until = time(source, self.until.as_ref(), Time::NEVER)?.min(end);
        let span = self.from.as_ref().or(self.until.as_ref()).map_or(self.name.span(), Spanned::span);
        if from < until { Ok(from) } else { Err(source.fault(&span, "the fleet ends before it begins")) }
    }
}

/// The largest number of anything: more would not fit into a machine's memory.
const MOST: u64 = 1_000_000;

fn whole(source: &Source, number: &Spanned<u64>, what: &str) -> Result<u32, ConfigError> {
    match *number.get_ref() {
        some @ 1..=MOST => Ok(some as u32),
        other => Err(source.fault(&number.span(), format!("`{what}` is from 1 to {MOST}, not {other}"))),
    }
}

fn values(source: &Source, table: &Spanned<LabelTable>) -> Result<Values, ConfigError> {
    match table.get_ref() {
        LabelTable::One(value) => Ok(Values::One(value.clone())),
        LabelTable::Of { of } => {
            let count = NonZeroU32::new(whole(source, &Spanned::new(table.span(), *of), "of")?);
            Ok(Values::Of(count.expect("a number from 1 on")))
        }
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
            let (calls, every) = (Spanned::new(table.span(), *calls), Spanned::new(table.span(), every.clone()));
            Ok(Arrivals::Bursts { calls: whole(source, &calls, "calls")?, every: positive(source, &every)? })
        }
    }
}

/// A time of the world, from its beginning.
pub(super) fn time(source: &Source, text: Option<&Spanned<String>>, otherwise: Time) -> Result<Time, ConfigError> {
    text.map_or(Ok(otherwise), |text| Ok(Time::ORIGIN + span(source, text)?))
}

/// An interval, long enough that other events happen too.
fn positive(source: &Source, text: &Spanned<String>) -> Result<Span, ConfigError> {
    match span(source, text)? {
        span if span < Span::from_millis(1) => Err(source.fault(&text.span(), "this duration is at least 1 ms")),
        span => Ok(span),
    }
}
