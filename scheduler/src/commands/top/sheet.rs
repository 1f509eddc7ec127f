//! Rows in columns, sorted and filtered.

use std::cmp::Ordering;

/// The attention that a cell needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Good,
    Warning,
    Bad,
    /// Shown dimly, because it needs no attention.
    Quiet,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SheetCell {
    pub(super) text: String,
    pub(super) tone: Tone,
    /// What the rows are sorted by; without it, the text.
    number: Option<f64>,
    /// A bar instead of the text, filled to this part.
    pub(super) filled: Option<f64>,
}

impl SheetCell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        SheetCell { text: text.into(), ..SheetCell::default() }
    }

    /// A figure as people read it.
    pub(super) fn number(number: f64, text: impl Into<String>) -> Self {
        SheetCell { number: Some(number), ..SheetCell::text(text) }
    }

    /// A bar that is filled to this part.
    pub(super) fn bar(part: f64) -> Self {
        SheetCell { filled: Some(part), ..SheetCell::number(part, "") }
    }

    pub(super) fn toned(self, tone: Tone) -> Self {
        SheetCell { tone, ..self }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(number), Some(other)) => number.total_cmp(&other),
            (..) => self.text.cmp(&other.text),
        }
    }
}

/// One row, and the name of what it shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SheetRow {
    pub(super) name: String,
    pub(super) cells: Vec<SheetCell>,
}

impl SheetRow {
    fn contains(&self, text: &str) -> bool {
        let all = [&self.name].into_iter().chain(self.cells.iter().map(|cell| &cell.text));
        all.into_iter().any(|cell| cell.to_lowercase().contains(text))
    }
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SheetColumn {
    pub(super) head: &'static str,
    /// Numbers are aligned to the right.
    pub(super) is_number: bool,
    /// The width at least, if there is not enough room for the longest cell.
    pub(super) least: u16,
    /// Terminals with fewer columns leave it out.
    pub(super) from_width: u16,
}

impl SheetColumn {
    pub(super) const fn text(head: &'static str, least: u16) -> Self {
        SheetColumn { head, is_number: false, least, from_width: 0 }
    }

    pub(super) const fn number(head: &'static str) -> Self {
        SheetColumn { head, is_number: true, least: u16::MAX, from_width: 0 }
    }

    pub(super) const fn shown_from(self, from_width: u16) -> Self {
        SheetColumn { from_width, ..self }
    }
}

/// How people want the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrangement {
    /// The column that sorts; without one, the schedulers' own order.
    pub(super) column: Option<usize>,
    pub(super) is_reversed: bool,
    /// Only rows with this text; in any case of letters.
    pub(super) filter: String,
}

impl Arrangement {
    /// Sorts by the next of `columns` columns, and after the last one in the schedulers' own order.
    pub(super) fn sort_by_next(&mut self, columns: usize) {
        self.column = self.column.map_or(Some(0), |column| Some(column + 1)).filter(|column| *column < columns);
    }
}

/// Rows in columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sheet {
    pub(super) columns: Vec<SheetColumn>,
    pub(super) rows: Vec<SheetRow>,
}

impl Sheet {
    /// The rows that pass the filter, in the chosen order.
    pub(super) fn arranged(mut self, arrangement: &Arrangement) -> Self {
        let filter = arrangement.filter.to_lowercase();
        self.rows.retain(|row| row.contains(&filter));
        if let Some(column) = arrangement.column {
            self.rows.sort_by(|row, other| row.cells[column].cmp(&other.cells[column]));
        }
        if arrangement.is_reversed {
            self.rows.reverse();
        }
        self
    }

    /// The row of the thing called `name`.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let row = |name: &str, number: f64| SheetRow {
            name: name.to_owned(),
            cells: vec![SheetCell::text(name), SheetCell::number(number, number.to_string())],
        };
        Sheet {
            columns: vec![SheetColumn::text("name", 4), SheetColumn::number("waits")],
            rows: vec![row("beta", 10.0), row("Alpha", 9.0), row("gamma", 100.0)],
        }
    }

    fn names(arrangement: &Arrangement) -> Vec<String> {
        sheet().arranged(arrangement).rows.into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn rows_are_sorted_by_figures_or_texts_and_filtered() {
        let by = |column, is_reversed, filter: &str| Arrangement { column, is_reversed, filter: filter.to_owned() };
        #[rustfmt::skip]
        let table = [
            (by(None, false, ""), vec!["beta", "Alpha", "gamma"]),
            (by(None, true, ""), vec!["gamma", "Alpha", "beta"]),
            (by(Some(0), false, ""), vec!["Alpha", "beta", "gamma"]),
            (by(Some(1), false, ""), vec!["Alpha", "beta", "gamma"]),
            (by(Some(1), true, ""), vec!["gamma", "beta", "Alpha"]),
            (by(None, false, "alp"), vec!["Alpha"]),
            (by(None, false, "ALPHA"), vec!["Alpha"]),
            (by(None, false, "100"), vec!["gamma"]),
            (by(Some(0), false, "nothing"), vec![]),
        ];
        for (arrangement, expected) in table {
            assert_eq!(names(&arrangement), expected, "{arrangement:?}");
        }
    }

    #[test]
    fn behind_the_last_column_comes_the_own_order() {
        let mut arrangement = Arrangement::default();
        let mut columns = Vec::new();
        for _ in 0..4 {
            arrangement.sort_by_next(2);
            columns.push(arrangement.column);
        }
        assert_eq!(columns, [Some(0), Some(1), None, Some(0)]);
    }
}
