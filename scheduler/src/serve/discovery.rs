//! Being found: `$SRV.PING`, `$SRV.INFO`, `$SRV.STATS` (NATS ADR-32), and `rampmeter.resources`.

use crate::serve::limits::differences::Differences;
use anyhow::Context;
use async_nats::Client;
use async_nats::service::{Service, ServiceExt};
use futures::StreamExt;
use rampmeter_protocol::resources::Resources;
use rampmeter_protocol::subject::Subjects;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::views::report::describe;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Announces this scheduler with the resources that it can lead, and answers which resources there
/// are.
#[derive(Debug)]
pub struct Announcement {
    known: Known,
    announcing: JoinHandle<()>,
}

/// The resources that a scheduler can lead: those whose limits it knows.
#[derive(Clone, Debug)]
pub struct Known(Arc<watch::Sender<Vec<Resource>>>);

impl Known {
    /// Adds a resource, or replaces it if it was known with other limits.
    pub fn set(&self, resource: &Resource) {
        self.0.send_modify(|known| match known.iter_mut().find(|other| other.name() == resource.name()) {
            Some(known) => *known = resource.clone(),
            None => known.push(resource.clone()),
        });
    }
}

impl Announcement {
    /// Announces the resources `known` at first.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn start(
        client: Client,
        subjects: Subjects,
        leader: String,
        known: Vec<Resource>,
        differences: Arc<Differences>,
    ) -> anyhow::Result<Self> {
        let announcer = Announcer { client, subjects, leader, differences };
        let service = announcer.announce(&known).await?;
        let (sender, changes) = watch::channel(known);
        let announcing = tokio::spawn(announcer.keep_announcing(service, changes));
        Ok(Announcement { known: Known(Arc::new(sender)), announcing })
    }

    /// The resources that this scheduler can lead, for tasks that add some.
    #[must_use]
    pub fn known(&self) -> Known {
        self.known.clone()
    }

    /// Ends the announcement, once all other tasks have dropped what is known.
    pub async fn withdraw(self) {
        drop(self.known);
        self.announcing.await.ok();
    }
}

/// What every announcement says besides the resources.
struct Announcer {
    client: Client,
    subjects: Subjects,
    leader: String,
    differences: Arc<Differences>,
}

impl Announcer {
    /// The description of a service never changes, so that each change takes another service.
    async fn keep_announcing(self, first: Service, mut changes: watch::Receiver<Vec<Resource>>) {
        let mut service = Some(first);
        while changes.changed().await.is_ok() {
            withdraw(service.take()).await;
            let known = changes.borrow_and_update().clone();
            match self.announce(&known).await {
                Ok(another) => service = Some(another),
                Err(error) => tracing::warn!(%error, "this scheduler can't be found any more"),
            }
        }
        withdraw(service).await;
    }

    async fn announce(&self, all: &[Resource]) -> anyhow::Result<Service> {
        let Announcer { client, subjects, leader, differences } = self;
        let names: Vec<&str> = all.iter().map(|resource| &**resource.name()).collect();
        let said = [
            ("prefix", subjects.prefix().to_string()),
            ("leader", leader.clone()),
            ("resources", names.join(",")),
            ("fingerprints", differences.announced()),
        ];
        let metadata = HashMap::from(said.map(|(key, value)| (key.to_owned(), value)));
        let service = client
            .service_builder()
            .description("permits for rate-limited APIs")
            .metadata(metadata)
            // A group of its own: every scheduler answers, as each knows only its own resources.
            .queue_group(leader)
            .start("rampmeter", env!("CARGO_PKG_VERSION"))
            .await
            .map_err(anyhow::Error::msg)
            .context("the service could not be announced")?;
        let mut requests = service.endpoint(subjects.resources()).await.map_err(anyhow::Error::msg)?;
        let resources = Resources { resources: all.iter().map(describe).collect() };
        let answer = serde_json::to_vec(&resources)?;
        let subjects = subjects.clone();
        tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                if !request.message.reply.as_deref().is_some_and(|reply| subjects.may_answer_to(reply)) {
                    continue;
                }
                if let Err(error) = request.respond(Ok(answer.clone().into())).await {
                    tracing::debug!(%error, "an answer could not be sent");
                }
            }
        });
        Ok(service)
    }
}

/// A service that is merely dropped goes on, and keeps the connection.
async fn withdraw(service: Option<Service>) {
    let Some(service) = service else { return };
    if let Err(error) = service.stop().await {
        tracing::debug!(%error, "the announcement could not be withdrawn");
    }
}
