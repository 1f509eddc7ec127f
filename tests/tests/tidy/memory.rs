//! What the documents say of memory adds up, is what is configured, and fits into what is shipped.

use rampmeter_tests::repository::file;

const MEBIBYTE: u64 = 1 << 20;

/// A row of a table of buffers.
struct Buffer {
    key: String,
    most: u64,
    each: u64,
    mebibytes: u64,
}

fn text(path: &str) -> String {
    file(path).unwrap().text
}

/// The buffers of `whom`, whose sum is the last row.
fn buffers(whom: &str) -> (Vec<Buffer>, u64) {
    let page = text("docs/operations.md");
    let (_, table) = page.split_once(&format!("| buffer of a {whom} |")).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{cell}"));
    let (mut buffers, mut sum) = (Vec::new(), 0);
    for cells in rows.map(cells) {
        match &*cells[0] {
            "sum" => sum = number(&cells[4]),
            _ => buffers.push(Buffer {
                key: cells[1].trim_matches('`').to_owned(),
                most: number(&cells[2]),
                each: number(&cells[3]),
                mebibytes: number(&cells[4]),
            }),
        }
    }
    assert!(buffers.len() > 5, "{whom}");
    (buffers, sum)
}

/// Checks the sum, that each of `configured` has the keys, and that `limits`, in MiB, are above the sum.
fn check(whom: &str, configured: &[String], limits: &[u64]) {
    let (buffers, sum) = buffers(whom);
    for Buffer { key, most, each, mebibytes } in &buffers {
        assert_eq!((most * each).div_ceil(MEBIBYTE), *mebibytes, "{whom}: {key} {most}");
        let line = format!("{key} = {most}");
        let has = |text: &String| text.lines().any(|found| found.trim().trim_start_matches('#') == line);
        assert!(key.is_empty() || configured.iter().all(has), "{whom}: {line}");
    }
    assert_eq!(buffers.iter().map(|buffer| buffer.mebibytes).sum::<u64>(), sum, "{whom}");
    assert!(!limits.is_empty() && limits.iter().all(|limit| sum < *limit), "{whom}: {sum} of {limits:?}");
}

/// The limits behind `key` in a file, in MiB.
fn limits(path: &str, key: &str) -> Vec<u64> {
    let text = text(path);
    let values = text.split(key).skip(1).map(|rest| rest.trim_start_matches([':', '=', ' ']));
    let mebibytes = |value: &str| {
        let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unit = if value[digits..].starts_with(['G', 'g']) { 1024 } else { 1 };
        Some(value[..digits].parse::<u64>().ok()? * unit)
    };
    values.filter_map(mebibytes).collect()
}

#[test]
fn the_bounds_of_a_scheduler_fit_into_its_container() {
    let chart = limits("deploy/helm/values.yaml", "limits: { memory")[1];
    let compose = limits("deploy/compose.yaml", "mem_limit")[0];
    let unit = limits("deploy/systemd/rampmeter.service", "MemoryMax")[0];
    assert_eq!([chart, compose, unit], [2048; 3]);
    check("scheduler", &[text("deploy/rampmeter.toml")], &[chart, compose, unit]);
}

#[test]
fn the_bounds_of_a_sidecar_fit_into_its_container() {
    let shipped = ["deploy/helm/values.yaml", "deploy/kubernetes/sidecar.yaml"];
    let limits: Vec<u64> = shipped.iter().map(|path| limits(path, "limits: { memory")[0]).collect();
    assert_eq!(limits, [512; 2]);
    let defaults = "replay_bytes = 1048576\n";
    assert!(text("deploy/rampmeter.toml").contains(&format!("#{defaults}")), "it is left as it is");
    let configured = shipped.iter().chain(&["deploy/compose/proxy.toml"]);
    check("sidecar", &configured.map(|path| text(path) + "\n" + defaults).collect::<Vec<_>>(), &limits);
}
