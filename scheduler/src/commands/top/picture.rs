//! The whole screen: where each panel is, and what stands above and below.

use super::dashboard::Dashboard;
use super::painted_sheet::{PaintedSheet, shortened};
use super::palette::Palette;
use super::panel::Panel;
use super::queue_panel;
use super::resources_panel::waiting_for;
use super::sheet::{Sheet, Tone};
use crate::commands::output::human::{amount, count};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// A screen of this width or wider has limits and classes side by side.
const SIDE_BY_SIDE: u16 = 140;
/// Lines that the queue has at least: its title, its head and some requests.
const QUEUE_LINES: u16 = 6;
/// Lines of a panel at least: its head and a row.
const PANEL_LINES: u16 = 2;

const KEYS: &str = "q quit  Tab panel  ←→ resource  s sort  / filter  e explain  f freeze/thaw  ? all keys";

/// The dashboard as it is now.
pub(super) struct Picture<'a> {
    dashboard: &'a Dashboard,
    palette: Palette,
    sheets: [Sheet; 4],
    /// Whether keys act on the picture. A printed picture shows neither keys nor the chosen row.
    is_live: bool,
}

/// Where things are, from the top down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    title: Rect,
    panels: [Rect; 4],
    queue_title: Rect,
    keys: Rect,
}

impl<'a> Picture<'a> {
    pub(super) fn live(dashboard: &'a Dashboard, palette: Palette) -> Self {
        Picture { dashboard, palette, sheets: Panel::ALL.map(|panel| dashboard.sheet(panel)), is_live: true }
    }

