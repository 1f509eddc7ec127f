//! Bills in a pool of accounts, and the accounts whose limits they charge.
//!
//! A request that names no account has an [`Alternative`] for each account that may make its call.

use crate::accounts::name_of;
use crate::bill::{Alternative, Bill};
use crate::ids::{AccountId, ClassId, LimitId};
use crate::refusal::Refusal;
use crate::resource::Resource;
use crate::spec::{AccountSpec, LimitSpec, Pattern};
use crate::succession::Call;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::labels::{ACCOUNT, Labels};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use std::sync::Arc;

impl Resource {
    /// Returns the limit that is called `name` in a response to a call with this bill: of a limit that each account
    /// has, the one of the call's account, unless the account has another in its place.
    #[must_use]
    pub fn limit_called(&self, name: &str, bill: &Bill) -> Option<LimitId> {
        let own = || self.limit(&name_of(name, self.account_of(bill)?));
        self.limit(name).or_else(|| own().filter(|own| bill.limits().any(|limit| limit == *own)))
    }

    /// Returns the account that makes the call of a bill.
    #[must_use]
    pub fn account_of(&self, bill: &Bill) -> Option<&Name> {
        bill.account.map(|account| &self.spec().accounts[account.index()].name)
    }

    /// Returns the account whose limits a bill charges.
    #[must_use]
    pub fn account_charged(&self, bill: &Bill) -> Option<AccountId> {
        let pattern = |limit: LimitId| self[limit].spec().applies.matching.get(ACCOUNT);
        let charged: Vec<&Pattern> = bill.charged().filter_map(pattern).collect();
        let is_charged = |account: &AccountSpec| charged.contains(&&Pattern::Exact(account.name.to_string()));
        let index = self.spec().accounts.iter().position(is_charged)?;
        u8::try_from(index).ok().map(AccountId)
    }

    /// Returns the limits of an account alone; `None` if it has none.
    #[must_use]
    pub fn limits_of_account(&self, account: &str) -> Option<Vec<LimitId>> {
        let is_own = |pattern: &Pattern| *pattern == Pattern::Exact(account.to_owned());
        let own =
            self.limits_by_id().filter(|(_, limit)| limit.spec().applies.matching.get(ACCOUNT).is_some_and(is_own));
        Some(own.map(|(id, _)| id).collect::<Vec<_>>()).filter(|own| !own.is_empty())
    }

    /// Computes the bill of a call of `class`. Unless its labels name an account, it has an
    /// alternative for each account that serves the class and is none of `not`.
    ///
    /// # Errors
    /// Those of [`Resource::bill`], of the last account that may serve the class; and
    /// [`Refusal::NoAccount`] if there is none.
    pub fn bill_in_pool<'a>(
        &self,
        labels: &Labels<'_>,
        cost: impl Iterator<Item = (&'a str, Amount)> + Clone,
        class: ClassId,
        not: &[Name],
    ) -> Result<Bill, Refusal> {
        if self.spec().accounts.is_empty() {
            return if not.is_empty() { self.bill(labels, cost) } else { Err(self.no_account()) };
        }
        let class = &self.classes()[class.index()].name;
        let named = labels.get(ACCOUNT);
        let serves = |account: &AccountSpec| {
            named.is_none_or(|named| *named == *account.name)
                && !not.contains(&account.name)
                && (account.classes.is_empty() || account.classes.contains(class))
        };
        let (mut alternatives, mut refusal) = (Vec::new(), self.no_account());
        for (id, account) in (0..).map(AccountId).zip(&self.spec().accounts).filter(|(_, account)| serves(account)) {
            match self.bill(&labels.clone().with(ACCOUNT, &*account.name), cost.clone()) {
                Ok(bill) => alternatives.push(Arc::new(bill.of_account(id))),
                Err(error) => refusal = error,
            }
        }
        if let [only] = &*alternatives {
            return Ok((**only).clone());
        }
        let alternatives = alternatives.into_iter().map(|bill| (bill, Span::ZERO)).collect();
        self.with_alternatives(alternatives).ok_or(refusal)
    }

    /// Computes the bill of a call that can be made in several ways, the preferred first: each has
    /// labels and a cost, and a time that a start in this way is worth waiting for.
    ///
    /// # Errors
    /// Those of [`Resource::bill_in_pool`], of the first way that is wrong. A way that never fits, or
    /// that no account serves, is left out; if all are, its refusal.
    pub fn bill_of_ways(&self, call: &Call, class: ClassId) -> Result<Bill, Refusal> {
        let first = self.bill_in_pool(&call.labels, call.cost(), class, &call.not);
        let Some((worth, ways)) = &call.ways else { return first };
        let others = ways.iter().map(|way| {
            let labels = call.labels.clone().replaced_by(&way.labels);
            let bill = match way.cost.is_empty() {
                true => self.bill_in_pool(&labels, call.cost(), class, &call.not),
                false => self.bill_in_pool(&labels, way.cost.iter(), class, &call.not),
            };
            (bill, way.else_after_ms.span())
        });
        let (mut alternatives, mut refusal) = (Vec::new(), None);
        for (number, (bill, worth)) in (0..).zip(std::iter::once((first, *worth)).chain(others)) {
            match bill {
                Ok(bill) => {
                    let options = bill.options().map(|option| (Arc::new(option.clone().in_way(number)), worth));
                    alternatives.extend(options);
                }
                Err(why @ (Refusal::NeverFits { .. } | Refusal::NoAccount { .. })) => refusal = refusal.or(Some(why)),
                Err(wrong) => return Err(wrong),
            }
        }
        self.with_alternatives(alternatives).ok_or_else(|| refusal.unwrap_or_else(|| self.no_account()))
    }

    /// Returns the bill of a request with these alternatives, each with the time that it is worth.
    fn with_alternatives(&self, alternatives: Vec<(Arc<Bill>, Span)>) -> Option<Bill> {
        if let [(only, _)] = &*alternatives {
            return Some((**only).clone());
        }
        let speeds: Vec<f64> = alternatives.iter().map(|(bill, _)| self.speed(bill)).collect();
        let sum: f64 = speeds.iter().sum();
        let part = |speed: f64| ((speed / sum) * 1e6).round().max(1.0) as u32;
        let alternatives = alternatives.into_iter().zip(speeds);
        let alternative = |((bill, wait), speed)| Alternative { bill, wait, ppm: part(speed) };
        let alternatives: Arc<[Alternative]> = alternatives.map(alternative).collect();
        (!alternatives.is_empty()).then(|| Bill::with_alternatives(alternatives))
    }

    /// Returns how many such calls a second the slowest limit that not all calls share allows.
    fn speed(&self, bill: &Bill) -> f64 {
        let own = bill.shared().filter(|(id, _)| self[*id].spec().applies.matching.contains_key(ACCOUNT));
        let speed = |(id, amount): (LimitId, Amount)| {
            let LimitSpec { capacity, period, .. } = self[id].spec();
            capacity.units() / period.secs() / amount.units()
        };
        own.map(speed).fold(1e9, f64::min)
    }

    fn no_account(&self) -> Refusal {
        Refusal::NoAccount { known: self.spec().accounts.iter().map(|account| account.name.clone()).collect() }
    }
}
