//! Tables for people.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Row, Table, TableStyle};
use std::io::{IsTerminal, stdout};

/// The columns of sentences without a terminal.
const TEXT_WIDTH: usize = 80;
/// One line below the head, and none between rows.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// Formats a table with this head and these rows, whose columns `numbers` are aligned to the right. It fits the
/// width of a terminal. Without one, each cell stays on one line for programs. No line ends with spaces.
pub(in crate::commands) fn table<R: Into<Row>>(
    head: &[&str],
    numbers: impl IntoIterator<Item = usize>,
    rows: impl IntoIterator<Item = R>,
) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(head).add_rows(rows);
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for number in numbers {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Returns the columns of sentences.
pub(in crate::commands) fn text_width() -> usize {
    terminal_width().map_or(TEXT_WIDTH, usize::from)
}

fn terminal_width() -> Option<u16> {
    let is_terminal = stdout().is_terminal();
    is_terminal.then(|| console::Term::stdout().size_checked()).flatten().map(|(_, columns)| columns)
}
