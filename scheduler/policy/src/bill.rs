//! The amounts that one call takes from each bucket.

use crate::ids::{AccountId, ClientNumber, LimitId};
use crate::spec::MAX_LIMITS;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::time::Span;
use smallvec::SmallVec;
use std::sync::Arc;

/// A bucket: its limit, and its key if the limit has a bucket for each key.
pub type BucketName = (LimitId, Option<Arc<str>>);

/// Amounts by limit, in the order of limits. An unkeyed limit without a charge is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bill {
    shared: SmallVec<[(LimitId, Amount); 3]>,
    /// Charges to keys, in the order of limits. An amount may be zero here.
    keyed: Vec<KeyCharge>,
    /// All limits that apply to the call, even those that charge it nothing.
    applicable: LimitSet,
    /// The client for which the call counts.
    pub client: ClientNumber,
    /// The kind of call, if the resource learns costs by kind.
    pub kind: Option<Arc<str>>,
    /// The labels by which discovered limits may apply, if the resource discovers limits.
    pub traits: Option<Arc<CallTraits>>,
    /// The estimate before learned corrections, if these changed the charge.
    pub estimated: Option<Box<Bill>>,
    /// The charges of shadow limits, which have buckets of their own.
    pub shadow: Option<Box<Bill>>,
    /// The account that makes the call, if the resource has accounts.
    pub account: Option<AccountId>,
    /// The way to make the call: 0 as the request describes it, otherwise an entry of `any_of`.
    pub way: u8,
    /// The bills of which one is chosen with the start. This bill is then only the likely charge of each bucket.
    pub alternatives: Option<Arc<[Alternative]>>,
}

/// One of several ways to make a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Alternative {
    /// What the call takes this way.
    pub bill: Arc<Bill>,
    /// How long a request waits for a start this way before it takes the earliest of all.
    pub wait: Span,
    /// The part of such calls that are likely to be made this way, in millionths.
    pub ppm: u32,
}

/// The labels of a call by which discovered limits may apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallTraits {
    /// Its route.
    pub route: Option<String>,
    /// The names of its labels that may key buckets.
    pub keys: Vec<String>,
}

/// A key and its limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName {
    /// The limit that the key belongs to.
    pub limit: LimitId,
    /// The key, within the limit.
    pub key: Arc<str>,
}

/// The amount that a call takes from the bucket of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyCharge {
    /// The limit that the key belongs to.
    pub limit: LimitId,
    /// The key, within the limit.
    pub key: Arc<str>,
    /// The amount.
    pub amount: Amount,
}

impl KeyCharge {
    /// Returns the key and its limit.
    #[must_use]
    pub fn name(&self) -> KeyName {
        KeyName { limit: self.limit, key: Arc::clone(&self.key) }
    }
}

impl Bill {
    /// Sets the charge to `limit`. For a limit with keys, the key of this bill stays.
    pub fn set(&mut self, limit: LimitId, amount: Amount) {
        self.applicable = self.applicable.with(limit);
        if let Some(charge) = self.keyed.iter_mut().find(|charge| charge.limit == limit) {
            charge.amount = amount;
            return;
        }
        match self.shared.binary_search_by_key(&limit, |(known, _)| *known) {
            Ok(index) if amount == Amount::ZERO => drop(self.shared.remove(index)),
            Ok(index) => self.shared[index].1 = amount,
            Err(_) if amount == Amount::ZERO => {}
            Err(index) => self.shared.insert(index, (limit, amount)),
        }
    }

    /// Sets the charge to `limit`. A `key` replaces the former key of this limit.
    pub fn charge(&mut self, limit: LimitId, key: Option<Arc<str>>, amount: Amount) {
        let Some(key) = key else { return self.set(limit, amount) };
        self.applicable = self.applicable.with(limit);
        self.keyed.retain(|charge| charge.limit != limit);
        self.keyed.push(KeyCharge { limit, key, amount });
        self.keyed.sort_by_key(|charge| charge.limit);
    }