    /// All rows as lines of text, this wide.
    pub(super) fn printed(dashboard: &'a Dashboard, width: u16) -> String {
        let picture = Picture { is_live: false, ..Picture::live(dashboard, Palette::PLAIN) };
        let lines: u16 = picture.sheets.iter().map(height_of).sum();
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, lines.saturating_add(2)));
        picture.paint(buffer.area, &mut buffer);
        text(&buffer)
    }

    /// Paints everything into `area`.
    pub(super) fn paint(&self, area: Rect, buffer: &mut Buffer) {
        let places = self.places(area);
        self.paint_title(places.title, buffer);
        for (panel, place) in Panel::ALL.into_iter().zip(places.panels) {
            self.paint_panel(panel, place, buffer);
        }
        self.paint_queue_title(places.queue_title, buffer);
        if self.is_live {
            self.paint_keys(places.keys, buffer);
        }
        if let Some(popup) = self.dashboard.popup() {
            popup.paint(area, buffer);
        }
    }

    fn paint_title(&self, place: Rect, buffer: &mut Buffer) {
        let style = Style::new().add_modifier(Modifier::BOLD);
        line(&self.title(), place, style, buffer);
        if self.dashboard.is_paused() {
            let style = self.palette.style(Tone::Warning).add_modifier(Modifier::REVERSED);
            let text = " paused ";
            let x = place.right().saturating_sub(8).max(place.x);
            line(text, Rect { x, width: place.right() - x, ..place }, style, buffer);
        }
    }

    /// What all resources do together.
    fn title(&self) -> String {
        let Some(survey) = self.dashboard.survey() else { return "rampmeter top · asking the schedulers".to_owned() };
        let statuses = || survey.resources.iter().filter_map(|resource| resource.status.as_ref().ok());
        let resources = match survey.resources.len() {
            0 => return "rampmeter top · no scheduler answers; is `rampmeter serve` running?".to_owned(),
            1 => "1 resource".to_owned(),
            many => format!("{} resources", count(many as u64)),
        };
        let waiting = count(statuses().map(waiting_for).sum());
        let refused: u64 = statuses().map(|status| status.counters.upstream_429).sum();
        let granted = amount(self.dashboard.paces().granted());
        let pace = if self.is_live { format!(" · {granted} granted/s") } else { String::new() };
        format!("rampmeter top · {resources} · {waiting} waiting{pace} · {} × 429", count(refused))
    }

    fn paint_panel(&self, panel: Panel, place: Rect, buffer: &mut Buffer) {
        let sheet = &self.sheets[panel as usize];
        let arrangement = &self.dashboard.choice(panel).arrangement;
        let has_focus = self.is_live && self.dashboard.focus() == panel;
        let is_typed = has_focus && self.dashboard.is_typing();
        let remark = match (&*arrangement.filter, is_typed) {
            ("", false) => String::new(),
            (filter, false) => format!(" /{filter}"),
            (filter, true) => format!(" /{filter}▏"),
        };
        let is_chosen = self.is_live && (has_focus || panel == Panel::Resources);
        let painted = PaintedSheet {
            sheet,
            remark: &remark,
            sorted_by: arrangement.column.map(|column| (column, arrangement.is_reversed)),
            chosen: self.dashboard.chosen(panel, sheet).filter(|_| is_chosen),
            has_focus,
            palette: self.palette,
        };
        painted.paint(place, buffer);
    }

    fn paint_queue_title(&self, place: Rect, buffer: &mut Buffer) {
        let shown = self.sheets[Panel::Queue as usize].rows.len();
        let title = queue_panel::title(self.dashboard.list(), shown, self.dashboard.is_behind());
        line(&title, place, Style::new().add_modifier(Modifier::BOLD), buffer);
    }

    fn paint_keys(&self, place: Rect, buffer: &mut Buffer) {
        match self.dashboard.message() {
            Some(message) => line(message, place, self.palette.style(Tone::Warning), buffer),
            None => line(KEYS, place, self.palette.style(Tone::Quiet), buffer),
        }
    }

    /// The queue has what the panels above it leave, and at least some lines.
    fn places(&self, area: Rect) -> Places {
        let mut rest = area;
        let title = cut(&mut rest, 1);
        let keys_line = u16::from(self.is_live);
        let keys = Rect { y: rest.bottom().saturating_sub(keys_line), height: keys_line.min(rest.height), ..rest };
        rest.height = rest.height.saturating_sub(keys_line);
        let wanted =
            [Panel::Resources, Panel::Limits, Panel::Classes].map(|panel| height_of(&self.sheets[panel as usize]));
        let room = rest.height.saturating_sub(if self.is_live { QUEUE_LINES } else { 0 });
        if area.width >= SIDE_BY_SIDE {
            let [resources, middle] = shared(room, [wanted[0], wanted[1].max(wanted[2])]);
            let resources = cut(&mut rest, resources);
            let middle = cut(&mut rest, middle);
            let left = middle.width / 5 * 3;
            let limits = Rect { width: left - 2, ..middle };
            let classes = Rect { x: middle.x + left, width: middle.width - left, ..middle };
            let queue_title = cut(&mut rest, 1);
            return Places { title, panels: [resources, limits, classes, rest], queue_title, keys };
        }
        let [resources, limits, classes] = shared(room, wanted).map(|height| cut(&mut rest, height));
        let queue_title = cut(&mut rest, 1);
        Places { title, panels: [resources, limits, classes, rest], queue_title, keys }
    }
}

/// The lines of all rows and their head.
fn height_of(sheet: &Sheet) -> u16 {
    u16::try_from(sheet.rows.len() + 1).unwrap_or(u16::MAX)
}

/// The lines that panels get. While all heights exceed `room`, the largest panel loses a line.
fn shared<const N: usize>(room: u16, mut heights: [u16; N]) -> [u16; N] {
    while heights.iter().map(|height| u32::from(*height)).sum::<u32>() > u32::from(room) {
        let Some(largest) = heights.iter_mut().filter(|height| **height > PANEL_LINES).max() else { break };
        *largest -= 1;
    }
    heights
}

/// Takes `height` lines off the top, or as many as there are.
fn cut(rest: &mut Rect, height: u16) -> Rect {
    let height = height.min(rest.height);
    let taken = Rect { height, ..*rest };
    (rest.y, rest.height) = (rest.y + height, rest.height - height);
    taken
}

fn line(text: &str, place: Rect, style: Style, buffer: &mut Buffer) {
    if !place.is_empty() {
        buffer.set_stringn(place.x, place.y, shortened(text, place.width), usize::from(place.width), style);
    }
}

