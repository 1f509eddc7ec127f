//! The state of the web page, and the rights to it.

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
    /// Starts to observe all resources of `scheduler`, whose connection is also used for rules. The page also
    /// shows its peers and `jobs`, and `forecaster` answers what-if questions.
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

    /// Returns the resource called `name`, if `caller` has `right` for it.
    pub(super) fn resource(&self, caller: &Caller, name: &str, right: PageRight) -> Result<Name, PageError> {
        caller.check_page(right).map_err(PageError::forbidden)?;
        let known = Name::new(name).ok().filter(|name| self.front_client.knows(name));
        let missing = || PageError(StatusCode::NOT_FOUND, "this scheduler has no such resource".to_owned());
        let known = known.ok_or_else(missing)?;
        let allowed = caller.holder().map_or(Ok(()), |holder| holder.check_resource(&known));
        allowed.map_err(PageError::forbidden)?;
        Ok(known)
    }

    pub(super) async fn rule_store(&self) -> Result<RuleStore, PageError> {
        let store = RuleStore::open_beside_state(&self.store, self.front_client.subjects.prefix()).await;
        store.map_err(unreadable)
    }
}

/// Fails unless `caller` may look at all resources.
pub(super) fn check_all(caller: &Caller) -> Result<(), PageError> {
    caller.check_page(PageRight::View).map_err(PageError::forbidden)?;
    match caller.holder().is_some_and(|holder| holder.is_bound_to_resources()) {
        true => Err(PageError::forbidden("this token is for some resources only")),
        false => Ok(()),
    }
}

/// Returns the error for rules that the store can't provide.
pub(super) fn unreadable(error: impl fmt::Display) -> PageError {
    PageError::unavailable(format!("the rules can't be read: {error}"))
}