    /// Creates the bill of alternatives that charge the same keys: what all of them take, and likely parts of the rest.
    pub(crate) fn with_alternatives(alternatives: Arc<[Alternative]>) -> Bill {
        let first = &alternatives[0].bill;
        let mut whole = Bill { account: None, way: 0, shared: SmallVec::new(), ..(**first).clone() };
        let all = alternatives.iter().fold(LimitSet::NONE, |all, other| LimitSet(all.0 | other.bill.applicable.0));
        for limit in all.limits().filter(|limit| first.key_charge(*limit).is_none()) {
            let amounts = alternatives.iter().map(|other| other.bill.get(limit));
            let likely = match amounts.clone().all(|amount| amount == first.get(limit)) {
                true => first.get(limit),
                false => amounts
                    .zip(&*alternatives)
                    .map(|(amount, other)| other.part_of(amount))
                    .fold(Amount::ZERO, Amount::saturating_add),
            };
            whole.set(limit, likely);
        }
        Bill { alternatives: Some(alternatives), ..whole }
    }

    /// Changes each alternative, or the bill itself if it has none.
    #[must_use]
    pub fn map_options(self, change: impl Fn(Bill) -> Bill) -> Bill {
        let Some(alternatives) = &self.alternatives else { return change(self) };
        let changed =
            alternatives.iter().map(|one| Alternative { bill: Arc::new(change((*one.bill).clone())), ..one.clone() });
        Bill::with_alternatives(changed.collect())
    }

    /// Iterates over the alternatives; a bill without any is its only one.
    pub fn options(&self) -> impl Iterator<Item = &Bill> + Clone {
        let alternatives = self.alternatives.as_deref().unwrap_or_default();
        let itself = alternatives.is_empty().then_some(self);
        alternatives.iter().map(|one| &*one.bill).chain(itself)
    }

    /// Returns the limits that each option charges.
    #[must_use]
    pub fn needs(&self) -> LimitSet {
        let needs = |bill: &Bill| bill.charged().fold(LimitSet::NONE, LimitSet::with);
        self.options().map(needs).reduce(LimitSet::and).unwrap_or_default()
    }

    /// Maps each charge by `change`; `None` drops the charge.
    pub(crate) fn map_charges(&self, change: impl Fn(LimitId, Amount) -> Option<(LimitId, Amount)>) -> Bill {
        let mut bill = Bill { account: self.account, way: self.way, ..Bill::default() };
        for limit in self.limits() {
            if let Some((to, amount)) = change(limit, self.get(limit)) {
                bill.charge(to, self.key_charge(limit).map(|charge| Arc::clone(&charge.key)), amount);
            }
        }
        bill
    }

    /// Makes this bill count for `client`.
    #[must_use]
    pub fn of_client(self, client: ClientNumber) -> Self {
        Bill { client, ..self }
    }

    /// Makes this the bill of a call that `account` makes.
    #[must_use]
    pub fn of_account(self, account: AccountId) -> Self {
        Bill { account: Some(account), ..self }
    }

    /// Makes this the bill of a call that is made in this way.
    #[must_use]
    pub fn in_way(self, way: u8) -> Self {
        Bill { way, ..self }
    }

    /// Returns the charges before learned corrections.
    #[must_use]
    pub fn estimate(&self) -> &Bill {
        self.estimated.as_deref().unwrap_or(self)
    }

    /// Iterates over all limits that apply to the call, including those that charge it nothing.
    pub fn limits(&self) -> impl Iterator<Item = LimitId> {
        self.applicable.limits()
    }

    /// Returns the charge to `limit`.
    #[must_use]
    pub fn get(&self, limit: LimitId) -> Amount {
        let shared = self.shared().find(|(known, _)| *known == limit).map(|(_, amount)| amount);
        shared.or_else(|| self.key_charge(limit).map(|charge| charge.amount)).unwrap_or(Amount::ZERO)
    }

    /// Returns the charge to a key of `limit`, which may be zero.
    #[must_use]
    pub fn key_charge(&self, limit: LimitId) -> Option<&KeyCharge> {
        self.keyed.iter().find(|charge| charge.limit == limit)
    }

    /// Returns the bucket of `limit` that the call is charged to.
    #[must_use]
    pub fn bucket(&self, limit: LimitId) -> BucketName {
        (limit, self.key_charge(limit).map(|charge| Arc::clone(&charge.key)))
    }

    pub(crate) fn is_unmatched(&self) -> bool {
        self.applicable == LimitSet::NONE
    }

    /// Returns the charge to `limit` alone.
    #[must_use]
    pub fn only(&self, limit: LimitId) -> Bill {
        self.part(LimitSet::NONE.with(limit))
    }

