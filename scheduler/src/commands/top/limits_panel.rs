//! The limits of a resource, with a bar for what each has left.

use super::sheet::{Sheet, SheetCell, SheetColumn, SheetRow, Tone};
use crate::commands::output::human::{amount, duration};
use crate::commands::status::{next_free, period};
use rampmeter_protocol::status::LimitStatus;

const COLUMNS: [SheetColumn; 7] = [
    SheetColumn::text("limit", 12),
    SheetColumn::text("left", 6),
    SheetColumn::number(""),
    SheetColumn::number("of"),
    SheetColumn::text("unit", 4).shown_from(90),
    SheetColumn::number("per").shown_from(60),
    SheetColumn::text("next free", 9),
];

/// A row for each limit.
pub(super) fn sheet(limits: &[LimitStatus]) -> Sheet {
    Sheet { columns: COLUMNS.to_vec(), rows: limits.iter().map(row).collect() }
}

fn row(limit: &LimitStatus) -> SheetRow {
    let part = if limit.capacity > 0.0 { limit.level / limit.capacity } else { 0.0 };
    let tone = if limit.shadow.is_some() { Tone::Quiet } else { tone_of_level(part) };
    let cells = vec![
        SheetCell::text(&*limit.name),
        SheetCell::bar(part).toned(tone),
        SheetCell::number(limit.level, amount(limit.level)),
        SheetCell::number(limit.capacity, amount(limit.capacity)),
        SheetCell::text(&*limit.unit),
        SheetCell::number(limit.period_ms, period(limit)),
        next(limit),
    ];
    SheetRow { name: limit.name.to_string(), cells }
}

/// When calls can take from the limit again; `shadow` if it delays none.
fn next(limit: &LimitStatus) -> SheetCell {
    let cell = |text: String| SheetCell::number(limit.next_free_ms, text);
    if limit.frozen_ms > 0.0 {
        return cell(format!("paused {}", duration(limit.frozen_ms))).toned(Tone::Bad);
    }
    if limit.shadow.is_some() {
        return cell("shadow".to_owned()).toned(Tone::Quiet);
    }
    let tone = if limit.next_free_ms > 0.0 { Tone::Warning } else { Tone::Plain };
    cell(next_free(limit)).toned(tone)
}

/// The tone of a bucket of which this part is left.
fn tone_of_level(part: f64) -> Tone {
    match part {
        part if part <= 0.0 => Tone::Bad,
        part if part < 0.2 => Tone::Warning,
        _ => Tone::Good,
    }
}
