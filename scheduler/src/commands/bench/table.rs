//! The table of figures for people.

use super::case::{Measured, Path};
use crate::commands::output::table::{right_aligned, table};
use comfy_table::Table;

/// One row for each path of each case.
pub(super) fn render(measured: &[Measured]) -> Table {
    let mut table = table(&["path", "client", "in flight", "array", "per second", "p50 µs", "p99 µs", "to echo"]);
    for row in measured {
        table.add_row([
            path(row.path).to_owned(),
            row.client.to_owned(),
            row.in_flight.to_string(),
            row.array.to_string(),
            format!("{:.0}", row.per_second),
            format!("{:.0}", row.p50_us),
            format!("{:.0}", row.p99_us),
            format!("{:.2}", row.ratio_to_echo),
        ]);
    }
    right_aligned(table, 2..8)
}

fn path(path: Path) -> &'static str {
    match path {
        Path::Echo => "echo",
        Path::Scheduler => "scheduler",
        Path::Sdk => "SDK",
    }
}
