//! What schedulers tell: the status of each resource, and the requests that wait for one of them.

use crate::commands::limits::limit_orders::{order, order_freeze};
use crate::commands::status::{ask, known_resources};
use async_nats::Client;
use futures::future::join_all;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::explain::{Explained, Explanation, Question};
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::{Span, Time};
use serde::Serialize;
use std::collections::BTreeSet;

/// The most requests that are read for one survey. An answer lists ten, and each answer takes time
/// of the thread that grants.
pub(super) const MAX_LISTED: usize = 100;

/// How long one key press pauses a limit: enough to look around, and harmless if forgotten.
const FREEZE: Span = Span::from_secs(60);

/// All resources at one time.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    /// When the answers had come.
    pub(super) at: Time,
    /// The resources by name.
    pub(super) resources: Vec<SurveyedResource>,
    /// What waits for one of them.
    pub(super) list: Option<WaitingList>,
}

/// One resource.
#[derive(Clone, Debug)]
pub(super) struct SurveyedResource {
    pub(super) name: Name,
    /// Why its leader does not answer, if it does not.
    pub(super) status: Result<Status, String>,
}

/// The requests that wait for a resource, in the order in which they will probably be served.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WaitingList {
    pub(super) resource: Name,
    /// The request after which it begins, if it does not begin at the front.
    #[serde(skip)]
    pub(super) after: Option<PermitId>,
    /// How many wait.
    pub(super) waiting: u64,
    /// The first waiting requests, as far as they were read.
    pub(super) listed: Vec<Explained>,
    /// How many requests wait behind the last one in `listed`.
    pub(super) more: u64,
}

/// Which requests are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListWanted {
    pub(super) resource: Name,
    /// The request after which the list begins. Without it, the list begins at the front.
    pub(super) after: Option<PermitId>,
}

impl Survey {
    /// The resource called `name`.
    pub(super) fn resource(&self, name: &str) -> Option<&SurveyedResource> {
        self.resources.iter().find(|resource| &*resource.name == name)
    }

    /// The status of the resource called `name`, if its leader answers.
    pub(super) fn status(&self, name: &str) -> Option<&Status> {
        self.resource(name)?.status.as_ref().ok()
    }
}

/// Asks schedulers.
#[derive(Clone, Debug)]
pub(super) struct Surveyor {
    client: Client,
    subjects: Subjects,
    clock: Clock,
}

impl Surveyor {
    pub(super) fn new(client: Client, subjects: Subjects) -> Self {
        Surveyor { client, subjects, clock: Clock::start() }
    }

    /// The names of all resources; none if no scheduler answers.
    pub(super) async fn names(&self) -> anyhow::Result<Vec<Name>> {
        known_resources(&self.client, &self.subjects).await
    }

    /// Asks the leaders of all these resources at once, and one of them for what waits.
    pub(super) async fn look(&self, names: &[Name], wanted: Option<ListWanted>) -> Survey {
        let statuses = join_all(names.iter().map(|name| self.resource(name)));
        let list = async { self.list(&wanted?).await.ok() };
        let (resources, list) = tokio::join!(statuses, list);
        Survey { at: self.clock.now(), resources, list }
    }

    async fn resource(&self, name: &Name) -> SurveyedResource {
        let status = ask::<Status>(&self.client, self.subjects.status(name), Vec::new(), name).await;
        SurveyedResource { name: name.clone(), status: status.map_err(|error| error.to_string()) }
    }

    /// Reads the list page by page. The queue moves meanwhile, so that a later page may repeat
    /// requests: each page counts up to its first repetition.
    pub(super) async fn list(&self, wanted: &ListWanted) -> anyhow::Result<WaitingList> {
        let ListWanted { resource, after } = wanted;
        let first = self.page(resource, after.clone()).await?;
        let (resource, after) = (resource.clone(), after.clone());
        let Explanation { waiting, first: listed, more, .. } = first;
        let mut list = WaitingList { resource, after, waiting, listed, more };
        let mut read: BTreeSet<PermitId> = list.listed.iter().map(|request| request.id.clone()).collect();
        while list.more > 0 && list.listed.len() < MAX_LISTED {
            let last = list.listed.last().map(|request| request.id.clone());
            let Ok(page) = self.page(&wanted.resource, last).await else { break };
            let new: Vec<Explained> =
                page.first.into_iter().take_while(|request| !read.contains(&request.id)).collect();
            if new.is_empty() {
                break;
            }
            read.extend(new.iter().map(|request| request.id.clone()));
            list.listed.extend(new);
            list.more = page.more;
        }
        Ok(list)
    }

    async fn page(&self, resource: &Name, after: Option<PermitId>) -> anyhow::Result<Explanation> {
        self.ask_explanation(resource, &Question { id: None, after }).await
    }

    /// Why one request waits.
    pub(super) async fn explain(&self, resource: &Name, id: PermitId) -> anyhow::Result<Explanation> {
        self.ask_explanation(resource, &Question { id: Some(id), after: None }).await
    }

    async fn ask_explanation(&self, resource: &Name, question: &Question) -> anyhow::Result<Explanation> {
        ask(&self.client, self.subjects.explain(resource), serde_json::to_vec(question)?, resource).await
    }

    /// Pauses calls that take from a limit, for a minute.
    pub(super) async fn freeze(&self, resource: &Name, limit: Name) -> anyhow::Result<()> {
        order_freeze(&self.client, &self.subjects, resource, Some(limit), FREEZE).await.map(drop)
    }

    /// Ends the pauses of a limit. Returns the limits whose pauses have ended.
    pub(super) async fn thaw(&self, resource: &Name, limit: Name) -> anyhow::Result<Vec<Name>> {
        let done = order(&self.client, self.subjects.thaw(resource), resource, Some(limit)).await?;
        Ok(done.limits)
    }
}
