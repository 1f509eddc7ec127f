//! A sheet on a terminal: columns that fit, bars, and the rows around the chosen one.

use super::palette::Palette;
use super::sheet::{Sheet, SheetCell};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

/// The space between columns.
const GAP: u16 = 2;
/// The columns of a bar.
const BAR: u16 = 16;
/// A full cell of a bar, and its eighths from one to seven.
const FULL: &str = "█";
const EIGHTHS: [&str; 7] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const EMPTY: &str = "░";

/// How a sheet is painted.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaintedSheet<'a> {
    pub(super) sheet: &'a Sheet,
    /// The text after the first column's name, such as the filter.
    pub(super) remark: &'a str,
    /// The column that sorts, and whether it does so downwards.
    pub(super) sorted_by: Option<(usize, bool)>,
    /// The chosen row, if there is one.
    pub(super) chosen: Option<usize>,
    /// Whether keys act on this sheet.
    pub(super) has_focus: bool,
    pub(super) palette: Palette,
}

impl PaintedSheet<'_> {
    /// Paints the head into the first line of `area`, and rows into the others.
    pub(super) fn paint(&self, area: Rect, buffer: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let columns = self.columns(area.width);
        self.paint_head(&columns, area, buffer);
        let lines = usize::from(area.height - 1);
        let first = self.chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(lines));
        for (line, row) in (1..area.height).zip(first..self.sheet.rows.len()) {
            self.paint_row(row, &columns, Rect { y: area.y + line, height: 1, ..area }, buffer);
        }
    }

    fn paint_head(&self, columns: &[Placed], area: Rect, buffer: &mut Buffer) {
        let style = self.palette.head(self.has_focus);
        let line = Rect { height: 1, ..area };
        buffer.set_style(line, style);
        for place in columns {
            put(&self.head(place.column), place, self.sheet.columns[place.column].is_number, (line, style), buffer);
        }
    }

    /// The name of a column, with a mark if it sorts.
    fn head(&self, column: usize) -> String {
        let mark = match self.sorted_by {
            Some((sorts, is_reversed)) if sorts == column => {
                if is_reversed {
                    " ▼"
                } else {
                    " ▲"
                }
            }
            Some(_) | None => "",
        };
        let remark = if column == 0 { self.remark } else { "" };
        format!("{}{mark}{remark}", self.sheet.columns[column].head)
    }

    fn paint_row(&self, row: usize, columns: &[Placed], line: Rect, buffer: &mut Buffer) {
        for place in columns {
            let cell = &self.sheet.rows[row].cells[place.column];
            let style = self.palette.style(cell.tone);
            match cell.filled {
                Some(part) => {
                    let bar = bar(part, place.width);
                    buffer.set_stringn(line.x + place.x, line.y, bar, usize::from(place.width), style);
                }
                None => put(&cell.text, place, self.sheet.columns[place.column].is_number, (line, style), buffer),
            }
        }
        if self.chosen == Some(row) && self.has_focus {
            buffer.set_style(line, self.palette.chosen());
        } else if self.chosen == Some(row) {
            buffer.set_style(line, Style::new().add_modifier(Modifier::BOLD));
        }
    }

    /// The columns that there is room for, and their places.
    fn columns(&self, width: u16) -> Vec<Placed> {
        let shown: Vec<usize> =
            (0..self.sheet.columns.len()).filter(|column| self.sheet.columns[*column].from_width <= width).collect();
        let mut widths: Vec<u16> = shown.iter().map(|column| self.natural_width(*column)).collect();
        let gaps = GAP * u16::try_from(shown.len().saturating_sub(1)).unwrap_or(u16::MAX);
        let least: Vec<u16> = shown.iter().map(|column| self.sheet.columns[*column].least).collect();
        shrink(&mut widths, &least, width.saturating_sub(gaps));
        let mut x = 0;
        let mut places = Vec::new();
        for (column, width_of) in shown.into_iter().zip(widths) {
            places.push(Placed { column, x, width: width_of.min(width.saturating_sub(x)) });
            x = x.saturating_add(width_of).saturating_add(GAP);
        }
        places
    }

    /// The width of the longest cell, or of the head.
    fn natural_width(&self, column: usize) -> u16 {
        let cells = self.sheet.rows.iter().map(|row| width_of(&row.cells[column]));
        cells.chain([columns_of(&self.head(column))]).max().unwrap_or_default()
    }
}

/// A column with its place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    column: usize,
    x: u16,
    width: u16,
}

/// Makes the widest columns narrower, down to what each needs at least, until all fit.
fn shrink(widths: &mut [u16], least: &[u16], room: u16) {
    while widths.iter().map(|width| u32::from(*width)).sum::<u32>() > u32::from(room) {
        let can = |column: &usize| widths[*column] > least[*column];
        let Some(widest) = (0..widths.len()).filter(can).max_by_key(|column| widths[*column]) else { return };
        widths[widest] -= 1;
    }
}

