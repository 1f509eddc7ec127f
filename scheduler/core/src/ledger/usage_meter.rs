//! Counts the use by clients since the driver last took the counts.
//!
//! A call counts when it is granted, at its estimate. Its settle corrects the count, and a returned
//! permit no longer counts. Waits and shares are in `queue/recent_service.rs`.

use hashbrown::HashMap;
use rampmeter_policy::ids::{ClassId, ClientNumber, LimitId};
use rampmeter_policy::{Bill, Limit, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most clients that are counted apart, as each has bills of its own.
const MAX_NAMES: usize = 4096;
/// The most sums by client and class: a few classes for each client.
const MAX_ROWS: usize = 2 * MAX_NAMES;
/// A client without a request for this long makes room for another one.
const IDLE: Span = Span::from_secs(86_400);
/// How many clients a request of a new client examines to find an idle one.
const LOOKED_AT: usize = 64;

/// The name that stands for all clients beyond the bound.
pub const OTHERS: &str = "(others)";

/// Millionths of units, each at the index of its unit.
type Amounts = SmallVec<[i64; 2]>;

#[derive(Clone, Debug, Default)]
struct UseSums {
    calls: i64,
    micros: Amounts,
}

/// Counts what calls use, by client, class and unit, and by limit. No call is left out: beyond
/// [`MAX_NAMES`] and [`MAX_ROWS`], [`OTHERS`] counts. Sums saturate.
#[derive(Clone, Debug)]
pub(crate) struct UsageMeter {
    pub(crate) names: ClientNames,
    units: Vec<Name>,
    /// The index of each limit's unit, and the limit's use in millionths.
    limits: Vec<(usize, i64)>,
    rows: BTreeMap<(ClientNumber, ClassId), UseSums>,
    former: Use,
}

/// The use since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// By client and class.
    pub clients: Vec<ClientUse>,
    /// By limit, in millionths of its unit; only for limits with long periods and without keys.
    pub limits: Vec<(Name, i64)>,
}

/// The use by one client in one class. A correction of an earlier estimate may make it negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientUse {
    /// The client; empty for calls without one.
    pub client: Arc<str>,
    /// The class.
    pub class: Name,
    /// The number of calls.
    pub calls: i64,
    /// Their cost, in millionths by unit.
    pub micros: Vec<(Name, i64)>,
}

impl Use {
    /// Returns whether nothing was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.limits.is_empty()
    }

    /// Adds what was used later.
    pub fn add(&mut self, later: Use) {
        self.clients.extend(later.clients);
        self.limits.extend(later.limits);
    }
}

impl UsageMeter {
    pub(crate) fn new(resource: &Resource) -> Self {
        let (units, limits) = counted_units(resource);
        let (names, rows, former) = (ClientNames::default(), BTreeMap::new(), Use::default());
        UsageMeter { names, units, limits, rows, former }
    }

    pub(crate) fn count(&mut self, class: ClassId, bill: &Bill) {
        self.add(class, bill.client, 1, bill, 1);
    }

    pub(crate) fn take_out(&mut self, class: ClassId, bill: &Bill) {
        self.add(class, bill.client, -1, bill, -1);
    }

    pub(crate) fn correct(&mut self, class: ClassId, bill: &Bill, actual: &Bill) {
        if bill.amounts().ne(actual.amounts()) {
            self.add(class, bill.client, 0, bill, -1);
            self.add(class, bill.client, 0, actual, 1);
        }
    }

    /// Counts for the limits of `resource` from now on, instead of those of `former`.
    pub(crate) fn change_limits(&mut self, former: &Resource, resource: &Resource) {
        self.former = self.take(former);
        (self.units, self.limits) = counted_units(resource);
    }

    pub(crate) fn take(&mut self, resource: &Resource) -> Use {
        let mut taken = std::mem::take(&mut self.former);
        let sums = resource.limits().iter().zip(&mut self.limits);
        let used = sums.filter(|(limit, (_, micros))| limit.has_forecast() && *micros != 0);
        taken.limits.extend(used.map(|(limit, (_, micros))| (limit.spec().name.clone(), std::mem::take(micros))));
        for ((client, class), sums) in std::mem::take(&mut self.rows).into_iter().filter(|(_, sums)| !sums.is_zero()) {
            let (client, class) = (Arc::clone(self.names.name(client)), resource.classes()[class.index()].name.clone());
            let micros = by_unit(&self.units, &sums.micros);
            taken.clients.push(ClientUse { client, class, calls: sums.calls, micros });
        }
        taken
    }

    /// Counts `calls`, and adds the amounts of `bill` or, if `sign` is -1, takes them away.
    fn add(&mut self, class: ClassId, client: ClientNumber, calls: i64, bill: &Bill, sign: i64) {
        let amounts = self.amounts(bill);
        self.row(class, client).add(calls, &amounts, sign);
        for (limit, amount) in bill.amounts() {
            if let Some((_, sum)) = self.limits.get_mut(limit.index()) {
                *sum = sum.saturating_add(sign * micros(amount));
            }
        }
    }

    fn row(&mut self, class: ClassId, client: ClientNumber) -> &mut UseSums {
        let has_room = self.rows.len() < MAX_ROWS || self.rows.contains_key(&(client, class));
        assert!(has_room || self.rows.len() >= MAX_ROWS, "clients count together beyond the bound alone");
        self.rows.entry((if has_room { client } else { ClientNumber::default() }, class)).or_default()
    }

