//! The stored use of a resource on one day.

use rampmeter_protocol::name::Name;
use rampmeter_scheduler_core::views::{ClientUse, OTHERS, Use};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Bound on the clients of a day with rows of their own. Later clients share a row.
pub const MAX_CLIENTS: usize = 256;
/// Bound on the bytes of a day's rows as JSON: half of the largest message of a NATS server.
const MAX_BYTES: usize = 500_000;
/// Bytes of a row as JSON, without its client and its units.
const BYTES_OF_ROW: usize = 120;
/// Bytes of each unit of a row as JSON.
const BYTES_OF_UNIT: usize = 90;
/// Bound on the limits of a day whose hours are kept.
const MAX_LIMITS: usize = 64;
/// Bound on the remembered writers: as many as take turns within the timeout of a write.
const MAX_WRITERS: usize = 16;
/// Hours of a day.
pub const HOURS: usize = 24;

/// The use of one day, in UTC.
///
/// Writers only add to it, under numbers of their own, so that no addition of unknown outcome is made twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDayUsage {
    rows: Vec<StoredClientUsage>,
    /// The use of each hour by limit, in millionths.
    hours: BTreeMap<Name, [i64; HOURS]>,
    /// The last addition of each writer, the latest last.
    writers: Vec<(u64, u64)>,
}

/// The use of one client in one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClientUsage {
    /// The client.
    pub client: String,
    /// The class.
    pub class: Name,
    /// Calls that were granted and not given back.
    pub calls: i64,
    /// Their cost by unit, in millionths.
    pub micros: BTreeMap<Name, i64>,
}

impl StoredDayUsage {
    /// Returns the use of each client, ordered by client and class.
    #[must_use]
    pub fn rows(&self) -> &[StoredClientUsage] {
        &self.rows
    }

    /// Returns the use of a limit in each hour, in millionths.
    #[must_use]
    pub fn hours(&self, limit: &Name) -> Option<&[i64; HOURS]> {
        self.hours.get(limit)
    }

    /// Returns the limits whose hours are known.
    pub fn limits(&self) -> impl Iterator<Item = &Name> {
        self.hours.keys()
    }

    /// Adds the use in an hour of the day.
    pub fn count(&mut self, hour: usize, used: &Use) {
        let ClientSpace { mut clients, mut bytes } = self.space();
        for ClientUse { client, class, calls, micros } in &used.clients {
            let micros = micros.iter().cloned().collect();
            let row = StoredClientUsage { client: client.to_string(), class: class.clone(), calls: *calls, micros };
            self.count_row(row, (&mut clients, &mut bytes));
        }
        for (limit, micros) in &used.limits {
            self.count_hour(limit, hour, *micros);
        }
    }

    /// Adds another part of the same day.
    pub fn add(&mut self, other: &StoredDayUsage) {
        let ClientSpace { mut clients, mut bytes } = self.space();
        other.rows.iter().for_each(|row| self.count_row(row.clone(), (&mut clients, &mut bytes)));
        for (limit, hours) in &other.hours {
            hours.iter().enumerate().for_each(|(hour, micros)| self.count_hour(limit, hour, *micros));
        }
    }

    /// Records the addition with this number. Returns `false` if it was already made.
    pub fn note_addition(&mut self, writer: u64, number: u64) -> bool {
        let place = self.writers.iter().position(|(known, _)| *known == writer);
        if place.is_some_and(|place| self.writers[place].1 >= number) {
            return false;
        }
        place.map(|place| self.writers.remove(place));
        self.writers.push((writer, number));
        let left_out = self.writers.len().saturating_sub(MAX_WRITERS);
        self.writers.drain(..left_out);
        true
    }

    fn count_hour(&mut self, limit: &Name, hour: usize, micros: i64) {
        if self.hours.len() < MAX_LIMITS || self.hours.contains_key(limit) {
            let sum = &mut self.hours.entry(limit.clone()).or_insert([0; HOURS])[hour % HOURS];
            *sum = sum.saturating_add(micros);
        }
    }

    /// Adds to the row of this client and class, or if there is no room, to the row that further clients share.
    fn count_row(&mut self, mut row: StoredClientUsage, (clients, bytes): (&mut BTreeSet<String>, &mut usize)) {
        let place = |rows: &[StoredClientUsage], row: &StoredClientUsage| {
            rows.binary_search_by(|known| (&*known.client, &*known.class).cmp(&(&*row.client, &*row.class)))
        };
        let size = size_of(&row);
        let is_known = place(&self.rows, &row).is_ok();
        let has_room = *bytes + size <= MAX_BYTES && (clients.len() < MAX_CLIENTS || clients.contains(&row.client));
        if !is_known && !has_room {
            OTHERS.clone_into(&mut row.client);
        }
        match place(&self.rows, &row) {
            Ok(place) => self.rows[place].add(&row),
            Err(place) => {
                clients.insert(row.client.clone());
                *bytes += size;
                self.rows.insert(place, row);
            }
        }
    }

