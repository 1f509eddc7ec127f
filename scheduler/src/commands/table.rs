//! Tables for people.

use comfy_table::{CellAlignment, Table, presets};
use std::ops::Range;

/// A table with thin lines and this head.
pub(super) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(head);
    table
}

/// A duration as a cell of a table.
pub(super) fn seconds(millis: f64) -> String {
    format!("{:.3} s", millis / 1e3)
}

/// The same table with these columns aligned to the right, for numbers.
pub(super) fn right_aligned(mut table: Table, columns: Range<usize>) -> Table {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
