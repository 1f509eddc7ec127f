//! Parsing of arriving calls.

use crate::{Amount, Cost, Preset, Unit};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::collections::{BTreeMap, BTreeSet};

/// The label with a call's method. A query parameter of this name overrides it.
const METHOD: &str = "method";

#[derive(Debug)]
pub(crate) struct Call {
    /// Its method, and the query parameters that state no cost.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its cost, or why that cannot be parsed.
    pub(crate) cost: Result<Cost, String>,
}

/// The units whose cost a call can state, each with its header.
#[derive(Debug)]
pub(crate) struct CostParameters {
    parameters: Vec<CostParameter>,
}

#[derive(Debug)]
struct CostParameter {
    unit: Unit,
    header: HeaderName,
}

impl CostParameters {
    /// Returns the units that a limit counts, and `requests` and `processing-units`.
    pub(crate) fn of(preset: &Preset) -> Self {
        let mut units = BTreeSet::from([Unit::REQUESTS, Unit::PROCESSING_UNITS]);
        units.extend(preset.units().cloned());
        Self { parameters: units.into_iter().map(CostParameter::new).collect() }
    }

    /// Parses a call. Other headers belong to the imitated service and are ignored.
    pub(crate) fn read(&self, method: &Method, headers: &HeaderMap, query: Vec<(String, String)>) -> Call {
        let cost = self.read_cost(headers, &query);
        let is_cost = |name: &str| self.parameters.iter().any(|parameter| parameter.unit.as_str() == name);
        let method = (METHOD.to_owned(), method.to_string());
        let labels = [method].into_iter().chain(query.into_iter().filter(|(name, _)| !is_cost(name))).collect();
        Call { labels, cost }
    }

    fn read_cost(&self, headers: &HeaderMap, query: &[(String, String)]) -> Result<Cost, String> {
        self.parameters.iter().try_fold(Cost::new(), |cost, parameter| {
            Ok(match parameter.read(headers, query)? {
                Some(amount) => cost.with(parameter.unit.clone(), amount),
                None => cost,
            })
        })
    }
}

impl CostParameter {
    fn new(unit: Unit) -> Self {
        let header = HeaderName::try_from(format!("x-cost-{unit}"));
        Self { header: header.expect("every name of a unit fits a header name"), unit }
    }

    fn read(&self, headers: &HeaderMap, query: &[(String, String)]) -> Result<Option<Amount>, String> {
        let in_headers = headers.get_all(&self.header).iter().map(|value| (self.header.as_str(), header_text(value)));
        let in_query = query.iter().filter(|(name, _)| name == self.unit.as_str());
        let mut stated = in_headers.chain(in_query.map(|(name, text)| (name.as_str(), text.as_str())));
        let Some((name, text)) = stated.next() else {
            return Ok(None);
        };
        match stated.next() {
            Some((again, _)) => Err(format!("{again}: the cost is stated twice")),
            None => Amount::parse_cost(text).map(Some).map_err(|error| format!("{name}: {error}")),
        }
    }
}

fn header_text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}