    fn space(&self) -> ClientSpace {
        ClientSpace {
            clients: self.rows.iter().map(|row| row.client.clone()).filter(|client| client != OTHERS).collect(),
            bytes: self.rows.iter().map(size_of).sum(),
        }
    }
}

/// The clients of a day, and the bytes of their rows.
struct ClientSpace {
    clients: BTreeSet<String>,
    bytes: usize,
}

impl StoredClientUsage {
    fn add(&mut self, other: &StoredClientUsage) {
        self.calls = self.calls.saturating_add(other.calls);
        for (unit, micros) in &other.micros {
            let sum = self.micros.entry(unit.clone()).or_default();
            *sum = sum.saturating_add(*micros);
        }
    }
}

/// Returns a bound on the bytes of a row as JSON.
fn size_of(row: &StoredClientUsage) -> usize {
    let client: usize =
        row.client.bytes().map(|byte| if byte < b' ' || byte == b'"' || byte == b'\\' { 6 } else { 1 }).sum();
    client + BYTES_OF_ROW + row.micros.len() * BYTES_OF_UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    fn used(client: &str, units: i64) -> Use {
        let micros = vec![(name("units"), units)];
        let row = ClientUse { client: Arc::from(client), class: name("bulk"), calls: 1, micros };
        Use { clients: vec![row], limits: vec![(name("per-day"), units)] }
    }

    #[test]
    fn the_format_stays_as_it_is() {
        let mut day = StoredDayUsage::default();
        day.count(1, &used("team-a", 5_000_000));
        assert!(day.note_addition(7, 1));
        let golden = r#"{"rows":[{"client":"team-a","class":"bulk","calls":1,"micros":{"units":5000000}}],"hours":{"per-day":[0,5000000,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]},"writers":[[7,1]]}"#;
        assert_eq!(serde_json::to_string(&day).unwrap(), golden);
        assert_eq!(serde_json::from_str::<StoredDayUsage>(golden).unwrap(), day);
    }

    #[test]
    fn parts_add_up_and_an_addition_counts_once() {
        let (mut day, mut part) = (StoredDayUsage::default(), StoredDayUsage::default());
        part.count(3, &used("a", 4));
        part.count(3, &used("b", -1));
        for _ in 0..3 {
            if day.note_addition(1, 1) {
                day.add(&part);
            }
        }
        assert!(day.note_addition(1, 2) && day.note_addition(2, 1) && !day.note_addition(1, 2));
        day.add(&part);
        let sums: Vec<(&str, i64, i64)> =
            day.rows().iter().map(|row| (&*row.client, row.calls, row.micros[&*name("units")])).collect();
        assert_eq!(sums, [("a", 2, 8), ("b", 2, -2)]);
        assert_eq!(day.hours(&name("per-day")).map(|hours| hours[3]), Some(6));
    }

    /// Reaches `MAX_LIMITS`.
    #[test]
    fn beyond_the_bounds_hours_of_limits_are_not_kept() {
        let mut day = StoredDayUsage::default();
        for _ in 0..2 {
            for number in 0..100 {
                let limits = vec![(name(&format!("limit-{number:02}")), 1)];
                day.count(0, &Use { clients: Vec::new(), limits });
            }
        }
        let expected: Vec<Name> = (0..64).map(|number| name(&format!("limit-{number:02}"))).collect();
        assert!(day.limits().eq(&expected), "{day:?}");
        assert_eq!(day.hours(&expected[63]).map(|hours| hours[0]), Some(2));
    }

    /// Reaches `MAX_WRITERS`.
    #[test]
    fn the_last_writers_are_remembered() {
        let mut day = StoredDayUsage::default();
        assert!((0..100).all(|writer| day.note_addition(writer, 1)));
        let known = (0..100).filter(|writer| !day.clone().note_addition(*writer, 1)).collect::<Vec<_>>();
        assert_eq!(known, (84..100).collect::<Vec<_>>());
    }

    #[test]
    fn beyond_the_bounds_clients_count_together() {
        let mut day = StoredDayUsage::default();
        for number in 0..1000 {
            day.count(0, &used(&format!("client-{number}"), 1));
        }
        let others = day.rows().iter().find(|row| row.client == OTHERS).unwrap();
        assert_eq!((day.rows().len(), others.calls), (MAX_CLIENTS + 1, 1000 - MAX_CLIENTS as i64));
        let mut hostile = StoredDayUsage::default();
        for number in 0..100_u8 {
            for class in 0..16 {
                let mut of = used(&format!("{number}{}", "\u{1}".repeat(250)), 1);
                of.clients[0].class = name(&format!("class-{class}"));
                hostile.count(0, &of);
            }
        }
        let size = serde_json::to_string(&hostile).unwrap().len();
        assert!((300_000..MAX_BYTES + 100_000).contains(&size), "{size}");
        assert_eq!(hostile.rows().iter().map(|row| row.calls).sum::<i64>(), 1600);
    }
}
