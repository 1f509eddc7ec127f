//! The classes of a resource, the most urgent first.

use super::sheet::{Sheet, SheetCell, SheetColumn, SheetRow};
use crate::commands::output::human::{count, duration};
use rampmeter_protocol::status::ClassStatus;

const COLUMNS: [SheetColumn; 4] = [
    SheetColumn::text("class", 8),
    SheetColumn::text("of all that wait", 6),
    SheetColumn::number("waiting"),
    SheetColumn::number("longest wait"),
];

/// A row for each class.
pub(super) fn sheet(classes: &[ClassStatus]) -> Sheet {
    let all: u64 = classes.iter().map(|class| class.queued).sum();
    Sheet { columns: COLUMNS.to_vec(), rows: classes.iter().map(|class| row(class, all)).collect() }
}

fn row(class: &ClassStatus, all: u64) -> SheetRow {
    let part = class.queued as f64 / all.max(1) as f64;
    let longest = match class.queued {
        0 => SheetCell::number(0.0, "–"),
        _ => SheetCell::number(class.oldest_ms, duration(class.oldest_ms)),
    };
    let cells = vec![
        SheetCell::text(&*class.name),
        SheetCell::bar(part),
        SheetCell::number(class.queued as f64, count(class.queued)),
        longest,
    ];
    SheetRow { name: class.name.to_string(), cells }
}
