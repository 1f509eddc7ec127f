//! What one call takes from each bucket.

use super::limit_set::LimitSet;
use crate::ids::LimitId;
use rampmeter_protocol::amount::Amount;
use smallvec::SmallVec;
use std::sync::Arc;

/// Amounts in the order of limits, none of them zero: a call waits for no bucket that it takes nothing from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bill {
    shared: SmallVec<[(LimitId, Amount); 3]>,
    /// Those by key, in the order of limits; here an amount may be zero.
    keyed: Vec<KeyCharge>,
    /// The limits that the call is for, whatever it takes from them.
    reach: LimitSet,
    /// Of which kind the call is, where it is learned what each kind costs.
    pub(crate) kind: Option<Arc<str>>,
    /// What was estimated before anything that was learned, where that is not what is charged.
    pub(crate) estimated: Option<Box<Bill>>,
    /// What limits in shadow mode would charge, which are counted on their own.
    pub(crate) shadow: Option<Box<Bill>>,
}

/// The key of a limit.
pub(crate) type KeyName = (LimitId, Arc<str>);

/// What a call takes from the bucket of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyCharge {
    /// The limit.
    pub limit: LimitId,
    /// The key, within the limit.
    pub key: Arc<str>,
    /// How much.
    pub amount: Amount,
}

impl KeyCharge {
    /// Which bucket it is for.
    pub(crate) fn name(&self) -> KeyName {
        (self.limit, Arc::clone(&self.key))
    }
}

impl Bill {
    /// A bill for nothing.
    #[must_use]
    pub fn new() -> Self {
        Bill::default()
    }

    /// Charges `amount` to `limit`, in place of what was charged to it; where the limit has keys, to that of this bill.
    pub fn set(&mut self, limit: LimitId, amount: Amount) {
        self.reach = self.reach.with(limit);
        if let Some(charge) = self.keyed.iter_mut().find(|charge| charge.limit == limit) {
            charge.amount = amount;
            return;
        }
        match self.shared.binary_search_by_key(&limit, |(known, _)| *known) {
            Ok(place) if amount == Amount::ZERO => drop(self.shared.remove(place)),
            Ok(place) => self.shared[place].1 = amount,
            Err(_) if amount == Amount::ZERO => {}
            Err(place) => self.shared.insert(place, (limit, amount)),
        }
    }

    /// Charges `amount` to `limit`, in the bucket of `key` where there is one; of one limit only one key can be charged.
    pub(crate) fn charge(&mut self, limit: LimitId, key: Option<Arc<str>>, amount: Amount) {
        let Some(key) = key else { return self.set(limit, amount) };
        self.reach = self.reach.with(limit);
        self.keyed.retain(|charge| charge.limit != limit);
        self.keyed.push(KeyCharge { limit, key, amount });
        self.keyed.sort_by_key(|charge| charge.limit);
    }

    /// The same charges as `change` has them: the limit of each, and how much. Those for which it has none are left out.
    pub(crate) fn changed(&self, change: impl Fn(LimitId, Amount) -> Option<(LimitId, Amount)>) -> Bill {
        let mut bill = Bill::new();
        for limit in self.reach.limits() {
            if let Some((to, amount)) = change(limit, self.get(limit)) {
                bill.charge(to, self.key_of(limit).map(|charge| Arc::clone(&charge.key)), amount);
            }
        }
        bill
    }

    /// What was estimated.
    pub(crate) fn estimate(&self) -> &Bill {
        self.estimated.as_deref().unwrap_or(self)
    }

    /// The limits that the call is for.
    pub(crate) fn reached(&self) -> LimitSet {
        self.reach
    }

    /// What is charged to `limit`.
    #[must_use]
    pub fn get(&self, limit: LimitId) -> Amount {
        let shared = self.iter().find(|(known, _)| *known == limit).map(|(_, amount)| amount);
        shared.or_else(|| self.key_of(limit).map(|charge| charge.amount)).unwrap_or(Amount::ZERO)
    }

    /// The charge to a key of `limit`, which may be nothing.
    pub(crate) fn key_of(&self, limit: LimitId) -> Option<&KeyCharge> {
        self.keyed.iter().find(|charge| charge.limit == limit)
    }

    /// The keys that the call is for, whatever it takes from them.
    pub(crate) fn all_keyed(&self) -> impl Iterator<Item = &KeyCharge> {
        self.keyed.iter()
    }

    /// Whether no limit is for the call.
    pub(crate) fn reaches_nothing(&self) -> bool {
        self.reach == LimitSet::default()
    }

    /// What is charged to this limit alone.
    pub(crate) fn of_limit(&self, limit: LimitId) -> Bill {
        self.changed(|id, amount| (id == limit).then_some((id, amount)))
    }

    /// What is charged to keys.
    pub(crate) fn by_key(&self) -> Bill {
        self.changed(|limit, amount| self.key_of(limit).map(|_| (limit, amount)))
    }

    /// What this charges on top of `other`.
    #[must_use]
    pub fn beyond(&self, other: &Bill) -> Bill {
        self.changed(|limit, amount| Some((limit, amount.saturating_sub(other.get(limit)))))
    }

    /// How many buckets are charged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.charged().count()
    }

    /// Whether the call costs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.charged().next().is_none()
    }

    /// The limits without keys that are charged, and how much.
    pub fn iter(&self) -> impl Iterator<Item = (LimitId, Amount)> + Clone {
        self.shared.iter().copied()
    }

    /// The keys that are charged.
    pub fn keyed(&self) -> impl Iterator<Item = &KeyCharge> + Clone {
        self.keyed.iter().filter(|charge| charge.amount > Amount::ZERO)
    }

    /// All limits that are charged.
    pub(crate) fn charged(&self) -> impl Iterator<Item = LimitId> + Clone {
        self.amounts().map(|(limit, _)| limit)
    }

    /// What is charged to all limits.
    pub fn amounts(&self) -> impl Iterator<Item = (LimitId, Amount)> + Clone {
        self.iter().chain(self.keyed().map(|charge| (charge.limit, charge.amount)))
    }
}
