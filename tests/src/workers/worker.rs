//! A worker that speaks the protocol by hand, as any NATS client can.

use crate::front::Front;
use crate::patience::{until, within};
use crate::process::{Process, Program};
use crate::{nats, scheduler, shipped};
use async_nats::{Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use rampmeter_nats_server::Server;
use rampmeter_protocol::explain::Explanation;
use rampmeter_protocol::status::{LimitStatus, Status};
use rampmeter_scheduler::running::Running;
use serde_json::Value;
use std::time::Duration;

/// How long to wait before a request counts as lost. A request that meets a stopping leader or
/// server may stay without an answer.
const LOST: Duration = Duration::from_secs(1);

/// A connection, and the resource of its requests.
#[derive(Clone, Debug)]
pub struct Worker {
    client: async_nats::Client,
    resource: String,
}

impl Worker {
    /// A worker of `resource`.
    pub async fn connect(nats: &Server, resource: &str) -> Self {
        Self::at(nats.url(), resource).await
    }

    /// A worker of `resource` on the server at `url`.
    pub async fn at(url: &str, resource: &str) -> Self {
        Worker { client: async_nats::connect(url).await.unwrap(), resource: resource.to_owned() }
    }

    /// A worker of `resource` that is this user of the shipped configuration.
    pub async fn of_user(nats: &Server, user: &str, resource: &str) -> Self {
        Worker { client: shipped::login(user).connect(nats.url()).await.unwrap(), resource: resource.to_owned() }
    }

    /// A worker of the first of `resources`, beside a scheduler on a server of its own.
    pub async fn beside_scheduler(resources: &str) -> (Server, Running, Self) {
        let (nats, running) = scheduler::alone(resources).await;
        let worker = Self::of_first(&nats, resources).await;
        (nats, running, worker)
    }

    /// A worker of the first of `resources`, beside a front on a server of its own.
    pub async fn beside_front(http: &str, resources: &str) -> (Server, Front, Self) {
        let (nats, front) = Front::alone(http, resources).await;
        let worker = Self::of_first(&nats, resources).await;
        (nats, front, worker)
    }

    /// A worker of the first of `resources`, beside a scheduler in a process on a server of its own.
    pub async fn beside_process(program: Program, resources: &str) -> (Server, Process, Self) {
        let nats = nats::start().await;
        let process = Process::start(program, &nats, resources).await;
        let worker = Self::of_first(&nats, resources).await;
        (nats, process, worker)
    }

    async fn of_first(nats: &Server, resources: &str) -> Self {
        let (_, named) = resources.split_once("name = \"").expect("a resource has a name");
        Self::connect(nats, named.split('"').next().expect("a name ends")).await
    }

    /// Its connection.
    pub fn client(&self) -> &async_nats::Client {
        &self.client
    }

    /// The subject for `what`: permit, settle, status or event.
    pub fn subject(&self, what: &str) -> String {
        format!("rampmeter.{what}.{}", self.resource)
    }

    /// The only answer to `request` for a permit. If the answer says to ask again at once, the
    /// request is repeated, since no leader knew it.
    pub async fn ask(&self, request: Value) -> Value {
        let asking = async {
            loop {
                let answer = body(&self.request("permit", request.to_string()).await);
                if answer["code"] != "unavailable" {
                    return answer;
                }
            }
        };
        within("an answer from a leader", asking).await
    }

    /// The answer to `settle`, sent as a request.
    pub async fn settle(&self, settle: Value) -> Value {
        body(&self.request("settle", settle.to_string()).await)
    }

    /// The first answer to any payload.
    pub async fn request(&self, what: &str, payload: impl Into<Bytes>) -> Message {
        self.send(what, payload).await.next().await
    }

    /// Sends any payload, and returns its answers.
    pub async fn send(&self, what: &str, payload: impl Into<Bytes>) -> Answers {
        let inbox = self.client.new_inbox();
        let answers = Answers { answers: self.client.subscribe(inbox.clone()).await.unwrap(), inbox };
        self.send_also(&answers, what, payload).await;
        answers
    }

    /// Sends any payload whose answers come to the inbox of an earlier one. Answers keep the order
    /// of messages on one connection. All immediate answers to the earlier payload precede this
    /// one's.
    pub async fn send_also(&self, answers: &Answers, what: &str, payload: impl Into<Bytes>) {
        self.client.publish_with_reply(self.subject(what), answers.inbox.clone(), payload.into()).await.unwrap();
    }

    /// Sends any payload without a reply subject.
    pub async fn tell(&self, what: &str, payload: impl Into<Bytes>) {
        self.client.publish(self.subject(what), payload.into()).await.unwrap();
    }

    /// The resource's status.
    pub async fn status(&self) -> Status {
        serde_json::from_slice(&self.request("status", "").await.payload).unwrap()
    }

    /// The resource's status, as soon as it has a leader: right after a leader's end it has none.
    pub async fn status_of_leader(&self) -> Status {
        until("a scheduler leads", async || {
            let answer = tokio::time::timeout(LOST, self.request("status", "")).await.ok()?;
            (answer.status != Some(StatusCode::NO_RESPONDERS)).then(|| serde_json::from_slice(&answer.payload).unwrap())
        })
        .await
    }

    /// How many requests wait.
    pub async fn queued(&self) -> u64 {
        self.status().await.classes.iter().map(|class| class.queued).sum()
    }

    /// Waits until this many requests wait.
    pub async fn until_queued(&self, count: u64) {
        let wait = async || (self.queued().await == count).then_some(());
        until(&format!("{count} requests wait"), wait).await;
    }

    /// The events of the resource from now on.
    pub async fn events(&self) -> Subscriber {
        let events = self.client.subscribe(self.subject("event")).await.unwrap();
        self.client.flush().await.unwrap();
        events
    }

    /// The answer to a question why a request waits.
    pub async fn explanation(&self, question: &str) -> Explanation {
        serde_json::from_slice(&self.request("explain", question.to_owned()).await.payload).unwrap()
    }

    /// The state of the limit called `name`.
    pub async fn limit(&self, name: &str) -> LimitStatus {
        self.status().await.limits.into_iter().find(|limit| &*limit.name == name).expect("a limit of this name")
    }
}

/// Answers to one message, as they come.
#[derive(Debug)]
pub struct Answers {
    answers: Subscriber,
    inbox: String,
}

impl Answers {
    /// The next answer.
    pub async fn next(&mut self) -> Message {
        within("an answer", self.answers.next()).await.expect("the connection is open")
    }

    /// The content of the next answer.
    pub async fn body(&mut self) -> Value {
        body(&self.next().await)
    }
}

/// The next event of this kind.
pub async fn event(events: &mut Subscriber, kind: &str) -> Value {
    let of_kind = async {
        loop {
            let event = body(&events.next().await.expect("the connection is open"));
            if event["event"] == kind {
                return event;
            }
        }
    };
    within(kind, of_kind).await
}

/// The content of an answer.
///
/// # Panics
/// If it is not JSON, such as *no responders*.
pub fn body(message: &Message) -> Value {
    assert_eq!(message.status, None, "{} is not answered by a scheduler", message.subject);
    serde_json::from_slice(&message.payload).unwrap_or_else(|error| panic!("{error}: {:?}", message.payload))
}
