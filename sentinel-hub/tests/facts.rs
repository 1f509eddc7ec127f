//! Requests with documented prices. More work never has a lower price.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use proptest::prelude::*;
use rampmeter_sentinel_hub::{Api, Correction, Count, ErrorKind, Estimate, Format, Fusion, Parameters, Rules, Size};

fn parameters(side: u32, bands: u32) -> Parameters {
    Parameters::new(Size::new(side, side).unwrap(), Count::new(bands).unwrap())
}

fn estimate(api: Api, parameters: &Parameters) -> Estimate {
    Rules::latest().estimate(api, parameters).unwrap()
}

/// Checks the exact price as text, and the amount that is requested.
fn check(api: Api, parameters: &Parameters, exact: &str, amount: &str) {
    let estimate = estimate(api, parameters);
    assert_eq!((estimate.exact.to_string(), estimate.amount.to_string()), (exact.to_owned(), amount.to_owned()));
}

#[test]
fn prices_that_are_documented() {
    let count = |count| Count::new(count).unwrap();
    let (fusion, float32, octets) = (Some(Fusion::new(2, 1).unwrap()), Format::Float32, Format::OctetStream);
    let (ortho, terrain) = (Correction::Orthorectified, Correction::TerrainCorrected);
    let change = Parameters { format: float32, samples: count(2), correction: ortho, ..parameters(1024, 4) };
    let radar = Parameters { correction: terrain, speckle_filter: true, ..parameters(512, 3) };
    let month = Parameters { intervals: count(6), samples: count(2), ..parameters(512, 3) };
    #[rustfmt::skip]
    let table = [
        (Api::Process,      parameters(512, 3),                                             "1",          "1"),
        (Api::Process,      change,                                                         "42.6666667", "42.666667"),
        (Api::Process,      parameters(20, 2),                                              "0.0066667",  "0.006667"),
        (Api::Process,      Parameters { correction: ortho, ..parameters(2000, 2) },        "20.3450521", "20.345053"),
        (Api::Process,      Parameters { fusion, ..parameters(512, 3) },                    "4",          "4"),
        (Api::Process,      parameters(1, 1),                                               "0.005",      "0.005"),
        (Api::Statistical,  parameters(1, 1),                                               "0.01",       "0.01"),
        (Api::Process,      parameters(512, 1),                                             "0.3333333",  "0.333334"),
        (Api::Process,      Parameters { format: octets, ..parameters(512, 3) },            "1.4",        "1.4"),
        (Api::Process,      radar,                                                          "5",          "5"),
        (Api::Asynchronous, parameters(100, 3),                                             "10",         "10"),
        (Api::Asynchronous, parameters(5120, 3),                                            "66.6666667", "66.666667"),
        (Api::Batch,        parameters(512, 3),                                             "100",        "100"),
        (Api::Batch,        Parameters { tiles: count(9), ..parameters(5120, 3) },          "300",        "300"),
        (Api::Batch,        Parameters { tiles: count(3000), ..parameters(99, 3000) },      "112163.5437012", "112163.543702"),
        (Api::Batch,        Parameters { tiles: count(3000), ..parameters(100, 3000) },     "38146.9726562",  "38146.972657"),
        (Api::Statistical,  month,                                                          "12",         "12"),
    ];
    for (api, parameters, exact, amount) in table {
        check(api, &parameters, exact, amount);
    }
}

#[test]
fn earlier_rules_charged_less() {
    let early = Rules::named("2023-01").unwrap();
    let (correction, fusion) = (Correction::TerrainCorrected, Some(Fusion::new(1, 1).unwrap()));
    let fused = Parameters { correction, fusion, ..parameters(512, 3) };
    assert_eq!(early.estimate(Api::Process, &fused).unwrap().amount.to_string(), "1");
    assert_eq!(early.estimate(Api::Batch, &parameters(10, 3)).unwrap().amount.to_string(), "0.005");
    assert_eq!(estimate(Api::Process, &fused).amount.to_string(), "7.5");
    assert_eq!(estimate(Api::Process, &fused).rules, Rules::all().next().unwrap().version());
}

#[test]
fn factors_are_named() {
    let everything = Parameters {
        format: Format::Float32,
        correction: Correction::Orthorectified,
        speckle_filter: true,
        tiles: Count::new(2).unwrap(),
        fusion: Some(Fusion::new(1, 1).unwrap()),
        ..parameters(512, 3)
    };
    let estimate = estimate(Api::Batch, &everything);
    let names: Vec<_> = estimate.factors.iter().map(|factor| factor.name).collect();
    let expected =
        ["area", "bands", "format", "samples", "tiles", "fusion", "orthorectification", "speckle filter", "discount"];
    assert_eq!(names, expected);
    assert_eq!(serde_json::to_string(&estimate.cost()).unwrap(), r#"{"requests":1,"processing-units":100}"#);
}

#[test]
fn an_estimate_beyond_all_amounts_is_an_error() {
    let count = Count::new(Count::MAX).unwrap();
    let most = Parameters { samples: count, intervals: count, tiles: count, ..parameters(Count::MAX, Count::MAX) };
    for parameters in [most, parameters(Count::MAX, 10_000)] {
        let error = Rules::latest().estimate(Api::Batch, &parameters).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooMuch);
    }
    assert!(Count::new(Count::MAX + 1).is_err() && Count::new(0).is_err());
}

fn any_parameters() -> impl Strategy<Value = (Api, Parameters)> {
    let formats = [Format::Integer, Format::Float32, Format::OctetStream];
    let corrections = [Correction::None, Correction::Orthorectified, Correction::TerrainCorrected];
    let sizes = (1..20_000_u32, 1..20_000_u32, 1..40_u32, 1..100_u32);
    let options = (prop::sample::select(formats.to_vec()), prop::sample::select(corrections.to_vec()), any::<bool>());
    (prop::sample::select(Api::ALL.to_vec()), sizes, options).prop_map(|(api, sizes, options)| {
        let (format, correction, speckle_filter) = options;
        let (width, height, bands, samples) = sizes;
        let parameters = Parameters::new(Size::new(width, height).unwrap(), Count::new(bands).unwrap());
        let samples = Count::new(samples).unwrap();
        (api, Parameters { samples, format, correction, speckle_filter, ..parameters })
    })
}

proptest! {
    #[test]
    fn no_price_is_below_the_minimum((api, parameters) in any_parameters()) {
        let estimate = estimate(api, &parameters);
        prop_assert!(estimate.amount.units() >= estimate.minimum.to_f64());
        prop_assert!(estimate.amount.units() >= estimate.exact.to_f64() * (1.0 - f64::EPSILON));
        prop_assert!(estimate.amount.units() - estimate.exact.to_f64() < 1.1e-6);
    }

    /// A discount begins at an area. A price just below it may be higher than just above.
    #[test]
    fn more_area_costs_no_less(side in 100..5000_u32, more in 0..5000_u32, bands in 1..20_u32) {
        for api in Api::ALL {
            let (small, large) = (estimate(api, &parameters(side, bands)), estimate(api, &parameters(side + more, bands)));
            prop_assert!(small.amount <= large.amount);
        }
    }
}
