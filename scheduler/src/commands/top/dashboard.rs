//! What the screen shows, and what each key does, without a terminal, a network or a clock.

use super::pace::Paces;
use super::panel::{Choice, Panel};
use super::popup::Popup;
use super::sheet::Sheet;
use super::survey::{ListWanted, Survey, WaitingList};
use super::{classes_panel, limits_panel, queue_panel, resources_panel};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{LimitStatus, Status};

/// The lines by which a page key moves the choice.
const PAGE: isize = 10;

/// What a key asks of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Nothing,
    Quit,
    /// Asks the schedulers now.
    Look,
    /// Asks why a request waits.
    Explain(Name, PermitId),
    /// Ends the pause of a limit of a resource.
    Thaw(Name, Name),
    /// Pauses a limit of a resource.
    Freeze(Name, Name),
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct Dashboard {
    survey: Option<Survey>,
    paces: Paces,
    /// The resource whose limits, classes and requests are shown. The first one, if none is chosen.
    resource: Option<Name>,
    /// The request after which the shown list begins; without it, the list begins at the front.
    after: Option<PermitId>,
    focus: Option<Panel>,
    choices: [Choice; 4],
    popup: Option<Popup>,
    is_typing: bool,
    is_paused: bool,
    message: Option<String>,
}

impl Dashboard {
    /// A screen that shows this resource at first.
    pub(super) fn new(resource: Option<Name>) -> Self {
        Dashboard { resource, ..Dashboard::default() }
    }

    /// Shows what schedulers have answered.
    pub(super) fn take(&mut self, mut survey: Survey) {
        if let Some(before) = self.survey.take() {
            self.paces = Paces::between(&before, &survey);
            // If the list could not be read, the last one stays.
            survey.list = survey.list.or(before.list);
        }
        self.survey = Some(survey);
        for panel in Panel::ALL {
            let sheet = self.sheet(panel);
            self.choices[panel as usize].follow(&sheet);
        }
    }

    /// Shows a message in the last line.
    pub(super) fn show_message(&mut self, message: String) {
        self.message = Some(message);
    }

    /// Opens a text over the panels.
    pub(super) fn open(&mut self, popup: Popup) {
        self.popup = Some(popup);
    }

    /// The requests to ask for; none before a resource is known.
    pub(super) fn wanted(&self) -> Option<ListWanted> {
        Some(ListWanted { resource: self.resource()?.clone(), after: self.after.clone() })
    }

    pub(super) fn survey(&self) -> Option<&Survey> {
        self.survey.as_ref()
    }

    pub(super) fn paces(&self) -> &Paces {
        &self.paces
    }

    pub(super) fn popup(&self) -> Option<&Popup> {
        self.popup.as_ref()
    }

    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Whether the requests at the front are left out.
    pub(super) fn is_behind(&self) -> bool {
        self.after.is_some()
    }

    pub(super) fn focus(&self) -> Panel {
        self.focus.unwrap_or(Panel::Queue)
    }

    pub(super) fn choice(&self, panel: Panel) -> &Choice {
        &self.choices[panel as usize]
    }

    /// The resource that is shown.
    pub(super) fn resource(&self) -> Option<&Name> {
        let first = || self.survey.as_ref()?.resources.first().map(|resource| &resource.name);
        self.resource.as_ref().or_else(first)
    }

    /// The status of the resource that is shown.
    pub(super) fn status(&self) -> Option<&Status> {
        self.survey.as_ref()?.status(self.resource()?)
    }

    /// What waits for the resource that is shown.
    pub(super) fn list(&self) -> Option<&WaitingList> {
        let list = self.survey.as_ref()?.list.as_ref();
        list.filter(|list| Some(&list.resource) == self.resource() && list.after == self.after)
    }

