//! One panel of the dashboard: which of its rows is chosen, and how its rows are arranged.

use super::sheet::{Arrangement, Sheet};

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    Resources,
    Limits,
    Classes,
    Queue,
}

impl Panel {
    /// All of them, from the top of the screen down.
    pub(super) const ALL: [Panel; 4] = [Panel::Resources, Panel::Limits, Panel::Classes, Panel::Queue];

    /// The panel that is this many places further down. The first panel follows the last one.
    pub(super) fn further(self, places: usize) -> Panel {
        Panel::ALL[(self as usize + places) % Panel::ALL.len()]
    }
}

/// The choice of a person in one panel.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub(super) arrangement: Arrangement,
    /// The name of what the chosen row shows. When rows move, the choice follows this name.
    name: Option<String>,
    /// The row that is chosen if the named one is gone.
    row: usize,
}

impl Choice {
    /// The chosen row; none if there are no rows.
    pub(super) fn row(&self, sheet: &Sheet) -> Option<usize> {
        let named = self.name.as_ref().and_then(|name| sheet.position(name));
        let last = sheet.rows.len().checked_sub(1)?;
        Some(named.unwrap_or(self.row).min(last))
    }

    /// Moves the choice by `lines`, but not beyond the first or the last row.
    pub(super) fn go(&mut self, sheet: &Sheet, lines: isize) {
        let Some(row) = self.row(sheet) else { return };
        self.row = row.saturating_add_signed(lines).min(sheet.rows.len() - 1);
        self.name = Some(sheet.rows[self.row].name.clone());
    }

    /// Notes the present place of the chosen row.
    pub(super) fn follow(&mut self, sheet: &Sheet) {
        self.row = self.row(sheet).unwrap_or(0);
    }

    /// Chooses the first row, whatever it shows.
    pub(super) fn reset(&mut self) {
        (self.name, self.row) = (None, 0);
    }
}
