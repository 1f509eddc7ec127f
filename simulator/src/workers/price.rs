//! The cost of a call as worker, scheduler and upstream express it.

use crate::rng::Rng;
use crate::upstream::{self, Upstream};
use crate::workers::cost::CostModel;
use crate::workers::fleet::Fleet;
use crate::world_error::WorldError;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Bill, Resource};
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::{ACCOUNT, Labels};
use rampmeter_protocol::time::Time;
use std::ptr;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Price {
    pub(crate) cost: Arc<Cost<'static>>,
    pub(crate) bill: Bill,
    pub(crate) charge: rampmeter_upstream::Cost,
}

pub(crate) struct Prices<'a> {
    resource: Resource,
    fleets: &'a [Fleet],
    /// Prices of models with a constant cost.
    constant: Vec<(&'a CostModel, Arc<Price>)>,
}

impl<'a> Prices<'a> {
    /// Fails if a call could cost more than the resource or its upstream would ever serve.
    pub(crate) fn new(resource: Resource, upstream: &Upstream, fleets: &'a [Fleet]) -> Result<Self, WorldError> {
        let mut prices = Prices { resource, fleets, constant: Vec::new() };
        for fleet in fleets {
            let shifted = fleet.shift.as_ref().map(|shift| &shift.to);
            for model in [&fleet.cost].into_iter().chain(shifted) {
                let highest = prices.of(fleet, model.most()).map_err(|refusal| {
                    let limit = refusal.limited_by().map(|limit| &prices.resource.limits()[limit.index()].spec().name);
                    let limit = limit.map_or(String::new(), |limit| format!("limit `{limit}`: "));
                    WorldError::Fleet { fleet: fleet.name.clone(), reason: format!("{limit}{refusal}") }
                })?;
                if !prices.could_be_served(upstream, fleet, &highest) {
                    let reason = "the upstream can never serve what a call may cost".to_owned();
                    return Err(WorldError::Fleet { fleet: fleet.name.clone(), reason });
                }
                if model.is_constant() {
                    prices.constant.push((model, Arc::new(highest)));
                }
            }
        }
        Ok(prices)
    }

    /// The price of a fleet's call that a worker wants at `now`.
    pub(crate) fn draw(&self, fleet: usize, now: Time, dice: &mut Rng) -> Arc<Price> {
        let model = self.fleets[fleet].cost_at(now);
        match self.constant.iter().find(|(known, _)| ptr::eq(*known, model)) {
            Some((_, price)) => Arc::clone(price),
            None => {
                let price = self.of(&self.fleets[fleet], model.draw(dice));
                Arc::new(price.expect("no dearer than the dearest, which fits"))
            }
        }
    }

    fn of(&self, fleet: &Fleet, cost: Cost<'static>) -> Result<Price, Refusal> {
        let class =
            fleet.class.as_deref().map_or(Ok(self.resource.default_class()), |name| self.resource.class(name))?;
        let bill = self.resource.bill_in_pool(&self.labels(fleet), cost.iter(), class, &[])?;
        Ok(Price { bill, charge: upstream::charge(&cost), cost: Arc::new(cost) })
    }

    /// Returns whether the upstream serves the call for each account that may make it.
    fn could_be_served(&self, upstream: &Upstream, fleet: &Fleet, price: &Price) -> bool {
        price.bill.options().all(|option| {
            let account = self.resource.account_of(option).map(|account| (ACCOUNT, account.to_string()));
            let labels = account.into_iter().fold(self.labels(fleet), |labels, (label, name)| labels.with(label, name));
            upstream.could_serve(&labels, &price.charge)
        })
    }

    /// Returns the labels of any worker: all workers of a fleet match the same limits.
    fn labels(&self, fleet: &Fleet) -> Labels<'static> {
        let naming_client = self.resource.spec().fair_share.as_ref().map(|fair| fair.label.as_str());
        fleet.labels(0, naming_client).expect("checked with the world")
    }
}

impl Price {
    /// Returns the bill of a call by a worker that no scheduler gives an account: they have them in turn.
    pub(crate) fn bill_of(&self, worker: usize) -> &Bill {
        let count = self.bill.options().count();
        self.bill.options().nth(worker % count).expect("a bill has an option")
    }
}
