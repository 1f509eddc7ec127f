//! Lets clients find schedulers: `$SRV.PING`, `$SRV.INFO`, `$SRV.STATS` (NATS ADR-32), and `rampmeter.resources`.
//!
//! The service module of async-nats is not used, because its endpoints subscribe in queue groups.
//! Permit loops read their subjects themselves, and their reports are announced here.

use crate::context::ProcessContext;
use crate::health::{Health, ServingState};
use crate::messages::inbound::{EndpointKind, answer_to};
use crate::permits::answers::loop_request::Report;
use crate::permits::answers::tally::Handled;
use crate::permits::loop_handle::Reporter;
use crate::wall_time;
use anyhow::Context;
use async_nats::{Client, Message, Subject};
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::select_all;
use rampmeter_policy::Resource;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::resources::Resources;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::subject::Subjects;
use rampmeter_scheduler_core::views::report::describe;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

const SERVICE: &str = "rampmeter";
/// Bound on the troubles in the answer to a ping. Mostly all resources have the same trouble.
const ANNOUNCED_TROUBLES: usize = 16;

/// Announces this scheduler with the resources that it can lead, and answers requests to list them.
#[derive(Debug)]
pub struct Announcement {
    known: Known,
    answering: JoinSet<()>,
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
    /// Announces the resources in `known`, to which more can be added. `reporters` has one for each resource.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn start(
        context: ProcessContext,
        reporters: Vec<Reporter>,
        known: Vec<Resource>,
    ) -> anyhow::Result<Self> {
        let (sender, known) = watch::channel(known);
        let (started, listed) = (wall_time::text(), Mutex::default());
        let announcer = Arc::new(Announcer { context, reporters, known, started, listed });
        let mut answering = JoinSet::new();
        // Statistics wait for the permit loops, so a task of their own answers them; pings do not wait.
        for questions in [vec![SrvQuestion::Ping, SrvQuestion::Info, SrvQuestion::Resources], vec![SrvQuestion::Stats]]
        {
            answering
                .spawn(announcer.clone().answering(questions).await.context("the service could not be announced")?);
        }
        Ok(Announcement { known: Known(Arc::new(sender)), answering })
    }

    /// Returns the resources that this scheduler can lead, for tasks that add some.
    #[must_use]
    pub fn known(&self) -> Known {
        self.known.clone()
    }

    /// Stops answering discovery requests.
    pub async fn withdraw(&mut self) {
        self.answering.shutdown().await;
    }
}

#[derive(Clone, Copy, Debug)]
enum SrvQuestion {
    Ping,
    Info,
    Stats,
    Resources,
}

/// Answers discovery requests with the identity of this scheduler and what it serves.
#[derive(Debug)]
struct Announcer {
    context: ProcessContext,
    reporters: Vec<Reporter>,
    known: watch::Receiver<Vec<Resource>>,
    /// When the scheduler started, as text in UTC.
    started: String,
    /// Counts the answered requests for resources.
    listed: Mutex<Handled>,
}

impl Announcer {
    /// Subscribes to these questions, and returns the task that answers them.
    async fn answering(
        self: Arc<Self>,
        questions: Vec<SrvQuestion>,
    ) -> anyhow::Result<impl Future<Output = ()> + use<>> {
        let mut messages = Vec::new();
        for asked in questions {
            for subject in self.subjects_of(asked) {
                let subscriber = self.context.client.subscribe(subject).await?;
                messages.push(subscriber.map(move |message| (asked, message)));
            }
        }
        let mut messages = select_all(messages);
        Ok(async move {
            while let Some((asked, message)) = messages.next().await {
                self.answer(asked, message).await;
            }
        })
    }

    /// Returns the subjects of a question: to all services, to all schedulers, and to this one.
    fn subjects_of(&self, asked: SrvQuestion) -> Vec<String> {
        let ProcessContext { subjects, leader, .. } = &self.context;
        let verb = match asked {
            SrvQuestion::Ping => "PING",
            SrvQuestion::Info => "INFO",
            SrvQuestion::Stats => "STATS",
            SrvQuestion::Resources => return vec![subjects.resources(), subjects.imported_resources()],
        };
        vec![format!("$SRV.{verb}"), format!("$SRV.{verb}.{SERVICE}"), format!("$SRV.{verb}.{SERVICE}.{leader}")]
    }

    async fn answer(&self, asked: SrvQuestion, message: Message) {
        let ProcessContext { client, subjects, clock, .. } = &self.context;
        let began = clock.now();
        let Some(to) = message.reply.and_then(|reply| answer_to(subjects, &message.subject, reply)) else { return };
        match asked {
            SrvQuestion::Ping => send(client, to, &self.identity()).await,
            SrvQuestion::Info => send(client, to, &self.info()).await,
            SrvQuestion::Stats => send(client, to, &self.statistics().await).await,
            SrvQuestion::Resources => {
                let resources = Resources { resources: self.known.borrow().iter().map(describe).collect() };
                send(client, to, &resources).await;
                let mut listed = self.listed.lock().await;
                listed.messages += 1;
                listed.spent = listed.spent + clock.now().since(began);
            }
        }
    }

