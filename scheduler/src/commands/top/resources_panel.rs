//! The resources: what waits for each, how fast it grants, and what holds it.

use super::sheet::{Sheet, SheetCell, SheetColumn, SheetRow, Tone};
use super::survey::{Survey, SurveyedResource};
use crate::commands::output::human::{amount, count};
use crate::commands::output::reasons::word;
use crate::commands::top::pace::Paces;
use rampmeter_protocol::status::Status;

const COLUMNS: [SheetColumn; 8] = [
    SheetColumn::text("resource", 12),
    SheetColumn::number("waiting"),
    SheetColumn::number("granted/s"),
    SheetColumn::number("refused/s"),
    SheetColumn::number("429"),
    SheetColumn::text("delayed by", 16),
    SheetColumn::number("epoch").shown_from(100),
    SheetColumn::text("led by", 12).shown_from(100),
];

/// A row for each resource.
pub(super) fn sheet(survey: &Survey, paces: &Paces) -> Sheet {
    Sheet { columns: COLUMNS.to_vec(), rows: survey.resources.iter().map(|resource| row(resource, paces)).collect() }
}

fn row(resource: &SurveyedResource, paces: &Paces) -> SheetRow {
    let name = resource.name.to_string();
    let cells = match &resource.status {
        Ok(status) => cells(status, paces),
        Err(fault) => {
            let unknown = || SheetCell::number(0.0, "–").toned(Tone::Quiet);
            let fault = SheetCell::text(fault).toned(Tone::Bad);
            vec![SheetCell::text(&name), unknown(), unknown(), unknown(), unknown(), fault, unknown(), unknown()]
        }
    };
    SheetRow { name, cells }
}

fn cells(status: &Status, paces: &Paces) -> Vec<SheetCell> {
    let pace = paces.of(&status.resource);
    let per_second =
        |pace: Option<f64>| pace.map_or(SheetCell::number(-1.0, "–"), |pace| SheetCell::number(pace, amount(pace)));
    let refused = pace.map(|pace| pace.refused);
    let upstream = status.counters.upstream_429;
    vec![
        SheetCell::text(&*status.resource),
        waiting(status),
        per_second(pace.map(|pace| pace.granted)),
        per_second(refused).toned(if refused > Some(0.0) { Tone::Warning } else { Tone::Plain }),
        SheetCell::number(upstream as f64, count(upstream)).toned(if upstream > 0 {
            Tone::Warning
        } else {
            Tone::Plain
        }),
        SheetCell::text(delayed_by(status)),
        SheetCell::number(status.epoch.get() as f64, status.epoch.to_string()),
        SheetCell::text(&status.leader),
    ]
}

/// How many requests wait for a resource.
pub(super) fn waiting_for(status: &Status) -> u64 {
    status.classes.iter().map(|class| class.queued).sum()
}

fn waiting(status: &Status) -> SheetCell {
    let waiting = waiting_for(status);
    SheetCell::number(waiting as f64, count(waiting))
}

/// The limit that delays the next request, and how.
fn delayed_by(status: &Status) -> String {
    let limit = status.limited_by.as_ref().map(ToString::to_string);
    let reason = status.reason.map(|reason| word(reason).to_owned());
    let both: Vec<String> = limit.into_iter().chain(reason).collect();
    if both.is_empty() { "–".to_owned() } else { both.join(": ") }
}
