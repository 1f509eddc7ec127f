//! The loop of the dashboard: it surveys schedulers again and again, and handles keys meanwhile.

use super::dashboard::{Dashboard, Intent};
use super::palette::Palette;
use super::picture::Picture;
use super::popup::Popup;
use super::screen::Screen;
use super::survey::{Survey, Surveyor};
use crate::commands::process::signal::asked_to_stop;
use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use rampmeter_protocol::explain::Explanation;
use rampmeter_protocol::name::Name;
use std::pin::pin;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};

/// Looks after which the names of the resources are asked for again.
const LOOKS_WITH_NAMES: u32 = 5;

/// The answer to a question or an order.
enum Reply {
    Surveyed(Vec<Name>, Survey),
    Explained(Box<anyhow::Result<Explanation>>),
    Thawed(Name, anyhow::Result<Vec<Name>>),
    Frozen(Name, anyhow::Result<()>),
    /// The connection to NATS did not take the question.
    Unreachable(anyhow::Error),
}

/// The running dashboard.
pub(super) struct Watch {
    surveyor: Surveyor,
    dashboard: Dashboard,
    palette: Palette,
    looks: Interval,
    /// The resources that were found, and how many looks ago.
    names: Vec<Name>,
    looks_ago: u32,
    is_looking: bool,
    asked: JoinSet<Reply>,
}

impl Watch {
    pub(super) fn new(surveyor: Surveyor, dashboard: Dashboard, every: Duration) -> Self {
        let mut looks = tokio::time::interval(every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (names, asked) = (Vec::new(), JoinSet::new());
        let palette = Palette::of_environment();
        Watch { surveyor, dashboard, palette, looks, names, looks_ago: 0, is_looking: false, asked }
    }

    /// Runs until a person or a signal ends it.
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        let mut screen = Screen::open()?;
        let mut events = EventStream::new();
        let mut stop = pin!(asked_to_stop());
        loop {
            let picture = Picture::live(&self.dashboard, self.palette);
            screen.paint(|frame| picture.paint(frame.area(), frame.buffer_mut()))?;
            let intent = tokio::select! {
                _ = self.looks.tick(), if !self.is_looking && !self.dashboard.is_paused() => Intent::Look,
                Some(reply) = self.asked.join_next() => self.take_reply(reply),
                event = events.next() => match event {
                    Some(Ok(event)) => self.press(event),
                    // The terminal is gone.
                    Some(Err(_)) | None => Intent::Quit,
                },
                _ = &mut stop => Intent::Quit,
            };
            if intent == Intent::Quit {
                return Ok(());
            }
            self.act(intent);
        }
    }

    fn press(&mut self, event: Event) -> Intent {
        match event.as_key_press_event() {
            Some(key) => self.dashboard.press(key),
            None => Intent::Nothing,
        }
    }

    fn act(&mut self, intent: Intent) {
        let surveyor = self.surveyor.clone();
        match intent {
            Intent::Nothing | Intent::Quit => {}
            Intent::Look => self.look(),
            Intent::Explain(resource, id) => {
                self.asked.spawn(async move { Reply::Explained(Box::new(surveyor.explain(&resource, id).await)) });
            }
            Intent::Thaw(resource, limit) => {
                let thawing = async move { Reply::Thawed(limit.clone(), surveyor.thaw(&resource, limit).await) };
                self.asked.spawn(thawing);
            }
            Intent::Freeze(resource, limit) => {
                let freezing = async move { Reply::Frozen(limit.clone(), surveyor.freeze(&resource, limit).await) };
                self.asked.spawn(freezing);
            }
        }
    }

    /// Asks all leaders. Every few looks, it first asks which resources there are.
    fn look(&mut self) {
        let (surveyor, wanted) = (self.surveyor.clone(), self.dashboard.wanted());
        let known = if self.looks_ago < LOOKS_WITH_NAMES { self.names.clone() } else { Vec::new() };
        self.is_looking = true;
        self.asked.spawn(async move {
            let names = if known.is_empty() { surveyor.names().await } else { Ok(known) };
            match names {
                Ok(names) => Reply::Surveyed(names.clone(), surveyor.look(&names, wanted).await),
                Err(error) => Reply::Unreachable(error),
            }
        });
    }

    fn take_reply(&mut self, reply: Result<Reply, JoinError>) -> Intent {
        match reply {
            Ok(Reply::Surveyed(names, survey)) => {
                self.is_looking = false;
                return self.take(names, survey);
            }
            Ok(Reply::Unreachable(error)) => {
                self.is_looking = false;
                self.dashboard.show_message(error.to_string());
            }
            Ok(Reply::Explained(explained)) => match *explained {
                Ok(explanation) => {
                    Popup::of_request(&explanation).into_iter().for_each(|popup| self.dashboard.open(popup));
                }
                Err(error) => self.dashboard.show_message(error.to_string()),
            },
            Ok(Reply::Thawed(limit, done)) => {
                self.dashboard.show_message(thawed(&limit, done));
                return Intent::Look;
            }
            Ok(Reply::Frozen(limit, done)) => {
                let message =
                    done.map_or_else(|error| error.to_string(), |()| format!("`{limit}` is frozen for a minute"));
                self.dashboard.show_message(message);
                return Intent::Look;
            }
            Err(ended) => {
                if let Ok(panic) = ended.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
        Intent::Nothing
    }

    /// Shows a survey. The first survey lacks the waiting requests, because no resource was known.
    /// Another survey follows at once.
    fn take(&mut self, names: Vec<Name>, survey: Survey) -> Intent {
        self.looks_ago =
            if self.looks_ago < LOOKS_WITH_NAMES && !self.names.is_empty() { self.looks_ago + 1 } else { 0 };
        self.names = names;
        let knew_none = self.dashboard.wanted().is_none();
        self.dashboard.take(survey);
        if knew_none && self.dashboard.wanted().is_some() { Intent::Look } else { Intent::Nothing }
    }
}

fn thawed(limit: &Name, done: anyhow::Result<Vec<Name>>) -> String {
    match done {
        Ok(limits) if limits.is_empty() => format!("`{limit}` is not paused"),
        Ok(_) => format!("`{limit}` is thawed: calls go on"),
        Err(error) => error.to_string(),
    }
}
