//! `cost = { … }` of `[http.check]` and `[[proxy.route]]`.

use crate::reading::source::{ConfigError, Source};
use crate::reading::value::amount;
use rampmeter_listener::stated::{Stated, UnitCost};
use rampmeter_protocol::bounds::{MAX_AMOUNT, MAX_UNITS};
use rampmeter_protocol::name::Name;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// The cost of a request in the file, by unit.
pub(crate) type CostTable = BTreeMap<Spanned<Name>, Spanned<UnitCostTable>>;

#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a cost is a number, \"query:KEY\", \"header:NAME\", or { from = \"query:KEY\", default = 1, min = 1, max = 100 }"
)]
pub(crate) enum UnitCostTable {
    Fixed(f64),
    From(String),
    Bounded(BoundedTable),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoundedTable {
    from: String,
    default: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

pub(crate) fn unit_costs(source: &Source, table: &CostTable) -> Result<Vec<(String, UnitCost)>, ConfigError> {
    if let Some(beyond) = table.keys().nth(MAX_UNITS) {
        return Err(source.fault(&beyond.span(), format!("a cost has at most {MAX_UNITS} units")));
    }
    table.iter().map(|(unit, cost)| Ok((unit.get_ref().to_string(), unit_cost(source, cost)?))).collect()
}

fn unit_cost(source: &Source, table: &Spanned<UnitCostTable>) -> Result<UnitCost, ConfigError> {
    let units = |units: f64| amount(source, &Spanned::new(table.span(), units));
    let BoundedTable { from, default, min, max } = match table.get_ref() {
        UnitCostTable::Fixed(fixed) => return units(*fixed).map(UnitCost::Fixed),
        UnitCostTable::From(from) => BoundedTable { from: from.clone(), default: None, min: None, max: None },
        UnitCostTable::Bounded(table) => table.clone(),
    };
    let fault = |why: String| source.fault(&table.span(), why);
    let from: Stated = from.parse().map_err(|sources| fault(format!("a cost is a number, or comes from {sources}")))?;
    let bounds = (units(min.unwrap_or_default())?, units(max.unwrap_or(MAX_AMOUNT as f64))?);
    if bounds.0 > bounds.1 {
        return Err(fault(format!("`min` is {}, above `max`, which is {}", bounds.0, bounds.1)));
    }
    Ok(UnitCost::Stated { from, default: default.map(units).transpose()?, bounds })
}
