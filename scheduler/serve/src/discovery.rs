//! How clients and tools find schedulers: `$SRV.PING`, `$SRV.INFO`, `$SRV.STATS` (NATS ADR-32), and
//! `rampmeter.resources`.
//!
//! The service module of async-nats is not used, because its endpoints subscribe in queue groups.
//! Permit loops read their subjects themselves, and their reports are announced here.

use crate::limits::differences::Differences;
use crate::messages::inbound::{EndpointKind, answer_to};
use crate::permits::answers::loop_request::Report;
use crate::permits::answers::tally::Handled;
use crate::permits::loop_handle::Reporter;
use crate::service_messages::{
    EndpointData, EndpointInfo, EndpointStats, InfoResponse, ServedRequests, ServiceIdentity, StatsResponse, Verb,
};
use anyhow::Context;
use async_nats::{Client, Message, Subject};
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::select_all;
use rampmeter_protocol::clock::{Clock, unix_ms};
use rampmeter_protocol::code::Code;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::resources::Resources;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::subject::Subjects;
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::views::report::describe;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Announces this scheduler with the resources that it can lead, and answers which resources there
/// are.
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

/// The parts of an announcement, besides the resources.
#[derive(Debug)]
pub struct AnnouncementContext {
    /// The connection for announcements.
    pub client: Client,
    /// The subjects of the schedulers that belong together.
    pub subjects: Subjects,
    /// This process.
    pub leader: String,
    /// The schedulers that count differently, and how this one counts.
    pub differences: Arc<Differences>,
    /// A reporter for each resource.
    pub reporters: Vec<Reporter>,
    /// The clock of this process.
    pub clock: Clock,
}

impl Announcement {
    /// Announces the resources `known` at first.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn start(context: AnnouncementContext, known: Vec<Resource>) -> anyhow::Result<Self> {
        let (sender, known) = watch::channel(known);
        let announcer = Arc::new(Announcer { context, known, started: utc_now(), listed: ListedResources::default() });
        let mut answering = JoinSet::new();
        // Statistics wait for the permit loops, so that a task of their own answers them. Pings do
        // not wait.
        for questions in [
            vec![SrvQuestion::Verb(Verb::Ping), SrvQuestion::Verb(Verb::Info), SrvQuestion::Resources],
            vec![SrvQuestion::Verb(Verb::Stats)],
        ] {
            answering
                .spawn(announcer.clone().answering(questions).await.context("the service could not be announced")?);
        }
        Ok(Announcement { known: Known(Arc::new(sender)), answering })
    }

    /// The resources that this scheduler can lead, for tasks that add some.
    #[must_use]
    pub fn known(&self) -> Known {
        self.known.clone()
    }

    /// Ends the announcement.
    pub async fn withdraw(&mut self) {
        self.answering.shutdown().await;
    }
}

/// What a message asks for.
#[derive(Clone, Copy, Debug)]
enum SrvQuestion {
    Verb(Verb),
    /// Which resources there are.
    Resources,
}

/// Questions for resources that were answered.
#[derive(Debug, Default)]
struct ListedResources {
    requests: AtomicU64,
    nanos: AtomicU64,
}

/// Tells the identity of this scheduler and what it serves.
#[derive(Debug)]
struct Announcer {
    context: AnnouncementContext,
    known: watch::Receiver<Vec<Resource>>,
    /// When the scheduler started, as text in UTC.
    started: String,
    listed: ListedResources,
}

impl Announcer {
    /// Subscribes to these questions, and returns what answers them.
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

    fn subjects_of(&self, asked: SrvQuestion) -> Vec<String> {
        match asked {
            SrvQuestion::Verb(verb) => verb.subjects(&self.context.leader).into(),
            SrvQuestion::Resources => {
                vec![self.context.subjects.resources(), self.context.subjects.imported_resources()]
            }
        }
    }

    async fn answer(&self, asked: SrvQuestion, message: Message) {
        let AnnouncementContext { client, subjects, clock, .. } = &self.context;
        let began = clock.now();
        let Some(to) = message.reply.and_then(|reply| answer_to(subjects, &message.subject, reply)) else { return };
        match asked {
            SrvQuestion::Verb(Verb::Ping) => send(client, to, &self.identity()).await,
            SrvQuestion::Verb(Verb::Info) => {
                send(client, to, &InfoResponse::new(self.identity(), self.endpoints())).await;
            }
            SrvQuestion::Verb(Verb::Stats) => send(client, to, &self.statistics().await).await,
            SrvQuestion::Resources => {
                let resources = Resources { resources: self.known.borrow().iter().map(describe).collect() };
                send(client, to, &resources).await;
                self.listed.requests.fetch_add(1, Ordering::Relaxed);
                self.listed.nanos.fetch_add(clock.now().since(began).nanos(), Ordering::Relaxed);
            }
        }
    }

