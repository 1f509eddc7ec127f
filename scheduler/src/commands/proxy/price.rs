//! The cost of requests to Sentinel Hub, from their bodies.

use axum::http::Method;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_proxy::settings::{Function, PriceFn};
use rampmeter_sentinel_hub::{Api, Estimate, Given};
use std::sync::Arc;

const PROCESSING_UNITS: &str = "processing-units";

/// Computes processing units. A body without a price costs one: 512 × 512 pixels of three bands.
pub(super) fn of_sentinel_hub() -> PriceFn {
    let compute = |method: &Method, path: &str, body: &[u8]| {
        let Some(api) = api(method, path) else { return Ok(Vec::new()) };
        let estimate = Estimate::of_body(api, body, &Given::default()).map_err(|error| error.to_string())?;
        // A request costs one of `requests` anyway, if limits count them.
        let units = estimate
            .cost()
            .iter()
            .filter(|(unit, _)| *unit != REQUESTS)
            .map(|(unit, amount)| (unit.to_owned(), amount.units()))
            .collect();
        Ok(units)
    };
    PriceFn { compute: Function(Arc::new(compute)), otherwise: vec![(PROCESSING_UNITS.to_owned(), 1.0)] }
}

/// Returns the API behind a path, if its requests have a price. Requests that only read are free.
fn api(method: &Method, path: &str) -> Option<Api> {
    let (before, last) = path.trim_end_matches('/').rsplit_once('/')?;
    let is_within = |name: &str| before.split('/').any(|part| part == name);
    match last {
        _ if method != Method::POST => None,
        "process" if is_within("async") => Some(Api::Asynchronous),
        "process" if is_within("batch") => Some(Api::Batch),
        "process" => Some(Api::Process),
        "statistics" if !is_within("batch") => Some(Api::Statistical),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_the_api() {
        #[rustfmt::skip]
        let table = [
            ("POST", "/api/v1/process",           Some(Api::Process)),
            ("POST", "/api/v1/process/",          Some(Api::Process)),
            ("POST", "/api/v1/statistics",        Some(Api::Statistical)),
            ("POST", "/async/v1/process",         Some(Api::Asynchronous)),
            ("POST", "/api/v1/batch/process",     Some(Api::Batch)),
            ("GET",  "/api/v1/process",           None),
            ("POST", "/api/v1/catalog/search",    None),
            ("POST", "/",                         None),
        ];
        for (method, path, expected) in table {
            assert_eq!(api(&method.parse().unwrap(), path), expected, "{method} {path}");
        }
    }
}