fn width_of(cell: &SheetCell) -> u16 {
    if cell.filled.is_some() { BAR } else { columns_of(&cell.text) }
}

/// The columns that a terminal needs for a text.
fn columns_of(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

/// Puts a text into its place, shortened if it is too long.
fn put(text: &str, place: &Placed, is_number: bool, (line, style): (Rect, Style), buffer: &mut Buffer) {
    let text = shortened(text, place.width);
    let indent = if is_number { place.width.saturating_sub(columns_of(&text)) } else { 0 };
    buffer.set_stringn(line.x + place.x + indent, line.y, text, usize::from(place.width), style);
}

/// A text in `width` columns. Ids differ at their ends, and names at their beginnings: the middle
/// is left out.
pub(super) fn shortened(text: &str, width: u16) -> String {
    if columns_of(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let (tail, head) = (room / 3, room - room / 3);
    let begin = taken(text.chars(), head);
    let end: String = taken(text.chars().rev(), tail).chars().rev().collect();
    if width == 0 { String::new() } else { format!("{begin}…{end}") }
}

/// The first characters that fit into `width` columns.
fn taken(characters: impl Iterator<Item = char>, width: u16) -> String {
    let mut taken = String::new();
    for character in characters {
        taken.push(character);
        if columns_of(&taken) > width {
            taken.pop();
            return taken;
        }
    }
    taken
}

/// A bar of `width` columns. A part above zero shows, and a part below one leaves a gap.
fn bar(part: f64, width: u16) -> String {
    let all = f64::from(width) * 8.0;
    let eighths = match part.clamp(0.0, 1.0) * all {
        some if some > 0.0 && some < 1.0 => 1,
        some => some.floor() as usize,
    };
    let (full, rest) = (eighths / 8, eighths % 8);
    let edge = rest.checked_sub(1).map_or("", |rest| EIGHTHS[rest]);
    let empty = usize::from(width).saturating_sub(full + usize::from(rest > 0));
    format!("{}{edge}{}", FULL.repeat(full), EMPTY.repeat(empty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::sheet::{SheetColumn, SheetRow};

    #[test]
    fn bars_show_eighths_and_neither_nothing_nor_all_by_rounding() {
        #[rustfmt::skip]
        let table = [
            (0.0, "░░░░"), (0.5, "██░░"), (1.0, "████"), (0.25 + 1.0 / 32.0, "█▏░░"), (0.001, "▏░░░"), (0.999, "███▉"),
            (-3.0, "░░░░"), (7.0, "████"),
        ];
        for (part, expected) in table {
            assert_eq!(bar(part, 4), expected, "{part}");
        }
    }

    #[test]
    fn long_texts_lose_their_middle() {
        #[rustfmt::skip]
        let table = [
            ("short", 9, "short"), ("0199a7c2-5d1e-7000", 10, "0199a7…000"), ("北京市北京市", 7, "北京…市"), ("abc", 1, "…"),
            ("abc", 0, ""),
        ];
        for (text, width, expected) in table {
            assert_eq!(shortened(text, width), expected, "{text}");
        }
    }

    fn painted(width: u16, chosen: Option<usize>) -> Vec<String> {
        let row = |name: &str| SheetRow {
            name: name.to_owned(),
            cells: vec![
                SheetCell::text(name),
                SheetCell::number(7.0, "7 s"),
                SheetCell::bar(0.5),
                SheetCell::text("x"),
            ],
        };
        let columns = vec![
            SheetColumn::text("request", 5),
            SheetColumn::number("waited"),
            SheetColumn::text("level", 4),
            SheetColumn::text("wide only", 1).shown_from(100),
        ];
        let sheet = Sheet { columns, rows: vec![row("first-request"), row("second"), row("third")] };
        let area = Rect::new(0, 0, width, 3);
        let mut buffer = Buffer::empty(area);
        let sorted_by = Some((1, true));
        let palette = Palette::PLAIN;
        PaintedSheet { sheet: &sheet, remark: "", sorted_by, chosen, has_focus: true, palette }
            .paint(area, &mut buffer);
        lines(&buffer)
    }

    fn lines(buffer: &Buffer) -> Vec<String> {
        let line = |row: u16| (0..buffer.area.width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..buffer.area.height).map(|row| line(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_shrink_to_the_terminal_and_rows_follow_the_chosen_one() {
        #[rustfmt::skip]
        let table = [
            (41, None, vec!["request        waited ▼  level", "first-request       7 s  ████████░░░░░░░░", "second              7 s  ████████░░░░░░░░"]),
            (30, None, vec!["request    waited ▼  level", "first-…st       7 s  ████▌░░░░", "second          7 s  ████▌░░░░"]),
            (30, Some(2), vec!["request    waited ▼  level", "second          7 s  ████▌░░░░", "third           7 s  ████▌░░░░"]),
        ];
        for (width, chosen, expected) in table {
            assert_eq!(painted(width, chosen), expected, "{width} {chosen:?}");
        }
    }
}