    fn identity(&self) -> ServiceIdentity {
        let AnnouncementContext { subjects, leader, differences, .. } = &self.context;
        let names: Vec<String> = self.known.borrow().iter().map(|resource| resource.name().to_string()).collect();
        let metadata = BTreeMap::from([
            ("prefix", subjects.prefix().to_string()),
            ("leader", leader.clone()),
            ("resources", names.join(",")),
            ("fingerprints", differences.announced()),
        ]);
        ServiceIdentity::ping(leader, metadata)
    }

    /// The subjects that this process serves now: another scheduler may lead a resource.
    fn endpoints(&self) -> Vec<EndpointInfo> {
        let AnnouncementContext { subjects, reporters, .. } = &self.context;
        let led = reporters.iter().filter(|reporter| reporter.is_leading()).map(Reporter::resource);
        let of_resources = led.flat_map(|resource| EndpointKind::ALL.map(|kind| endpoint(kind, subjects, resource)));
        [listing(subjects)].into_iter().chain(of_resources).collect()
    }

    async fn statistics(&self) -> StatsResponse {
        let AnnouncementContext { subjects, reporters, .. } = &self.context;
        let (requests, nanos) =
            (self.listed.requests.load(Ordering::Relaxed), self.listed.nanos.load(Ordering::Relaxed));
        let listed = ServedRequests { requests, errors: 0, nanos };
        let reports = join_all(reporters.iter().map(Reporter::report)).await;
        let of_resources = reports
            .iter()
            .flatten()
            .flat_map(|report| EndpointKind::ALL.map(|kind| statistics_of(kind, subjects, report)));
        let endpoints = [EndpointStats::new(listing(subjects), listed, "")].into_iter().chain(of_resources).collect();
        StatsResponse::new(self.identity(), self.started.clone(), endpoints)
    }
}

fn listing(subjects: &Subjects) -> EndpointInfo {
    EndpointInfo::new("resources", subjects.resources())
}

/// The endpoint of a resource.
fn endpoint(kind: EndpointKind, subjects: &Subjects, resource: &Name) -> EndpointInfo {
    let (name, subject) = match kind {
        EndpointKind::Permit => ("permit", subjects.permit(resource)),
        EndpointKind::Settle => ("settle", subjects.settle(resource)),
        EndpointKind::Status => ("status", subjects.status(resource)),
    };
    EndpointInfo::of_resource(name, resource, subject)
}

/// What the endpoint of a resource has served since this process leads it.
fn statistics_of(kind: EndpointKind, subjects: &Subjects, report: &Report) -> EndpointStats {
    let Handled { messages, refused, last_refusal, spent } = report.tally.handled(kind);
    let served = ServedRequests { requests: messages, errors: refused, nanos: spent.nanos() };
    let last_error = last_refusal.map_or("", Code::as_str);
    let stats = EndpointStats::new(endpoint(kind, subjects, &report.status.resource), served, last_error);
    match kind {
        EndpointKind::Permit => stats.with(data(&report.status)),
        EndpointKind::Settle | EndpointKind::Status => stats,
    }
}

fn data(status: &Status) -> EndpointData {
    EndpointData {
        epoch: status.epoch,
        queued: status.classes.iter().map(|class| class.queued).sum(),
        level: status.limits.iter().map(|limit| (limit.name.clone(), limit.level)).collect(),
        limited_by: status.limited_by.clone(),
        reason: status.reason.map(Reason::as_str),
    }
}

async fn send(client: &Client, to: Subject, answer: &impl Serialize) {
    let text = serde_json::to_vec(answer).expect("names and numbers");
    if let Err(error) = client.publish(to, text.into()).await {
        tracing::debug!(%error, "an answer could not be sent");
    }
}

/// The wall time as text.
fn utc_now() -> String {
    let now = i64::try_from(unix_ms()).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    now.unwrap_or_default().to_string()
}