    /// Returns the cost by unit: the highest charge, as limits of one unit charge a call alike.
    fn amounts(&self, bill: &Bill) -> Amounts {
        let mut amounts: Amounts = smallvec![0; self.units.len()];
        for (LimitId(limit), amount) in bill.amounts() {
            if let Some(sum) = self.limits.get(usize::from(limit)).and_then(|(unit, _)| amounts.get_mut(*unit)) {
                *sum = micros(amount).max(*sum);
            }
        }
        amounts
    }
}

impl UseSums {
    fn is_zero(&self) -> bool {
        self.calls == 0 && self.micros.iter().all(|micros| *micros == 0)
    }

    fn add(&mut self, calls: i64, amounts: &Amounts, sign: i64) {
        self.calls += calls;
        self.micros.resize(amounts.len(), 0);
        self.micros.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum = sum.saturating_add(sign * amount));
    }
}

/// The names of clients by number. The first one is [`OTHERS`].
#[derive(Clone, Debug)]
pub(crate) struct ClientNames {
    /// Each name with the time of the client's last request.
    names: Vec<(Arc<str>, Time)>,
    numbers: HashMap<Arc<str>, ClientNumber>,
    /// The index that was last examined for an idle client.
    looked_at: usize,
    /// The client that asked last, which often asks next.
    last: ClientNumber,
}

impl Default for ClientNames {
    fn default() -> Self {
        let (names, numbers) = (vec![(Arc::from(OTHERS), Time::NEVER)], HashMap::default());
        ClientNames { names, numbers, looked_at: 0, last: ClientNumber::default() }
    }
}

impl ClientNames {
    pub(crate) fn name(&self, client: ClientNumber) -> &Arc<str> {
        &self.names[usize::from(client.0)].0
    }

    pub(crate) fn number(&mut self, now: Time, client: &str) -> ClientNumber {
        let is_last = self.last != ClientNumber::default() && **self.name(self.last) == *client;
        let known = if is_last { Some(self.last) } else { self.numbers.get(client).copied() };
        if let Some(number) = known {
            self.names[usize::from(number.0)].1 = now;
            self.last = number;
            return number;
        }
        let Some(index) = self.next_index(now) else { return ClientNumber::default() };
        assert!(index > 0, "no client has the number of all others");
        let (name, number): (Arc<str>, _) = (Arc::from(client), ClientNumber(index as u16));
        match self.names.get_mut(index) {
            Some(idle) => drop(self.numbers.remove(&std::mem::replace(idle, (Arc::clone(&name), now)).0)),
            None => self.names.push((Arc::clone(&name), now)),
        }
        self.numbers.insert(name, number);
        number
    }

    fn next_index(&mut self, now: Time) -> Option<usize> {
        if self.names.len() < MAX_NAMES {
            return Some(self.names.len());
        }
        (0..LOOKED_AT).find_map(|_| {
            self.looked_at = 1 + self.looked_at % (MAX_NAMES - 1);
            (self.names[self.looked_at].1 + IDLE < now).then_some(self.looked_at)
        })
    }
}

/// Returns the distinct units, and the index of each limit's unit with an empty sum.
fn counted_units(resource: &Resource) -> (Vec<Name>, Vec<(usize, i64)>) {
    let units = resource.units();
    let sum = |limit: &Limit| (units.binary_search(&limit.spec().unit).unwrap_or(units.len()), 0);
    let limits = resource.limits().iter().map(sum).collect();
    (units, limits)
}

fn by_unit(units: &[Name], micros: &Amounts) -> Vec<(Name, i64)> {
    let used = units.iter().zip(micros).filter(|(_, micros)| **micros != 0);
    used.map(|(unit, micros)| (unit.clone(), *micros)).collect()
}

fn micros(amount: Amount) -> i64 {
    i64::try_from(amount.micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::spec::{ClassSpec, LimitSpec, ResourceSpec};

    #[test]
    fn beyond_the_bound_calls_of_further_clients_and_classes_count_together() {
        let name = |name: &str| Name::new(name).unwrap();
        let limit = LimitSpec::new(name("requests"), name("requests"), Amount::ONE, Span::from_secs(1));
        let classes = ["a", "b", "c"].map(|class| ClassSpec::new(name(class))).to_vec();
        let resource = Resource::new(&ResourceSpec { classes, ..ResourceSpec::new(name("api"), vec![limit]) }).unwrap();
        let mut meter = UsageMeter::new(&resource);
        for (class, client) in (0..3).flat_map(|class| (1..MAX_NAMES).map(move |client| (class, client))) {
            let mut bill = Bill::default();
            bill.client = meter.names.number(Time::ORIGIN, &format!("client-{client}"));
            meter.count(ClassId(class), &bill);
        }
        let used = meter.take(&resource).clients;
        assert!((MAX_ROWS..MAX_ROWS + 3).contains(&used.len()), "{} rows", used.len());
        assert_eq!(used.iter().map(|sums| sums.calls).sum::<i64>(), 3 * (MAX_NAMES as i64 - 1), "no call is lost");
    }

    #[test]
    fn beyond_the_bound_clients_count_together_until_others_are_idle() {
        let (mut names, now) = (ClientNames::default(), Time::ORIGIN);
        for number in 1..MAX_NAMES {
            assert_eq!(names.number(now, &format!("client-{number}")), ClientNumber(number as u16));
        }
        assert_eq!(names.number(now, "one-more"), ClientNumber(0));
        let later = now + IDLE + Span::from_secs(1);
        assert_eq!(names.number(later, "client-7"), ClientNumber(7));
        let number = names.number(later, "one-more");
        assert_eq!(&**names.name(number), "one-more");
        assert_ne!(number, ClientNumber(7), "a client that asks stays");
        assert_eq!((names.names.len(), &**names.name(ClientNumber(0))), (MAX_NAMES, OTHERS));
    }
}
