//! Real bodies and their costs.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_sentinel_hub::{Api, Count, Error, Estimate, Format, Given};
use serde_json::{Value, json};

fn body(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn count(count: u32) -> Option<Count> {
    Some(Count::new(count).unwrap())
}

fn estimate(api: Api, body: &Value, given: &Given) -> Result<Estimate, Error> {
    Estimate::of_body(api, body.to_string(), given)
}

/// Checks the price, and the factors other than one, in their order.
fn check(api: Api, body: &Value, given: &Given, exact: &str, factors: &str) -> Estimate {
    let estimate = estimate(api, body, given).unwrap_or_else(|error| panic!("{error}"));
    let shown = estimate.factors.iter().map(|factor| (factor.name, factor.value.to_string()));
    let shown: Vec<_> =
        shown.filter(|(_, value)| value != "1").map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!((estimate.exact.to_string().as_str(), shown.join(", ").as_str()), (exact, factors));
    estimate
}

#[test]
fn bodies_of_each_api() {
    let given = Given::default();
    #[rustfmt::skip]
    let table = [
        (Api::Process,      "process",     "1",             ""),
        (Api::Process,      "float32",     "1.3333333",     "bands 0.6666667, format 2"),
        (Api::Process,      "data-mask",   "0.3333333",     "bands 0.3333333"),
        (Api::Process,      "sentinel1",   "26.6666667",    "area 4, bands 0.6666667, format 2, terrain correction 2.5, speckle filter 2"),
        (Api::Process,      "fusion",      "4",             "fusion 4"),
        (Api::Statistical,  "statistical", "6",             "samples 6"),
        (Api::Asynchronous, "async",       "254.3131510",   "area 381.4697266, discount 0.6666667"),
        (Api::Batch,        "batch",       "153.8594564",   "area 3.8146973, tiles 121, discount 0.3333333"),
        (Api::Batch,        "batch-v2",    "1556.5490723",  "area 389.1372681, bands 0.3333333, format 2, tiles 9, orthorectification 2, discount 0.3333333"),
    ];
    for (api, name, exact, factors) in table {
        check(api, &body(name), &given, exact.trim_end_matches('0'), factors);
    }
}

#[test]
fn given_facts_override_those_of_the_body() {
    let given = Given { samples: count(7), ..Given::default() };
    check(Api::Process, &body("orbit"), &given, "7", "samples 7");
    let given = Given { bands: count(6), width: count(1024), height: count(512), ..Given::default() };
    check(Api::Process, &body("process"), &given, "4", "area 2, bands 2");
    let given = Given { format: Some(Format::OctetStream), ..Given::default() };
    check(Api::Process, &body("process"), &given, "1.4", "format 1.4");
    let given = Given { intervals: count(2), ..Given::default() };
    check(Api::Statistical, &body("statistical"), &given, "2", "samples 2");
    let given = Given { tiles: count(100), ..Given::default() };
    check(Api::Batch, &body("batch"), &given, "127.1565755", "area 3.8146973, tiles 100, discount 0.3333333");
    check(Api::Batch, &body("process"), &Given::default(), "100", "discount 0.3333333");
}

#[test]
fn without_its_evalscript_a_body_costs_what_is_given() {
    let mut body = body("float32");
    body.as_object_mut().unwrap().remove("evalscript");
    let given = Given { bands: count(2), samples: count(1), format: Some(Format::Float32), ..Given::default() };
    check(Api::Process, &body, &given, "1.3333333", "bands 0.6666667, format 2");
}

#[test]
fn the_place_of_a_collection_depends_on_the_deployment() {
    let mut body = body("fusion");
    let asked = |host: &str| Given { deployment: host.parse().unwrap(), ..Given::default() };
    check(Api::Process, &body, &asked("https://services-uswest2.sentinel-hub.com/api/v1/process"), "5", "fusion 5");
    check(Api::Process, &body, &asked("sh.dataspace.copernicus.eu"), "4", "fusion 4");
    body["input"]["data"][2]["type"] = json!("byoc-0a1b");
    let unknown = check(Api::Process, &body, &Given::default(), "4", "fusion 4");
    assert!(unknown.notes[0].starts_with("input.data[2].type: `byoc-0a1b` counts as remote"), "{:?}", unknown.notes);
    let given = Given { local: vec!["byoc-0a1b".to_owned()], ..Given::default() };
    let local = check(Api::Process, &body, &given, "3", "fusion 3");
    assert!(local.notes.is_empty());
}

#[test]
fn facts_that_a_body_omits_count_as_the_dearer_choice() {
    let mut body = body("float32");
    body["output"] = json!({});
    let open = check(Api::Process, &body, &Given::default(), "0.3333333", "area 0.25, bands 0.6666667, format 2");
    assert_eq!(open.notes.len(), 2, "{:?}", open.notes);
    let grid = estimate(Api::Batch, &self::body("batch"), &Given::default()).unwrap();
    assert_eq!(grid.notes, ["as many tiles as the bounds can touch: pass `tiles` if you know better"]);
}

/// Published scripts write `Auto`. A name that is read without its case is never read as cheaper.
#[test]
fn sample_types_have_their_meaning_in_any_case() {
    for (written, exact) in [("Auto", "0.3333333"), ("uint16", "0.3333333"), ("Float32", "0.6666667")] {
        let mut body = body("process");
        let output = format!("{{ id: 'default', bands: 1, sampleType: '{written}' }}");
        body["evalscript"] = json!(format!("function setup() {{ return {{ input: ['B04'], output: {output} }} }}"));
        body["output"]["responses"] = json!([{ "format": { "type": "image/tiff" } }]);
        let estimate = estimate(Api::Process, &body, &Given::default()).unwrap();
        assert_eq!(estimate.exact.to_string(), exact, "{written}");
    }
}

/// How entries of `input` name their sources, and what each of them adds.
#[test]
fn bands_count_for_each_source() {
    #[rustfmt::skip]
    let table = [
        ("['B04', 'B08', 'B04']",                                                                   "0.6666667", 0),
        ("[{ bands: ['B04'] }, { bands: ['B04'] }]",                                                "0.6666667", 1),
        ("[{ bands: ['B04', 'dataMask'] }, { bands: ['B08', 'dataMask'] }]",                        "0.6666667", 0),
        ("[{ datasource: 'a', bands: ['B04'] }, { datasource: 'a', bands: ['B04'] }]",              "0.3333333", 0),
        ("[{ datasource: 'a', bands: ['B04'] }, { datasource: 'b', bands: ['B04'] }]",              "0.6666667", 0),
        ("[{ datasource: 'a', bands: ['B04'] }, { bands: ['B04'] }]",                               "0.6666667", 0),
        ("[{ bands: ['B04'], mosaicking: 'SIMPLE' }, { bands: ['B04'], mosaicking: null }]",        "0.6666667", 1),
        ("[{ bands: ['dataMask'] }, { bands: ['dataMask'] }]",                                      "0.3333333", 0),
    ];
    for (input, exact, notes) in table {
        let mut body = body("process");
        body["evalscript"] = json!(format!("function setup() {{ return {{ input: {input} }} }}"));
        let estimate = estimate(Api::Process, &body, &Given::default()).unwrap();
        assert_eq!((estimate.exact.to_string().as_str(), estimate.notes.len()), (exact, notes), "{input}");
    }
}

/// A body whose second collection is mosaicked by orbit costs what its samples do.
#[test]
fn samples_of_one_collection_count() {
    let mut body = body("fusion");
    body["evalscript"] = json!(
        "function setup() { return { input: [
            { datasource: 's2l1c', bands: ['B04'], mosaicking: 'ORBIT' },
            { datasource: 's2l2a', bands: ['B04'] }, { datasource: 'ls9', bands: ['B04'] }], output: { bands: 1 } } }"
    );
    let error = estimate(Api::Process, &body, &Given::default()).unwrap_err();
    assert_eq!(error.path(), Some("evalscript: setup().input[0].mosaicking"));
    let given = Given { samples: count(3), ..Given::default() };
    check(Api::Process, &body, &given, "12", "samples 3, fusion 4");
}