    /// Returns the answer to a ping. The answers to `INFO` and `STATS` extend it.
    fn identity(&self) -> Value {
        let ProcessContext { subjects, leader, differences, health, .. } = &self.context;
        let names: Vec<String> = self.known.borrow().iter().map(|resource| resource.name().to_string()).collect();
        json!({
            "type": "io.nats.micro.v1.ping_response",
            "name": SERVICE,
            "id": leader,
            "version": env!("CARGO_PKG_VERSION"),
            "metadata": {
                "prefix": subjects.prefix(),
                "leader": leader,
                "resources": names.join(","),
                "fingerprints": differences.announced(),
                "troubles": troubles(health),
            },
        })
    }

    /// Returns the endpoints that this process serves now, which are only those of resources that it leads.
    fn info(&self) -> Value {
        let subjects = &self.context.subjects;
        let led = self.reporters.iter().filter(|reporter| reporter.is_leading()).map(Reporter::resource);
        let of_resources = led.flat_map(|resource| {
            EndpointKind::ALL.map(|kind| {
                let mut endpoint = endpoint_of(kind, subjects, resource);
                endpoint["metadata"] = json!({"resource": resource});
                endpoint
            })
        });
        let mut info = self.identity();
        info["type"] = "io.nats.micro.v1.info_response".into();
        info["description"] = "permits for rate-limited APIs".into();
        info["endpoints"] = [listing(subjects)].into_iter().chain(of_resources).collect();
        info
    }

    /// Returns the counts of each resource since this process leads it.
    async fn statistics(&self) -> Value {
        let subjects = &self.context.subjects;
        let listed = with_counts(listing(subjects), *self.listed.lock().await);
        let reports = join_all(self.reporters.iter().map(Reporter::report)).await;
        let of_resources = reports
            .iter()
            .flatten()
            .flat_map(|report| EndpointKind::ALL.map(|kind| statistics_of(kind, subjects, report)));
        let mut statistics = self.identity();
        statistics["type"] = "io.nats.micro.v1.stats_response".into();
        statistics["started"] = (&*self.started).into();
        statistics["endpoints"] = [listed].into_iter().chain(of_resources).collect();
        statistics
    }
}

/// Returns, as JSON, why this scheduler can't serve resources that no other one serves.
fn troubles(health: &Health) -> String {
    let troubled = health.duties().into_iter().filter_map(|(name, duty)| match duty {
        ServingState::Troubled { reason } => Some((name, reason)),
        ServingState::Starting | ServingState::Leading { .. } | ServingState::Standby | ServingState::Stopping => None,
    });
    let first: BTreeMap<Name, String> = troubled.take(ANNOUNCED_TROUBLES).collect();
    serde_json::to_string(&first).expect("names and texts")
}

fn listing(subjects: &Subjects) -> Value {
    endpoint("resources", &subjects.resources())
}

/// Describes a served subject. Its queue group is empty because only the leader subscribes.
fn endpoint(name: &str, subject: &str) -> Value {
    json!({"name": name, "subject": subject, "queue_group": ""})
}

fn endpoint_of(kind: EndpointKind, subjects: &Subjects, resource: &Name) -> Value {
    let (name, subject) = match kind {
        EndpointKind::Permit => ("permit", subjects.permit(resource)),
        EndpointKind::Settle => ("settle", subjects.settle(resource)),
        EndpointKind::Status => ("status", subjects.status(resource)),
    };
    endpoint(&format!("{name}-{resource}"), &subject)
}

fn statistics_of(kind: EndpointKind, subjects: &Subjects, report: &Report) -> Value {
    let endpoint = endpoint_of(kind, subjects, &report.status.resource);
    let mut statistics = with_counts(endpoint, report.tally.handled(kind));
    if kind == EndpointKind::Permit {
        statistics["data"] = data(&report.status);
    }
    statistics
}

/// Adds the counts to an endpoint. Times are in nanoseconds.
fn with_counts(mut endpoint: Value, handled: Handled) -> Value {
    let Handled { messages, refused, last_refusal, spent } = handled;
    endpoint["num_requests"] = messages.into();
    endpoint["num_errors"] = refused.into();
    endpoint["last_error"] = last_refusal.map_or("", Code::as_str).into();
    endpoint["processing_time"] = spent.nanos().into();
    endpoint["average_processing_time"] = spent.nanos().checked_div(messages).unwrap_or(0).into();
    endpoint
}

/// Returns the state of a resource: waiting requests, what limits have left, and what delays the next request.
fn data(status: &Status) -> Value {
    let queued: u64 = status.classes.iter().map(|class| class.queued).sum();
    let level: BTreeMap<&Name, f64> = status.limits.iter().map(|limit| (&limit.name, limit.level)).collect();
    let mut data = json!({"epoch": status.epoch, "queued": queued, "level": level});
    if let Some(limit) = &status.limited_by {
        data["limited_by"] = json!(limit);
    }
    if let Some(reason) = status.reason {
        data["reason"] = reason.as_str().into();
    }
    data
}

async fn send(client: &Client, to: Subject, answer: &impl Serialize) {
    let text = serde_json::to_vec(answer).expect("names and numbers");
    if let Err(error) = client.publish(to, text.into()).await {
        tracing::debug!(%error, "an answer could not be sent");
    }
}
