//! Tables for people.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use std::io::{IsTerminal, stdout};
use std::ops::Range;

/// The columns that sentences have where there is no terminal.
const TEXT_WIDTH: usize = 80;
/// One line below the head, and none between rows.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// A table with this head. It fits the width of a terminal. Without a terminal, each cell stays on
/// one line, so that programs can read it.
pub(in crate::commands) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(head);
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table
}

/// The columns that sentences have.
pub(in crate::commands) fn text_width() -> usize {
    terminal_width().map_or(TEXT_WIDTH, usize::from)
}

fn terminal_width() -> Option<u16> {
    let is_terminal = stdout().is_terminal();
    is_terminal.then(|| console::Term::stdout().size_checked()).flatten().map(|(_, columns)| columns)
}

/// The same table with these columns aligned to the right, for numbers.
pub(in crate::commands) fn right_aligned(mut table: Table, columns: Range<usize>) -> Table {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The same table without spaces at the ends of lines.
pub(in crate::commands) fn trimmed(table: &Table) -> String {
    table.trim_fmt()
}
