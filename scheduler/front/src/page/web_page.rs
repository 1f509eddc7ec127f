//! The routes of the web page, with their rights.

use super::feed::Feed;
use super::jobs::JobQueues;
use super::page_error::PageError;
use super::schedulers::SchedulerList;
use super::stream::Streams;
use super::waiting::WaitingLists;
use super::what_if::{Forecaster, Forecasts};
use crate::front_client::FrontClient;
use crate::token::{Caller, PageRight};
use axum::http::StatusCode;
use rampmeter_protocol::name::Name;
use rampmeter_serve::SchedulerView;
use rampmeter_serve::peers::Peers;
use rampmeter_store::RuleStore;
use std::fmt;
use std::sync::Arc;

/// The page of this scheduler.
#[derive(Debug)]
pub(crate) struct WebPage {
    pub(super) front_client: FrontClient,
    pub(super) feed: Feed,
    pub(super) streams: Streams,
    pub(super) waiting: WaitingLists,
    pub(super) forecasts: Forecasts,
    pub(super) schedulers: SchedulerList,
    pub(super) jobs: JobQueues,
    pub(super) peers: Arc<Peers>,
    pub(super) store: async_nats::Client,
}

impl WebPage {
    /// Starts to observe all resources of `scheduler`, on whose connection rules are read and
    /// written. Its peers and `jobs` are shown, too, and `forecaster` tells what would happen.
    pub(crate) fn start(
        front_client: FrontClient,
        scheduler: &SchedulerView,
        jobs: JobQueues,
        forecaster: &'static dyn Forecaster,
    ) -> Arc<Self> {
        let feed = Feed::start(front_client.clone(), scheduler.context.health.clone());
        let (peers, store) = (scheduler.context.peers.clone(), scheduler.context.client.clone());
        let (streams, waiting, forecasts) = (Streams::default(), WaitingLists::default(), Forecasts::new(forecaster));
        let schedulers = SchedulerList::default();
        Arc::new(WebPage { front_client, feed, streams, waiting, forecasts, schedulers, jobs, peers, store })
    }

    /// The name of a resource for which `caller` has the right `right`.
    pub(super) fn resource(&self, caller: &Caller, name: &str, right: PageRight) -> Result<Name, PageError> {
        caller.check_page(right).map_err(PageError::forbidden)?;
        let known = Name::new(name).ok().filter(|name| self.front_client.knows(name));
        let missing = || PageError(StatusCode::NOT_FOUND, "this scheduler has no such resource".to_owned());
        let known = known.ok_or_else(missing)?;
        let allowed = caller.holder().map_or(Ok(()), |holder| holder.check_resource(&known));
        allowed.map_err(PageError::forbidden)?;
        Ok(known)
    }

    /// The editions of the rules.
    pub(super) async fn rule_store(&self) -> Result<RuleStore, PageError> {
        let store = RuleStore::open_beside_state(&self.store, self.front_client.subjects.prefix()).await;
        store.map_err(unreadable)
    }
}

/// # Errors
/// If `caller` may not look at all resources.
pub(super) fn check_all(caller: &Caller) -> Result<(), PageError> {
    caller.check_page(PageRight::View).map_err(PageError::forbidden)?;
    match caller.holder().is_some_and(|holder| holder.is_bound_to_resources()) {
        true => Err(PageError::forbidden("this token is for some resources only")),
        false => Ok(()),
    }
}

/// The store does not tell the rules.
pub(super) fn unreadable(error: impl fmt::Display) -> PageError {
    PageError::unavailable(format!("the rules can't be read: {error}"))
}
