//! `rampmeter pu`

use crate::prelude::*;
use std::process::Command;

/// A body of the calculator's own tests.
fn body(name: &str) -> String {
    format!("{}/../sentinel-hub/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// Exit code, standard output, standard error.
async fn pu(arguments: &str) -> (Option<i32>, String, String) {
    let arguments: Vec<&str> = std::iter::once("pu").chain(arguments.split_whitespace()).collect();
    process::said(RAMPMETER, &arguments).await
}

#[tokio::test]
async fn parameters_and_bodies_have_a_price() {
    #[rustfmt::skip]
    let table = [
        ("--width 512 --height 512 --bands 3".to_owned(),                                   1.0),
        ("--width 1024 --height 1024 --bands 4 --format float32 --samples 2 --orthorectified".to_owned(), 42.666667),
        ("--width 512 --height 512 --bands 3 --fusion 2+1".to_owned(),                      4.0),
        ("--width 512 --height 512 --bands 3 --terrain-corrected --speckle-filter --format octet-stream".to_owned(), 7.0),
        ("--width 512 --height 512 --bands 3 --fusion 1+1 --rules 2023-01".to_owned(),      1.0),
        (format!("--body {} --samples 5", body("orbit")),                                   5.0),
        (format!("--body {} --api statistical --intervals 3", body("statistical")),         3.0),
        (format!("--body {} --api batch --tiles 100", body("batch")),                       127.156576),
        (format!("--body {} --deployment services-uswest2.sentinel-hub.com", body("fusion")), 5.0),
        (format!("--body {} --deployment sh.dataspace.copernicus.eu --local landsat-ot-l1", body("fusion")), 3.0),
    ];
    for (arguments, units) in table {
        let (code, json, error) = pu(&format!("{arguments} --json")).await;
        assert_eq!((code, error.as_str()), (Some(0), ""), "{arguments}");
        let estimate: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(estimate["processing_units"].as_f64(), Some(units), "{arguments}: {json}");
    }
}

#[tokio::test]
async fn a_table_shows_each_factor() {
    let (code, table, _) = pu(&format!("--api batch --body {}", body("batch"))).await;
    #[rustfmt::skip]
    let expected = [
        vec!["factor", "×", "why"],
        vec!["area", "3.8146973", "1000 × 1000 px / 262144"],
        vec!["tiles", "121"],
        vec!["discount", "0.3333333", "10000 px"],
        vec!["153.859457 processing units (batch, at least 100; rules 2026-11)"],
        vec!["note: as many tiles as the bounds can touch"],
    ];
    let mut lines = table.lines();
    for words in expected {
        let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
        assert!(line.is_some(), "no line, or not in its place, with {words:?}:\n{table}");
    }
    assert_eq!(code, Some(0));
    assert!(!table.contains('\x1b'), "colours belong to terminals");
}

#[test]
fn a_body_is_read_from_standard_input() {
    let stdin = std::fs::File::open(body("process")).unwrap();
    let output = Command::new(RAMPMETER).args(["pu", "--body", "-"]).stdin(stdin).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.ends_with("1 processing units (process, at least 0.005; rules 2026-11)\n"), "{table}");
}
