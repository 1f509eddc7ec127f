//! The requests that wait for a resource, and why each does.

use super::sheet::{Sheet, SheetCell, SheetColumn, SheetRow};
use super::survey::WaitingList;
use crate::commands::explain::holder;
use crate::commands::output::human::{count, duration, escaped, in_duration};
use rampmeter_protocol::explain::Explained;

const NUMBER: SheetColumn = SheetColumn::number("#");
const REQUEST: SheetColumn = SheetColumn::text("request", 12);
const CLASS: SheetColumn = SheetColumn::text("class", 6);
const CLIENT: SheetColumn = SheetColumn::text("client", 6);
const WAITS_FOR: SheetColumn = SheetColumn::text("waits for", 20);
const WAITED: SheetColumn = SheetColumn::number("waited");
const STARTS: SheetColumn = SheetColumn::number("starts");

/// A row for each request that was read. A resource whose clients have no names has no column for
/// them.
pub(super) fn sheet(list: &WaitingList) -> Sheet {
    let has_clients = list.listed.iter().any(|request| request.client.is_some());
    let columns = [NUMBER, REQUEST, CLASS, CLIENT, WAITS_FOR, WAITED, STARTS];
    let columns = columns.into_iter().filter(|column| has_clients || *column != CLIENT);
    Sheet { columns: columns.collect(), rows: list.listed.iter().map(|request| row(request, has_clients)).collect() }
}

fn row(request: &Explained, has_clients: bool) -> SheetRow {
    let client = has_clients.then(|| SheetCell::text(request.client.as_deref().map_or(String::new(), escaped)));
    let before = [
        SheetCell::number(request.position as f64, count(request.position + 1)),
        SheetCell::text(request.id.to_string()),
        SheetCell::text(&*request.class),
    ];
    let behind = [
        SheetCell::text(holder(request)),
        SheetCell::number(request.waited_ms, duration(request.waited_ms)),
        SheetCell::number(request.eta_ms, in_duration(request.eta_ms)),
    ];
    SheetRow { name: request.id.to_string(), cells: before.into_iter().chain(client).chain(behind).collect() }
}

/// What is above the rows: how many wait, and which of them are shown.
pub(super) fn title(list: Option<&WaitingList>, shown: usize, is_behind: bool) -> String {
    let Some(list) = list else { return "asking which requests wait".to_owned() };
    let wait = match list.waiting {
        0 => return format!("no request waits for {}", list.resource),
        1 => format!("1 request waits for {}", list.resource),
        waiting => format!("{} requests wait for {}", count(waiting), list.resource),
    };
    let read = list.listed.len();
    let part = match (read as u64 == list.waiting, is_behind) {
        (true, _) => String::new(),
        (false, false) => format!(", the first {read}"),
        (false, true) => format!(", {read} of them, {} behind these", count(list.more)),
    };
    let filtered = if shown == read { String::new() } else { format!(", {shown} of these shown") };
    format!("{wait}{part}{filtered}")
}
