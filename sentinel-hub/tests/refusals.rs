//! Bodies without a price: the place, the reason, and the remedy.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_sentinel_hub::ErrorKind::{Malformed, Missing, OutOfBounds, Script, Unknowable};
use rampmeter_sentinel_hub::{Api, Error, ErrorKind, Estimate, Format, Given, MAX_BODY};
use serde_json::{Value, json};

fn body(api: Api) -> Value {
    let name = match api {
        Api::Process => "process",
        Api::Statistical => "statistical",
        Api::Asynchronous => "async",
        Api::Batch => "batch",
    };
    let path = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn refusal(api: Api, body: impl AsRef<[u8]>) -> Error {
    Estimate::of_body(api, body, &Given::default()).unwrap_err()
}

/// Sets another value at a place in the body of an API, and checks the error.
fn check(api: Api, pointer: &str, value: &Value, kind: ErrorKind, path: &str, remedy: &str) {
    let mut body = body(api);
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap();
    match key.parse::<usize>() {
        Ok(index) => parent[index] = value.clone(),
        Err(_) => parent[key] = value.clone(),
    }
    let error = refusal(api, body.to_string());
    assert_eq!((error.kind(), error.path()), (kind, Some(path)), "{pointer} = {value}: {error}");
    assert!(error.remedy().contains(remedy), "{pointer} = {value}: {error}");
}

fn script(body: &str) -> Value {
    json!(format!("function setup() {{ {body} }}"))
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    use Api::{Batch, Process, Statistical};
    #[rustfmt::skip]
    let table = [
        (Process, "/input",                         json!(5),                   Malformed,   "input",                       "correct the body"),
        (Process, "/input/data",                    json!([]),                  Missing,     "input.data",                  "give one or more"),
        (Process, "/input/data/0/type",             json!(1),                   Malformed,   "input.data[0].type",          "correct the body"),
        (Process, "/input/data/0/processing",       json!({"orthorectify": 1}), Malformed,   "input.data[0].processing.orthorectify", "correct the body"),
        (Process, "/output/width",                  json!("wide"),              Malformed,   "output.width",                "correct the body"),
        (Process, "/output/width",                  json!(0),                   OutOfBounds, "output.width",                "from 1 to 1000000"),
        (Process, "/output/height",                 json!(51.5),                OutOfBounds, "output.height",               "from 1 to 1000000"),
        (Process, "/output/height",                 json!(1e300),               OutOfBounds, "output.height",               "from 1 to 1000000"),
        (Process, "/output/width",                  json!(null),                Missing,     "output",                      "both `width` and `height`"),
        (Process, "/output/resx",                   json!(10),                  Missing,     "output",                      "both `width` and `height`"),
        (Process, "/output",                        json!({"resx": 10, "resy": 10}), OutOfBounds, "output.resx",            "units of the bounds' CRS"),
        (Process, "/output",                        json!({"resx": 0, "resy": 10}),  OutOfBounds, "output.resx",            "above zero"),
        (Process, "/output",                        json!({"resx": 1e-9, "resy": 10}), OutOfBounds, "output.resx",          "coarser"),
        (Process, "/output/responses/0/format/type", json!("image/webp"),       Unknowable,  "output.responses[0].format.type", "--format"),
        (Process, "/evalscript",                    json!(null),                Unknowable,  "evalscript",                  "--bands"),
        (Process, "/evalscript",                    json!("//VERSION=3"),       Script,      "evalscript",                  "--bands"),
        (Process, "/evalscript",                    script("while (true) {}"),  Script,      "evalscript",                  "--bands"),
        (Process, "/evalscript",                    script("return { input: [4, 8].map(n => `B0${n}`) }"), Script, "evalscript",     "--bands"),
        (Process, "/evalscript",                    script("const source = band => [band]; return { input: source('B04') }"), Script, "evalscript", "--samples"),
        (Process, "/evalscript",                    script("return {}"),        Malformed,   "evalscript: setup().input",   "array of band names"),
        (Process, "/evalscript",                    script("return { input: [5] }"), Malformed, "evalscript: setup().input[0]", "array of band names"),
        (Process, "/evalscript",                    script("return { input: [{ bands: [1] }] }"), Malformed, "evalscript: setup().input[0].bands", "array of band names"),
        (Process, "/evalscript",                    script("return { input: ['A'], mosaicking: 'TILE' }"), Unknowable, "evalscript: setup().mosaicking", "--samples"),
        (Process, "/evalscript",                    script("return { input: ['A'], mosaicking: [1] }"), Unknowable, "evalscript: setup().mosaicking", "--samples"),
        (Process, "/evalscript",                    script("return { input: [{ bands: [] }] }"), Unknowable, "evalscript: setup().input[0].bands", "--bands"),
        (Process, "/evalscript",                    script("return { input: [{ bands: ['A'] }, { bands: [] }] }"), Unknowable, "evalscript: setup().input[1].bands", "--bands"),
        (Process, "/evalscript",                    script("return { input: [{ bands: ['A'] }, { bands: ['A'], mosaicking: 'ORBIT' }] }"), Unknowable, "evalscript: setup().input[1].mosaicking", "--samples"),
        (Process, "/evalscript",                    script("return { input: [{ datasource: 'a', bands: ['A'], mosaicking: Mosaicking.TILE }] }"), Unknowable, "evalscript: setup().input[0].mosaicking", "--samples"),
        (Statistical, "/aggregation",               json!(null),                Malformed,   "aggregation",                 "correct the body"),
        (Statistical, "/aggregation/timeRange",     json!(null),                Missing,     "aggregation.timeRange",       "--intervals"),
        (Statistical, "/aggregation/timeRange/from", json!("yesterday"),        Malformed,   "aggregation.timeRange.from",  "2026-11-01"),
        (Statistical, "/aggregation/timeRange/from", json!("2027-01-31T00:00:00Z"), OutOfBounds, "aggregation.timeRange",   "`from` < `to`"),
        (Statistical, "/aggregation/aggregationInterval/of", json!("daily"),    Malformed,   "aggregation.aggregationInterval.of", "P1D"),
        (Statistical, "/aggregation/aggregationInterval/of", json!("P0D"),      Malformed,   "aggregation.aggregationInterval.of", "P1D"),
        (Statistical, "/aggregation/aggregationInterval/of", json!("-P1D"),     Malformed,   "aggregation.aggregationInterval.of", "P1D"),
        (Statistical, "/aggregation/aggregationInterval/of", json!("PT1S"),     OutOfBounds, "aggregation.aggregationInterval.of", "--intervals"),
        (Statistical, "/aggregation/aggregationInterval/lastIntervalBehavior", json!("DROP"), Malformed, "aggregation.aggregationInterval.lastIntervalBehavior", "correct the body"),
        (Statistical, "/input/bounds",              json!({}),                  Missing,     "input.bounds",                "--width"),
        (Statistical, "/input/bounds/bbox",         json!([1, 2, 3]),           Malformed,   "input.bounds.bbox",           "west, south"),
        (Statistical, "/input/bounds/bbox",         json!([3, 2, 1, 4]),        OutOfBounds, "input.bounds.bbox",           "west < east"),
        (Statistical, "/input/bounds/geometry/type", json!("Point"),            Malformed,   "input.bounds.geometry.type",  "MultiPolygon"),
        (Statistical, "/input/bounds/geometry/type", json!("Polygon"),          Malformed,   "input.bounds.geometry.coordinates", "GeoJSON"),
        (Statistical, "/input/bounds/geometry/coordinates", json!([]),          OutOfBounds, "input.bounds.geometry.coordinates", "west < east"),
        (Batch, "/tilingGrid/id",                   json!(17),                  Unknowable,  "tilingGrid.id",               "--tiles"),
        (Batch, "/tilingGrid/resolution",           json!(null),                Missing,     "tilingGrid.resolution",       "one of the grid's"),
        (Batch, "/tilingGrid",                      json!(null),                Unknowable,  "input.id",                    "--tiles"),
        (Batch, "/tilingGrid",                      json!({"type": "geopackage"}), Unknowable, "tilingGrid.type",           "--tiles"),
        (Batch, "/tilingGrid/bufferX",              json!(1e9),                 OutOfBounds, "tilingGrid.bufferX",          "from 1 to 1000000"),
        (Batch, "/processRequest/input/bounds/properties/crs", json!("EPSG:2154"), Unknowable, "processRequest.input.bounds.properties.crs", "--tiles"),
        (Batch, "/processRequest/input/bounds/bbox", json!([0, 0, 1e12, 1e12]), OutOfBounds, "processRequest.input.bounds", "from 1 to 1000000"),
        (Batch, "/processRequest/evalscript",       json!(null),                Unknowable,  "processRequest.evalscript",   "--format"),
    ];
    for (api, pointer, value, kind, path, remedy) in table {
        check(api, pointer, &value, kind, path, remedy);
    }
}

/// What is missing is named at once, and passing it is enough.
#[test]
fn one_error_names_all_that_is_missing() {
    let count = |count| Some(rampmeter_sentinel_hub::Count::new(count).unwrap());
    let all = Given { bands: count(3), samples: count(2), format: Some(Format::Integer), ..Given::default() };
    let unreadable = "function setup() { return JSON.parse('{}') }";
    let orbit =
        "function setup() { return { input: [{ bands: [] }], mosaicking: 'ORBIT', output: { sampleType: 'X' } } }";
    #[rustfmt::skip]
    let table = [
        (json!(null),       "evalscript: there is no evalscript; pass the format, the number of input bands and the samples per pixel (`--format`, `--bands`, `--samples`, or their likes in `given`)"),
        (json!(unreadable), "correct the evalscript, or pass the format, the number of input bands and the samples per pixel (`--format`, `--bands`, `--samples`, or their likes in `given`)"),
        (json!(orbit),      "pass the format, the number of input bands and the samples per pixel (`--format`, `--bands`, `--samples`, or their likes in `given`)"),
    ];
    for (script, expected) in table {
        let mut body = body(Api::Process);
        body["evalscript"] = script.clone();
        body["output"]["responses"] = json!([{ "format": { "type": "image/tiff" } }]);
        let error = refusal(Api::Process, body.to_string());
        assert!(error.to_string().ends_with(expected), "{script}: {error}");
        assert!(Estimate::of_body(Api::Process, body.to_string(), &all).is_ok(), "{script}");
    }
    let mut body = body(Api::Statistical);
    body["aggregation"]["evalscript"] = json!(null);
    body["aggregation"]["timeRange"] = json!(null);
    body["input"]["bounds"] = json!({});
    let error = refusal(Api::Statistical, body.to_string());
    for option in ["--width", "--height", "--intervals", "--bands", "--samples"] {
        assert!(error.remedy().contains(option), "{option}: {error}");
    }
}

/// Reaches `read::MAX_BODY`.
#[test]
fn payloads_that_are_no_body_are_refused() {
    for (text, part) in [
        ("", "the body is empty; pass the body of a request"),
        ("{", "the body is no JSON, from line 1, column 1 on"),
        ("[]", "expected an object"),
        ("{} {}", "missing field"),
        ("{\"input\": 1}", "input: "),
    ] {
        let error = refusal(Api::Process, text);
        assert_eq!(error.kind(), Malformed, "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
    let behind = format!("{} x", body(Api::Process));
    assert!(refusal(Api::Process, behind).to_string().contains("the body is no JSON, from line "));
    assert!(refusal(Api::Process, vec![b' '; MAX_BODY]).to_string().contains("the body is empty"));
    assert!(refusal(Api::Process, vec![b' '; 4_194_305]).to_string().contains("has 4194305 bytes, at most"));
    assert_eq!(refusal(Api::Process, [0xff, 0xfe]).kind(), Malformed);
    let deep = format!(r#"{{"input": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(refusal(Api::Process, deep).kind(), Malformed);
    let deep = format!(r#"{{"extra": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(refusal(Api::Process, deep).kind(), Malformed);
}