/// Years of calendar months, days in leap years, and a part of an interval.
#[test]
fn intervals_of_the_calendar() {
    #[rustfmt::skip]
    let table = [
        ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z",      "P1M",   "SKIP",    12),
        ("2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z",      "P1D",   "SKIP",    29),
        ("2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z",      "P7D",   "SKIP",    4),
        ("2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z",      "P7D",   "SHORTEN", 5),
        ("2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z",      "P1W",   "EXTEND",  5),
        ("2026-01-01T00:00:00Z", "2026-01-01T23:59:59.999Z",  "P1D",   "SKIP",    1),
        ("2026-01-01T00:00:00",  "2026-01-02T00:00:00+02:00", "PT6H",  "SHORTEN", 4),
        ("2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z",      "P1M",   "SKIP",    2),
        ("0001-01-01T00:00:00Z", "9999-12-01T00:00:00Z",      "P100Y", "SKIP",    99),
    ];
    for (from, to, of, last, intervals) in table {
        let mut body = body("statistical");
        body["aggregation"]["timeRange"] = json!({ "from": from, "to": to });
        body["aggregation"]["aggregationInterval"] = json!({ "of": of, "lastIntervalBehavior": last });
        let estimate = estimate(Api::Statistical, &body, &Given::default()).unwrap();
        assert_eq!(estimate.amount.to_string(), intervals.to_string(), "{from} {to} {of} {last}");
    }
}

/// The service reads a text where it expects a number or a truth value: its own examples for
/// Sentinel-1 say `"orthorectify": "true"`.
#[test]
fn numbers_and_truth_values_may_be_texts() {
    #[rustfmt::skip]
    let table = [
        (Api::Process,     "sentinel1",   "/input/data/0/processing/orthorectify", json!("true")),
        (Api::Process,     "sentinel1",   "/input/data/0/processing/orthorectify", json!("True")),
        (Api::Process,     "sentinel1",   "/output/width",                         json!("1024")),
        (Api::Process,     "process",     "/input/data/0/processing",              json!({ "orthorectify": "false" })),
        (Api::Process,     "process",     "/input/data/0/processing",              json!({ "orthorectify": "" })),
        (Api::Process,     "process",     "/input/data/0/processing",              json!({ "orthorectify": null })),
        (Api::Batch,       "batch",       "/processRequest/input/bounds/bbox",     json!(["600000", "5e6", 700_000, "5100000"])),
        (Api::Batch,       "batch",       "/tilingGrid/id",                        json!("1")),
    ];
    for (api, name, pointer, written) in table {
        let plain = body(name);
        let mut changed = plain.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[key] = written.clone();
        let exact = |body: &Value| estimate(api, body, &Given::default()).unwrap().exact.to_string();
        assert_eq!(exact(&changed), exact(&plain), "{name}{pointer} = {written}");
    }
}

/// Keys that do not affect the price are not read, and may change.
#[test]
fn other_keys_do_not_matter() {
    let mut body = body("process");
    body["input"]["data"][0]["processing"] = json!({ "upsampling": "BICUBIC", "harmonizeValues": true });
    body["extra"] = json!([[[[{}]]]]);
    check(Api::Process, &body, &Given::default(), "1", "");
}
