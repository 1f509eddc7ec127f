//! Access of commands to running schedulers, over NATS.

use super::nats_arg::{NatsArg, by_file};
use anyhow::{Context, bail};
use async_nats::{Client, Message, RequestErrorKind};
use futures::StreamExt;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::resources::Resources;
use rampmeter_protocol::status::Status;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::suggestion::{did_you_mean, quoted};
use rampmeter_serve::connection::connect;
use rampmeter_serve::denials::Denials;
use rampmeter_serve::leadership::peer_discovery::{PING, ServiceInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long to collect answers of all schedulers.
const COLLECT: Duration = Duration::from_millis(300);
/// The longest wait for a scheduler's answer.
const ANSWER: Duration = Duration::from_secs(2);

/// The schedulers of one prefix on a NATS server.
pub(super) struct Schedulers {
    client: Client,
    subjects: Subjects,
    denials: Denials,
}

impl Schedulers {
    pub(super) async fn connect(nats: &NatsArg, name: &str) -> anyhow::Result<Self> {
        let (table, file) = nats.table()?;
        let denials = Denials::default();
        let client = by_file(connect(&denials, &table, name).await, file)?;
        Ok(Schedulers { client, subjects: Subjects::new(&table.prefix)?, denials })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    /// Returns the named resource, or those of all schedulers. Fails if none is named and no scheduler answers.
    pub(super) async fn named_or_all(&self, named: Option<&Name>) -> anyhow::Result<Vec<Name>> {
        if let Some(name) = named {
            return Ok(vec![name.clone()]);
        }
        let names = self.known_resources().await?;
        if names.is_empty() {
            let silence =
                format!("no scheduler answers on `{}`; is `rampmeter serve` running?", self.subjects.resources());
            bail!(self.denials.reason(&[], &silence));
        }
        Ok(names)
    }

    /// Returns the names of all resources, each scheduler answering with its own. Empty if none answers.
    pub(super) async fn known_resources(&self) -> anyhow::Result<Vec<Name>> {
        let listed: Vec<Resources> = self.collect(self.subjects.resources()).await?;
        let mut names: Vec<Name> = listed.into_iter().flat_map(|all| all.resources).map(|one| one.name).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Returns the announcements of the schedulers of this prefix.
    pub(super) async fn announced(&self) -> anyhow::Result<Vec<ServiceInfo>> {
        let mut all: Vec<ServiceInfo> = self.collect(PING.to_owned()).await?;
        all.retain(|info| info.metadata.prefix == **self.subjects.prefix());
        Ok(all)
    }

    /// Returns what NATS has lately denied to this user, if anything.
    pub(super) fn denial(&self) -> Option<String> {
        Some(self.denials.reason(&[], &"")).filter(|denial| !denial.is_empty())
    }

    /// Returns the answers to one question that arrive in time.
    async fn collect<A: DeserializeOwned>(&self, subject: String) -> anyhow::Result<Vec<A>> {
        let inbox = self.client.new_inbox();
        let answers = self.client.subscribe(inbox.clone()).await?;
        self.client.publish_with_reply(subject, inbox, "".into()).await?;
        let mut in_time = Box::pin(answers.take_until(tokio::time::sleep(COLLECT)));
        let mut found = Vec::new();
        while let Some(answer) = in_time.next().await {
            found.extend(serde_json::from_slice(&answer.payload).ok());
        }
        Ok(found)
    }

    /// Requests the status of the named resource, or of each. Fails if a leader is missing or does not answer.
    pub(super) async fn statuses(&self, named: Option<&Name>) -> anyhow::Result<Vec<Status>> {
        let mut all = Vec::new();
        for name in self.named_or_all(named).await? {
            all.push(self.status(&name).await?);
        }
        Ok(all)
    }

    /// Requests the status of `resource`. Fails if no scheduler leads it, or the leader does not answer.
    pub(super) async fn status(&self, resource: &Name) -> anyhow::Result<Status> {
        self.request(self.subjects.status(resource), Vec::new(), resource).await
    }

    /// Sends a question or an order to the leader of `resource`. Fails if it is missing, refuses, or does not answer.
    pub(super) async fn ask<A: DeserializeOwned>(
        &self,
        subject: fn(&Subjects, &Name) -> String,
        question: &impl Serialize,
        resource: &Name,
    ) -> anyhow::Result<A> {
        self.request(subject(&self.subjects, resource), serde_json::to_vec(question)?, resource).await
    }

    /// Lists the existing resources, for a message on one that does not exist.
    pub(super) async fn others_than(&self, resource: &Name) -> String {
        let known = self.known_resources().await.unwrap_or_default();
        let names = || known.iter().map(|name| &**name);
        match known.len() {
            0 => String::new(),
            1 => format!("{}; there is {}", did_you_mean(resource, names()), quoted(names())),
            _ => format!("{}; there are {}", did_you_mean(resource, names()), quoted(names())),
        }
    }

    async fn request<A: DeserializeOwned>(
        &self,
        subject: String,
        question: Vec<u8>,
        resource: &Name,
    ) -> anyhow::Result<A> {
        let answer = self.client.request(subject, question.into());
        match tokio::time::timeout(ANSWER, answer).await {
            Ok(Ok(message)) => read(&message),
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {
                bail!("no running scheduler owns resource `{resource}`{}", self.others_than(resource).await)
            }
            Ok(Err(error)) => Err(error).with_context(|| format!("resource `{resource}`")),
            Err(_) => {
                let silence = format!("the scheduler of resource `{resource}` does not answer");
                bail!(self.denials.reason(&[resource], &silence))
            }
        }
    }
}

fn read<A: DeserializeOwned>(message: &Message) -> anyhow::Result<A> {
    let error = message.headers.as_ref().and_then(|headers| headers.get("Nats-Service-Error"));
    match error {
        Some(error) => bail!("{error}"),
        None => serde_json::from_slice(&message.payload).context("the answer is not of the protocol"),
    }
}