/// The lines of a picture, without spaces at their ends. A wide character fills two cells.
fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(ratatui::text::Span::raw(symbol).width()).unwrap_or(1).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::survey::{Survey, SurveyedResource, WaitingList};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use rampmeter_protocol::explain::Explained;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::status::{LimitStatus, Status};
    use rampmeter_protocol::time::Time;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn limit(number: usize) -> LimitStatus {
        let json = format!(
            r#"{{"name": "limit-{number}", "unit": "requests", "algorithm": "token-bucket", "capacity": 100.0,
                 "period_ms": 60e3, "margin": 0.0, "level": 50.0, "next_free_ms": 0.0, "keys": 1, "frozen_ms": 0.0}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn request(number: usize) -> Explained {
        let json = format!(
            r#"{{"id": "0199a7c2-5d1e-7000-8000-{number:012}", "state": "waiting", "class": "bulk", "client": "team",
                 "takes": {{}}, "limited_by": "limit-0", "reason": "stock", "position": {number}, "waited_ms": 7e3,
                 "eta_ms": 250.0}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    /// A dashboard of one resource with so many limits, and twenty requests of a million.
    fn dashboard(limits: usize) -> Dashboard {
        let hub = Name::new("hub").unwrap();
        let status = r#"{"resource": "hub", "epoch": 1, "leader": "scheduler-1", "limits": [],
            "classes": [{"name": "bulk", "queued": 1000000, "oldest_ms": 7e3}],
            "counters": {"granted": 0, "refused": 0, "settled": 0, "upstream_429": 0, "returned": 0}}"#;
        let status = Status { limits: (0..limits).map(limit).collect(), ..serde_json::from_str(status).unwrap() };
        let resources = vec![SurveyedResource { name: hub.clone(), status: Ok(status) }];
        let listed = (0..20).map(request).collect();
        let list = Some(WaitingList { resource: hub, after: None, waiting: 1_000_000, listed, more: 999_980 });
        let mut dashboard = Dashboard::new(None);
        dashboard.take(Survey { at: Time::ORIGIN, resources, list });
        dashboard
    }

    fn lines(dashboard: &Dashboard, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let picture = Picture::live(dashboard, Palette::PLAIN);
        terminal.draw(|frame| picture.paint(frame.area(), frame.buffer_mut())).unwrap();
        text(terminal.backend().buffer()).lines().map(str::to_owned).collect()
    }

    #[test]
    fn panels_share_the_lines_and_the_queue_has_the_rest() {
        // Size, number of limits, shown lines of limits, shown lines of requests.
        #[rustfmt::skip]
        let table = [
            ((80, 24), 2, 2, 13), ((80, 24), 40, 11, 4), ((200, 60), 2, 2, 20), ((200, 60), 200, 49, 4), ((60, 16), 9, 3, 4),
        ];
        for ((width, height), limits, shown_limits, shown_requests) in table {
            let lines = lines(&dashboard(limits), width, height);
            let with = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
            assert_eq!(with("limit-") - with("0199a7c2"), shown_limits, "{width}x{height}\n{}", lines.join("\n"));
            assert_eq!(with("0199a7c2"), shown_requests, "{width}x{height}\n{}", lines.join("\n"));
            assert!(lines[0].starts_with("rampmeter top · 1 resource · 1 000 000 w"), "{lines:#?}");
            assert!(lines.last().is_some_and(|line| line.starts_with("q quit")), "{lines:#?}");
        }
    }

    #[test]
    fn no_size_is_too_small_to_be_painted() {
        for (width, height) in [(1, 1), (2, 2), (5, 40), (80, 1), (80, 3), (139, 8), (140, 2), (u16::MAX, 2)] {
            let mut dashboard = dashboard(5);
            lines(&dashboard, width, height);
            dashboard.press(KeyEvent::new(KeyCode::Char('?'), KeyModifiers::NONE));
            lines(&dashboard, width, height);
        }
    }

    #[test]
    fn a_printed_picture_has_all_rows() {
        let printed = Picture::printed(&dashboard(200), 80);
        assert_eq!(printed.lines().filter(|line| line.starts_with("limit-")).count(), 200);
        assert_eq!(printed.lines().filter(|line| line.contains("0199a7c2")).count(), 20);
        assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    }
}