    /// Returns the charges to these limits alone.
    #[must_use]
    pub fn part(&self, limits: LimitSet) -> Bill {
        self.map_charges(|limit, amount| limits.has(limit).then_some((limit, amount)))
    }

    /// Adds the charges of `other`, to other limits.
    #[must_use]
    pub fn and(mut self, other: &Bill) -> Bill {
        for limit in other.limits() {
            self.charge(limit, other.key_charge(limit).map(|charge| Arc::clone(&charge.key)), other.get(limit));
        }
        self
    }

    /// Returns the charges to keys alone.
    #[must_use]
    pub fn keyed_part(&self) -> Bill {
        self.map_charges(|limit, amount| self.key_charge(limit).map(|_| (limit, amount)))
    }

    /// Returns whether a bucket pays for both bills.
    #[must_use]
    pub fn shares_bucket_with(&self, other: &Bill) -> bool {
        let shared = || self.shared().any(|(limit, _)| other.shared().any(|(of_other, _)| of_other == limit));
        let is_charged = |charge: &KeyCharge| other.keyed().any(|of_other| of_other.name() == charge.name());
        shared() || self.keyed().any(is_charged)
    }

    /// Returns the charges of this bill in excess of `other`.
    #[must_use]
    pub fn excess_over(&self, other: &Bill) -> Bill {
        self.map_charges(|limit, amount| Some((limit, amount.saturating_sub(other.get(limit)))))
    }

    /// Returns whether the call costs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.charged().next().is_none()
    }

    /// Iterates over the charges to limits without keys.
    pub fn shared(&self) -> impl Iterator<Item = (LimitId, Amount)> + Clone {
        self.shared.iter().copied()
    }

    /// Iterates over the charged keys.
    pub fn keyed(&self) -> impl Iterator<Item = &KeyCharge> + Clone {
        self.keyed.iter().filter(|charge| charge.amount > Amount::ZERO)
    }

    /// Iterates over the limits that the call is charged to.
    pub fn charged(&self) -> impl Iterator<Item = LimitId> + Clone {
        self.amounts().map(|(limit, _)| limit)
    }

    /// Iterates over the charges to all limits.
    pub fn amounts(&self) -> impl Iterator<Item = (LimitId, Amount)> + Clone {
        self.shared().chain(self.keyed().map(|charge| (charge.limit, charge.amount)))
    }
}

impl Alternative {
    fn part_of(&self, amount: Amount) -> Amount {
        let micros = u128::from(amount.micros()) * u128::from(self.ppm);
        let part = u64::try_from(micros.div_ceil(1_000_000)).ok().and_then(|micros| Amount::from_micros(micros).ok());
        part.unwrap_or(amount)
    }
}

/// A set of limits; bit `n` stands for the limit with index `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitSet(u64);

const _: () = assert!(MAX_LIMITS <= u64::BITS as usize, "every limit has a bit");

impl LimitSet {
    /// Returns this set with one limit more.
    #[must_use]
    pub fn with(self, limit: LimitId) -> Self {
        LimitSet(self.0 | 1 << limit.index())
    }

    /// Returns whether the limit is in the set.
    #[must_use]
    pub fn has(self, limit: LimitId) -> bool {
        self.0 & 1 << limit.index() != 0
    }

    /// Returns the limits of both sets.
    #[must_use]
    pub fn and(self, other: LimitSet) -> Self {
        LimitSet(self.0 & other.0)
    }

    /// Returns the limits that are not in the other set.
    #[must_use]
    pub fn without(self, other: LimitSet) -> Self {
        LimitSet(self.0 & !other.0)
    }

    /// Iterates over the members in ascending order.
    pub fn limits(self) -> impl Iterator<Item = LimitId> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let number = rest.trailing_zeros() as u8;
            rest &= rest.wrapping_sub(1);
            (number < 64).then_some(LimitId(number))
        })
    }

    /// All limits.
    pub const ALL: LimitSet = LimitSet(u64::MAX);
    /// No limit.
    pub const NONE: LimitSet = LimitSet(0);

    /// Returns whether no limit of the set is blocked.
    #[must_use]
    pub fn avoids(self, blocked: LimitSet) -> bool {
        self.0 & blocked.0 == 0
    }
}
