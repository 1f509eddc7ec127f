//! The table of figures for people.

use crate::case::{Measured, Path};

/// One row for each path of each case.
pub(crate) fn render(measured: &[Measured]) -> String {
    let head = ["path", "client", "in flight", "array", "per second", "p50 µs", "p99 µs", "to echo"];
    let rows = measured.iter().map(|row| {
        [
            path(row.path).to_owned(),
            row.client.to_owned(),
            row.in_flight.to_string(),
            row.array.to_string(),
            format!("{:.0}", row.per_second),
            format!("{:.0}", row.p50_us),
            format!("{:.0}", row.p99_us),
            format!("{:.2}", row.ratio_to_echo),
        ]
    });
    table(head.map(str::to_owned), rows)
}

/// Lines with columns of equal width below `head`.
pub(crate) fn table<const N: usize>(head: [String; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let line = |cells: [String; N]| cells.map(|cell| format!("{cell:>12}")).concat() + "\n";
    line(head) + &rows.map(line).collect::<String>()
}

fn path(path: Path) -> &'static str {
    match path {
        Path::Echo => "echo",
        Path::Scheduler => "scheduler",
        Path::Sdk => "SDK",
    }
}