    /// The rows of a panel, filtered and sorted as the user has chosen.
    pub(super) fn sheet(&self, panel: Panel) -> Sheet {
        let empty = || Sheet { columns: Vec::new(), rows: Vec::new() };
        let sheet = match panel {
            Panel::Resources => self.survey.as_ref().map(|survey| resources_panel::sheet(survey, &self.paces)),
            Panel::Limits => self.status().map(|status| limits_panel::sheet(&status.limits)),
            Panel::Classes => self.status().map(|status| classes_panel::sheet(&status.classes)),
            Panel::Queue => self.list().map(queue_panel::sheet),
        };
        let sheet = sheet.unwrap_or_else(empty);
        if sheet.columns.is_empty() { sheet } else { sheet.arranged(&self.choice(panel).arrangement) }
    }

    /// The chosen row of a panel. Among resources, it is the row of the shown resource.
    pub(super) fn chosen(&self, panel: Panel, sheet: &Sheet) -> Option<usize> {
        match panel {
            Panel::Resources => sheet.position(self.resource()?),
            Panel::Limits | Panel::Classes | Panel::Queue => self.choice(panel).row(sheet),
        }
    }

    /// Does what a key means.
    pub(super) fn press(&mut self, key: KeyEvent) -> Intent {
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Intent::Quit } else { Intent::Nothing };
        }
        if let Some(popup) = self.popup.take() {
            return self.press_in_popup(popup, key.code);
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Intent::Nothing;
        }
        self.press_in_panel(key.code)
    }

    fn press_in_popup(&mut self, popup: Popup, key: KeyCode) -> Intent {
        if let Some(lines) = lines_of(key) {
            self.popup = Some(popup.scrolled(lines));
            return Intent::Nothing;
        }
        match popup {
            Popup::Thaw { resource, limit } if key == KeyCode::Char('y') => Intent::Thaw(resource, limit),
            Popup::Thaw { .. } => {
                self.show_message("nothing was thawed".to_owned());
                Intent::Nothing
            }
            Popup::Freeze { resource, limit } if key == KeyCode::Char('y') => Intent::Freeze(resource, limit),
            Popup::Freeze { .. } => {
                self.show_message("nothing was frozen".to_owned());
                Intent::Nothing
            }
            Popup::Text { .. } => Intent::Nothing,
        }
    }

    fn type_filter(&mut self, key: KeyCode) {
        let panel = self.focus();
        let filter = &mut self.choices[panel as usize].arrangement.filter;
        #[expect(clippy::wildcard_enum_match_arm, reason = "a keyboard has more keys than a filter needs")]
        match key {
            KeyCode::Char(character) => filter.push(character),
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn press_in_panel(&mut self, key: KeyCode) -> Intent {
        if let Some(lines) = lines_of(key) {
            return self.go(self.focus(), lines);
        }
        let panel = self.focus();
        let columns = self.sheet(panel).columns.len();
        let arrangement = &mut self.choices[panel as usize].arrangement;
        #[expect(clippy::wildcard_enum_match_arm, reason = "a keyboard has more keys than this screen needs")]
        match key {
            KeyCode::Char('q') => return Intent::Quit,
            KeyCode::Esc if arrangement.filter.is_empty() => return Intent::Quit,
            KeyCode::Esc => arrangement.filter.clear(),
            KeyCode::Tab => self.focus = Some(panel.further(1)),
            KeyCode::BackTab => self.focus = Some(panel.further(Panel::ALL.len() - 1)),
            KeyCode::Left => return self.go(Panel::Resources, -1),
            KeyCode::Right => return self.go(Panel::Resources, 1),
            KeyCode::Char('s') => arrangement.sort_by_next(columns),
            KeyCode::Char('r') => arrangement.is_reversed = !arrangement.is_reversed,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('>') => return self.read_on(),
            KeyCode::Char('<') => return self.read_from(None),
            KeyCode::Char('e') | KeyCode::Enter => return self.explain(),
            KeyCode::Char('f') => self.ask_to_order(),
            KeyCode::Char('?' | 'h') => self.popup = Some(Popup::help()),
            _ => {}
        }
        Intent::Nothing
    }

    fn go(&mut self, panel: Panel, lines: isize) -> Intent {
        let sheet = self.sheet(panel);
        if panel == Panel::Resources {
            return self.go_to_resource(&sheet, lines);
        }
        self.choices[panel as usize].go(&sheet, lines);
        Intent::Nothing
    }

    /// Shows another resource, from its first rows on.
    fn go_to_resource(&mut self, sheet: &Sheet, lines: isize) -> Intent {
        let Some(last) = sheet.rows.len().checked_sub(1) else { return Intent::Nothing };
        let row = self.chosen(Panel::Resources, sheet).unwrap_or(0).saturating_add_signed(lines).min(last);
        let resource = Name::new(&sheet.rows[row].name).ok();
        if resource.is_none() || resource.as_ref() == self.resource() {
            return Intent::Nothing;
        }
        self.resource = resource;
        [Panel::Limits, Panel::Classes].into_iter().for_each(|panel| self.choices[panel as usize].reset());
        self.read_from(None)
    }

    /// Reads the requests behind those that are shown.
    fn read_on(&mut self) -> Intent {
        let last = self.list().filter(|list| list.more > 0).and_then(|list| list.listed.last());
        match last.map(|request| request.id.clone()) {
            Some(last) => self.read_from(Some(last)),
            None => {
                self.show_message("these are the last".to_owned());
                Intent::Nothing
            }
        }
    }

    fn read_from(&mut self, after: Option<PermitId>) -> Intent {
        self.after = after;
        self.choices[Panel::Queue as usize].reset();
        Intent::Look
    }

    /// Tells what there is to know of the chosen row.
    fn explain(&mut self) -> Intent {
        let panel = self.focus();
        let sheet = self.sheet(panel);
        let Some(name) = self.chosen(panel, &sheet).map(|row| sheet.rows[row].name.clone()) else {
            return Intent::Nothing;
        };
        let popup = match panel {
            Panel::Queue => {
                let asked = self.resource().cloned().zip(PermitId::new(&name).ok());
                return asked.map_or(Intent::Nothing, |(resource, id)| Intent::Explain(resource, id));
            }
            Panel::Resources => self.survey.as_ref().and_then(|survey| survey.resource(&name)).map(Popup::of_resource),
            Panel::Limits => self.limit(&name).map(Popup::of_limit),
            Panel::Classes => self.status().and_then(|status| Popup::of_class(status, &name)),
        };
        self.popup = popup;
        Intent::Nothing
    }

    fn limit(&self, name: &str) -> Option<&LimitStatus> {
        self.status()?.limits.iter().find(|limit| &*limit.name == name)
    }

    /// Asks for confirmation before the pause of the chosen limit begins or ends. A pause may have
    /// a reason.
    fn ask_to_order(&mut self) {
        let sheet = self.sheet(Panel::Limits);
        let chosen = self.chosen(Panel::Limits, &sheet).and_then(|row| self.limit(&sheet.rows[row].name));
        let asked = self.resource().cloned().zip(chosen);
        let question = asked.map(|(resource, limit)| Popup::order(resource, limit));
        match (self.focus(), question) {
            (Panel::Limits, Some(question)) => self.popup = Some(question),
            (..) => self.show_message("choose a limit first, to pause it or to end its pause: Tab".to_owned()),
        }
    }
}

/// How many lines a key moves the choice, if it moves the choice.
fn lines_of(key: KeyCode) -> Option<isize> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other keys go nowhere")]
    match key {
        KeyCode::Up | KeyCode::Char('k') => Some(-1),
        KeyCode::Down | KeyCode::Char('j') => Some(1),
        KeyCode::PageUp => Some(-PAGE),
        KeyCode::PageDown => Some(PAGE),
        KeyCode::Home => Some(isize::MIN),
        KeyCode::End => Some(isize::MAX),
        _ => None,
    }
}
