//! The cost of a call as worker, scheduler and upstream express it.

use crate::rng::Rng;
use crate::upstream::{self, Upstream};
use crate::workers::cost::CostModel;
use crate::workers::fleet::Fleet;
use crate::world_error::WorldError;
use rampmeter_policy::refusal::Refusal;
use rampmeter_policy::{Bill, Resource};
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::Labels;
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
                let highest = Price::of(&prices.resource, &prices.labels(fleet), model.most()).map_err(|refusal| {
                    let limit = refusal.limited_by().map(|limit| &prices.resource.limits()[limit.index()].spec().name);
                    let limit = limit.map_or(String::new(), |limit| format!("limit `{limit}`: "));
                    WorldError::Fleet { fleet: fleet.name.clone(), reason: format!("{limit}{refusal}") }
                })?;
                if !upstream.could_serve(&prices.labels(fleet), &highest.charge) {
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
                let price = Price::of(&self.resource, &self.labels(&self.fleets[fleet]), model.draw(dice));
                Arc::new(price.expect("no dearer than the dearest, which fits"))
            }
        }
    }

    /// Returns the labels of any worker: all workers of a fleet match the same limits.
    fn labels(&self, fleet: &Fleet) -> Labels<'static> {
        let naming_client = self.resource.spec().fair_share.as_ref().map(|fair| fair.label.as_str());
        fleet.labels(0, naming_client).expect("checked with the world")
    }
}

impl Price {
    fn of(resource: &Resource, labels: &Labels<'_>, cost: Cost<'static>) -> Result<Self, Refusal> {
        let bill = resource.bill(labels, cost.iter())?;
        Ok(Price { bill, charge: upstream::charge(&cost), cost: Arc::new(cost) })
    }
}
