//! Operators' orders to pause limits, end pauses, or set levels to zero; ignored without a reply subject.

use crate::messages::inbound::Address;
use crate::messages::reply::ReplyTo;
use crate::permits::answers::core_driver::CoreDriver;
use rampmeter_policy::ids::LimitId;
use rampmeter_protocol::limit_order::{FreezeOrder, LimitOrder, LimitOrderDone};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::news::News;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::event::Event;

impl CoreDriver {
    /// Ends the pauses of limits, and informs clients.
    pub(crate) fn thaw(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some((to, chosen)) = self.read_order(now, reply, payload) else { return };
        let paused = self.paused(now, &chosen);
        let limits = self.names_of(&paused);
        if !paused.is_empty() {
            self.handle(now, Event::Thaw(paused));
            let epoch = Some(self.core().epoch());
            self.outbox.announce(&News::Thaw { limits: limits.clone(), epoch });
        }
        let more = !self.paused(now, &chosen).is_empty();
        let resource = self.core().resource().name();
        tracing::warn!(%resource, ?limits, "an operator has ended the pauses of limits");
        self.confirm(to, limits, more);
    }

    /// Pauses limits, except those with keys, whose buckets no order pauses.
    pub(crate) fn freeze(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some(to) = reply else { return };
        let order = FreezeOrder::parse(payload).map_err(|invalid| invalid.to_string());
        let found = order.and_then(|order| Ok((self.without_keys(order.limit, order.account)?, order.for_ms.span())));
        let (frozen, span) = match found {
            Ok(found) => found,
            Err(why) => return self.refuse_invalid(now, ReplyTo::alone(to), None, why),
        };
        let limits = self.names_of(&frozen);
        self.handle(now, Event::Freeze { limits: frozen, span });
        let resource = self.core().resource().name();
        tracing::warn!(%resource, ?limits, seconds = span.secs(), "an operator has paused limits");
        self.confirm(to, limits, false);
    }

    /// Returns the chosen limits, except those with keys.
    fn without_keys(&self, limit: Option<Name>, account: Option<Name>) -> Result<Vec<LimitId>, String> {
        let mut found = self.find_limits(limit, account)?;
        found.retain(|limit| !self.core().resource()[*limit].is_keyed());
        match found.is_empty() {
            true => Err("`limit`: each key has a bucket of its own, which no order freezes".to_owned()),
            false => Ok(found),
        }
    }

    fn paused(&self, now: Time, chosen: &[LimitId]) -> Vec<LimitId> {
        let mut paused = self.core().paused(now, None);
        paused.retain(|limit| chosen.contains(limit));
        paused
    }

    pub(crate) fn empty(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) {
        let Some((to, chosen)) = self.read_order(now, reply, payload) else { return };
        let limits = self.names_of(&chosen);
        self.handle(now, Event::Empty(chosen));
        let resource = self.core().resource().name();
        tracing::warn!(%resource, ?limits, "an operator has taken the stock of limits");
        self.confirm(to, limits, false);
    }

    /// Returns the address for the answer, and the limits of the order. Refuses a malformed order.
    fn read_order(&mut self, now: Time, reply: Option<Address>, payload: &[u8]) -> Option<(Address, Vec<LimitId>)> {
        let to = reply?;
        match LimitOrder::parse(payload)
            .map_err(|invalid| invalid.to_string())
            .and_then(|order| self.find_limits(order.limit, order.account))
        {
            Ok(chosen) => Some((to, chosen)),
            Err(why) => {
                self.refuse_invalid(now, ReplyTo::alone(to), None, why);
                None
            }
        }
    }

    /// Returns the limit of this name, the limits of this account, or all.
    fn find_limits(&self, limit: Option<Name>, account: Option<Name>) -> Result<Vec<LimitId>, String> {
        let resource = self.core().resource();
        let all = || resource.limits_by_id().map(|(limit, _)| limit);
        let known = || resource.limits().iter().map(|limit| &*limit.spec().name).collect::<Vec<_>>().join("`, `");
        match (limit, account) {
            (None, None) => Ok(all().collect()),
            (Some(name), None) => {
                let found = resource.limit(&name).map(|limit| vec![limit]);
                found.ok_or_else(|| format!("`limit`: no such limit; there are `{}`", known()))
            }
            (None, Some(account)) => {
                let own = resource.limits_of_account(&account);
                own.ok_or_else(|| format!("`account`: `{account}` is no account with limits of its own"))
            }
            (Some(_), Some(_)) => Err("`account`: name a limit or an account".to_owned()),
        }
    }

    fn names_of(&self, limits: &[LimitId]) -> Vec<Name> {
        let limit = |id: &LimitId| self.core().resource()[*id].spec().name.clone();
        limits.iter().map(limit).collect()
    }

    fn confirm(&mut self, to: Address, limits: Vec<Name>, more: bool) {
        let (resource, epoch) = (self.core().resource().name().clone(), self.core().epoch());
        self.outbox.send(to, &LimitOrderDone { resource, epoch, limits, more });
    }
}
