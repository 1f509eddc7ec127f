//! The table of figures for people.

use super::case::{Measured, Path};
use comfy_table::{CellAlignment, Table, presets};

/// One row for each path of each case.
pub(super) fn render(measured: &[Measured]) -> Table {
    let mut table = Table::new();
    let head = ["path", "client", "in flight", "array", "per second", "p50 µs", "p99 µs", "to echo"];
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(head);
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
    for column in 2..head.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn path(path: Path) -> &'static str {
    match path {
        Path::Echo => "echo",
        Path::Scheduler => "scheduler",
        Path::Sdk => "SDK",
    }
}
