//! A text over the panels: an explanation, a question, or the keys.

use super::survey::SurveyedResource;
use crate::commands::explain::describe;
use crate::commands::output::human::{amount, count, duration, wrapped};
use crate::commands::status::{heading, notes, period};
use rampmeter_protocol::explain::Explanation;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{LimitStatus, Status};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::widgets::{Block, Clear, Paragraph, Widget};

/// The widest that a text is: longer lines are hard to read.
const WIDEST: u16 = 90;
/// The columns for text that is not to be broken yet.
const UNBROKEN: usize = usize::MAX;

const YES_OR_NO: &str = "y: yes, any other key: no";

const KEYS: &str = "q, Esc, Ctrl-C   quit
Tab, Shift-Tab   the next panel, and the one before
↑ ↓ j k          the row above, and the row below; also PgUp and PgDn
← →              the resource before, and the next one
s   r            sort by the next column; reverse
/                show only rows with a text; Esc shows all again
e, Enter         explain the chosen request, limit, class or resource
f                thaw the chosen limit, or freeze it for a minute
>   <            the next hundred requests; those at the front
p                pause this screen, and go on";

/// What is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Popup {
    Text {
        title: String,
        /// Sentences, a paragraph each.
        lines: Vec<String>,
        /// The lines at the top that are scrolled away.
        above: usize,
    },
    /// Asks whether to end the pause of a limit.
    Thaw { resource: Name, limit: Name },
    /// Asks whether to pause a limit.
    Freeze { resource: Name, limit: Name },
}

impl Popup {
    pub(super) fn text(title: impl Into<String>, text: &str) -> Self {
        Popup::Text { title: title.into(), lines: text.lines().map(str::to_owned).collect(), above: 0 }
    }

    /// The question before an order: a paused limit is thawed, and another one is frozen.
    pub(super) fn order(resource: Name, limit: &LimitStatus) -> Self {
        let is_paused = limit.paused_by.is_some();
        let limit = limit.name.clone();
        if is_paused { Popup::Thaw { resource, limit } } else { Popup::Freeze { resource, limit } }
    }

    pub(super) fn help() -> Self {
        Popup::text("keys", KEYS)
    }

    /// What there is to know of a resource.
    pub(super) fn of_resource(resource: &SurveyedResource) -> Self {
        let text = resource.status.as_ref().map_or_else(Clone::clone, |status| heading(status, UNBROKEN));
        Popup::text(&*resource.name, &text)
    }

    /// What there is to know of a limit.
    pub(super) fn of_limit(limit: &LimitStatus) -> Self {
        let (left, capacity) = (amount(limit.level), amount(limit.capacity));
        let has = format!("{left} of {capacity} {} are left, per {}", limit.unit, period(limit));
        let lines: Vec<String> = [has].into_iter().chain(notes(limit)).collect();
        Popup::text(&*limit.name, &lines.join("\n"))
    }

    /// What there is to know of a class.
    pub(super) fn of_class(status: &Status, name: &str) -> Option<Self> {
        let class = status.classes.iter().find(|class| &*class.name == name)?;
        let text = match class.queued {
            0 => "no request of this class waits".to_owned(),
            waiting => format!("{} wait, the oldest of them for {}", count(waiting), duration(class.oldest_ms)),
        };
        Some(Popup::text(name, &text))
    }

    /// Why a request waits.
    pub(super) fn of_request(explanation: &Explanation) -> Option<Self> {
        let request = explanation.request.as_ref()?;
        let takes = request.takes.iter().map(|(limit, takes)| format!("takes {} from `{limit}`", amount(*takes)));
        let takes: Vec<String> = takes.collect();
        let text = describe(request, explanation, UNBROKEN) + &takes.join("\n");
        Some(Popup::text("why it waits", &text))
    }

    /// The same text, scrolled down by so many lines, or up if `by` is negative.
    pub(super) fn scrolled(self, by: isize) -> Self {
        match self {
            Popup::Text { title, lines, above } => {
                let last = lines.len().saturating_sub(1);
                Popup::Text { above: above.saturating_add_signed(by).min(last), title, lines }
            }
            Popup::Thaw { .. } | Popup::Freeze { .. } => self,
        }
    }

    /// Paints it into the middle of `area`.
    pub(super) fn paint(&self, area: Rect, buffer: &mut Buffer) {
        let width = WIDEST.min(area.width.saturating_sub(4)).max(1);
        let (title, text, below) = self.content(usize::from(width.saturating_sub(4)).max(1));
        let height = u16::try_from(text.lines().count()).unwrap_or(u16::MAX).saturating_add(2);
        let place = area.centered(Constraint::Length(width), Constraint::Length(height.min(area.height)));
        let block = Block::bordered().title(format!(" {title} ")).title_bottom(format!(" {below} "));
        let inner = block.inner(place);
        Clear.render(place, buffer);
        block.render(place, buffer);
        let above = if let Popup::Text { above, .. } = self { u16::try_from(*above).unwrap_or(u16::MAX) } else { 0 };
        let most = height.saturating_sub(2).saturating_sub(inner.height);
        Paragraph::new(text).scroll((above.min(most), 0)).render(inner, buffer);
    }

    /// The title, the text in lines of `columns` columns, and what keys do.
    fn content(&self, columns: usize) -> (String, String, &'static str) {
        match self {
            Popup::Text { title, lines, .. } => {
                let lines: Vec<String> = lines.iter().map(|line| broken(line, columns)).collect();
                (title.clone(), lines.join("\n"), "any key goes back")
            }
            Popup::Thaw { resource, limit } => {
                let question = format!(
                    "The upstream or an operator demands a pause of `{limit}` of {resource}. Shall calls go on at once?"
                );
                ("thaw".to_owned(), wrapped(&question, columns), YES_OR_NO)
            }
            Popup::Freeze { resource, limit } => {
                let question = format!("Shall no call that takes from `{limit}` of {resource} start for a minute?");
                ("freeze".to_owned(), wrapped(&question, columns), YES_OR_NO)
            }
        }
    }
}

/// Lines that fit stay as they are, with the spaces between their columns.
fn broken(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns { line.to_owned() } else { wrapped(line, columns) }
}
