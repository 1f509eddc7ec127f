//! Permissions in the shipped configuration of nats-server. Workers ask, settle and receive
//! broadcasts, and only schedulers write state.

use crate::prelude::*;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, Subscriber};
use rampmeter_worker_sdk as sdk;
use std::net::TcpListener;
use std::process::Output;
use tokio::sync::mpsc;

/// Subjects, and the users that may publish there.
#[rustfmt::skip]
const PUBLISH: &[(&str, &str)] = &[
    ("rampmeter.permit.hub",                                             "worker scheduler"),
    ("rampmeter.permit-interactive.hub",                                 "worker"),
    ("rampmeter.permit-bulk.hub",                                        "worker bulk"),
    ("rampmeter.settle.hub",                                             "worker bulk scheduler"),
    ("rampmeter.status.hub",                                             "operator scheduler"),
    ("rampmeter.explain.hub",                                            "operator scheduler"),
    ("rampmeter.purge.hub",                                              "operator scheduler"),
    ("rampmeter.thaw.hub",                                               "operator scheduler"),
    ("rampmeter.freeze.hub",                                             "operator scheduler"),
    ("rampmeter.empty.hub",                                              "operator"),
    ("rampmeter.usage.hub",                                              "operator"),
    ("rampmeter.resources",                                              "worker bulk operator"),
    ("rampmeter.rules.read",                                             "operator"),
    ("rampmeter.rules.write",                                            "operator"),
    // Only a user that is meant to have the upstream's access token.
    ("rampmeter.token.hub",                                              ""),
    ("rampmeter.event.hub",                                              "scheduler"),
    ("rampmeter.event.hub.more",                                         ""),
    ("rampmeter.probe.hub.scheduler-1",                                  "scheduler"),
    ("rampmeter.witness.hub.scheduler-1",                                "scheduler"),
    ("rampmeter.echo.hub",                                               "scheduler"),
    ("rampmeter.other.hub",                                              ""),
    // Reporting, in the server's place, that an answer has reached no client.
    ("rampmeter.undelivered.hub.0.a._INBOX.x.1",                         ""),
    ("rampmeter.permit.hub.more",                                        ""),
    ("$SRV.PING",                                                        "operator"),
    ("$SRV.PING.rampmeter",                                              "operator scheduler"),
    ("$SRV.STATS.rampmeter",                                             "operator"),
    // Answering in the scheduler's place, or interfering in its exchange with the store.
    ("rampmeter@WORKER._INBOX_worker.a.1",                               "scheduler"),
    ("rampmeter@BULK._INBOX_bulk.a.1",                                   "scheduler"),
    ("_INBOX_worker.a.1",                                                ""),
    ("_INBOX_bulk.a.1",                                                  ""),
    // Speaking for another account.
    ("rampmeter.permit@WORKER.hub",                                      ""),
    ("rampmeter.settle@BULK.hub",                                        ""),
    ("rampmeter.resources.@WORKER",                                      ""),
    ("_INBOX_operator.a.1",                                              "scheduler"),
    ("_INBOX.a.1",                                                       ""),
    ("_INBOX_scheduler.a.1",                                             "scheduler"),
    // The store.
    ("$KV.rampmeter.state.hub",                                          "scheduler"),
    ("$KV.other.key",                                                    ""),
    ("$JS.API.INFO",                                                     "scheduler"),
    ("$JS.API.STREAM.INFO.KV_rampmeter",                                 "scheduler"),
    ("$JS.API.STREAM.CREATE.KV_rampmeter",                               "scheduler"),
    ("$JS.API.STREAM.MSG.GET.KV_rampmeter",                              "scheduler"),
    ("$JS.API.DIRECT.GET.KV_rampmeter.$KV.rampmeter.state.hub",          "scheduler"),
    ("$JS.API.CONSUMER.CREATE.KV_rampmeter",                             "scheduler"),
    ("$JS.API.CONSUMER.CREATE.KV_rampmeter.a.$KV.rampmeter.>",           "scheduler"),
    ("$JS.API.CONSUMER.INFO.KV_rampmeter.a",                             "scheduler"),
    ("$JS.API.CONSUMER.DELETE.KV_rampmeter.a",                           "scheduler"),
    ("$JS.FC.KV_rampmeter.a.b",                                          "scheduler"),
    ("$JS.FC.domain.hash.KV_rampmeter.a.b",                              "scheduler"),
    // The rules.
    ("$KV.rampmeter-rules.rules",                                        "scheduler"),
    ("$KV.rampmeter-rules.counts",                                       "scheduler"),
    ("$KV.rampmeter-rules.other",                                        ""),
    ("$JS.API.STREAM.INFO.KV_rampmeter-rules",                           "scheduler"),
    ("$JS.API.STREAM.CREATE.KV_rampmeter-rules",                         "scheduler"),
    ("$JS.API.STREAM.DELETE.KV_rampmeter-rules",                         ""),
    ("$JS.API.STREAM.PURGE.KV_rampmeter-rules",                          ""),
    ("$JS.API.DIRECT.GET.KV_rampmeter-rules.$KV.rampmeter-rules.rules",  "scheduler"),
    ("$JS.API.CONSUMER.CREATE.KV_rampmeter-rules.a.$KV.rampmeter-rules.>", "scheduler"),
    ("$JS.API.CONSUMER.DELETE.KV_rampmeter-rules.a",                     "scheduler"),
    ("$JS.API.STREAM.UPDATE.KV_rampmeter",                               ""),
    ("$JS.API.STREAM.DELETE.KV_rampmeter",                               ""),
    ("$JS.API.STREAM.PURGE.KV_rampmeter",                                ""),
    ("$JS.API.STREAM.MSG.DELETE.KV_rampmeter",                           ""),
    ("$JS.API.STREAM.SNAPSHOT.KV_rampmeter",                             ""),
    ("$JS.API.STREAM.RESTORE.KV_rampmeter",                              ""),
    ("$JS.API.STREAM.CREATE.other",                                      ""),
    ("$JS.API.STREAM.INFO.KV_other",                                     ""),
    ("$JS.API.STREAM.NAMES",                                             ""),
    ("$JS.API.CONSUMER.CREATE.KV_other.a",                               ""),
    ("$SYS.REQ.SERVER.PING",                                             ""),
];

/// Subjects, and the users that may subscribe to them.
#[rustfmt::skip]
const SUBSCRIBE: &[(&str, &str)] = &[
    ("rampmeter.event.hub",                                              "worker bulk operator scheduler"),
    ("rampmeter.event.*",                                                "worker bulk operator scheduler"),
    ("rampmeter.permit.hub",                                             "scheduler"),
    ("rampmeter.settle.hub",                                             "scheduler"),
    ("rampmeter.status.hub",                                             "scheduler"),
    ("rampmeter.*.hub",                                                  "scheduler"),
    ("rampmeter.*.*",                                                    "scheduler"),
    ("rampmeter.permit@WORKER.hub",                                      "scheduler"),
    ("rampmeter.token.*.hub",                                            "scheduler"),
    ("rampmeter.undelivered.hub.0.>",                                    "scheduler"),
    // The server lets `*` stand for `>` here; no user may publish to such a subject.
    ("rampmeter.event.>",                                                "worker bulk operator scheduler"),
    ("rampmeter.probe.hub.scheduler-1",                                  "scheduler"),
    ("rampmeter.witness.hub.scheduler-1",                                "scheduler"),
    ("rampmeter.resources",                                              "scheduler"),
    ("$SRV.PING.rampmeter",                                              "scheduler"),
    ("_INBOX_worker.a.*",                                                "worker"),
    ("_INBOX_bulk.a.*",                                                  "bulk"),
    ("_INBOX_operator.a.*",                                              "operator"),
    ("_INBOX.a.*",                                                       ""),
    ("_INBOX_scheduler.a.*",                                             "scheduler"),
    ("$KV.rampmeter.>",                                                  ""),
    ("$JS.API.>",                                                        ""),
    ("rampmeter.>",                                                      ""),
    ("*.*.hub",                                                          ""),
    (">",                                                                ""),
];

/// Subjects, and the users that may join a queue group there and so take requests from its members.
#[rustfmt::skip]
const JOIN: &[(&str, &str)] = &[
    ("rampmeter.permit.hub",                                             "scheduler"),
    ("rampmeter.resources",                                              "scheduler"),
    ("_INBOX_scheduler.>",                                               "scheduler"),
];

/// A connection, and the server's refusals on it.
pub(crate) struct User {
    client: Client,
    refusals: mpsc::UnboundedReceiver<String>,
    /// Markers so far.
    markers: usize,
}

impl User {
    pub(crate) async fn connect(nats: &Server, name: &str) -> Self {
        Self::try_connect(nats, name).await.unwrap()
    }

    /// Connects to a server that may just be reading its users anew.
    pub(crate) async fn try_connect(nats: &Server, name: &str) -> Result<Self, async_nats::ConnectError> {
        let (sender, refusals) = mpsc::unbounded_channel();
        let options = shipped::login(name).event_callback(move |event| {
            if let Event::ServerError(error) = event {
                sender.send(error.to_string()).ok();
            }
            std::future::ready(())
        });
        Ok(User { client: options.connect(nats.url()).await?, refusals, markers: 0 })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) async fn publish(&mut self, subject: &str) -> Vec<String> {
        self.client.publish(subject.to_owned(), "".into()).await.unwrap();
        self.refused().await
    }

    async fn subscribe(&mut self, subject: &str) -> (Subscriber, Vec<String>) {
        let subscriber = self.client.subscribe(subject.to_owned()).await.unwrap();
        (subscriber, self.refused().await)
    }

    async fn join(&mut self, subject: &str, group: &str) -> Vec<String> {
        let _member = self.client.queue_subscribe(subject.to_owned(), group.to_owned()).await.unwrap();
        self.refused().await
    }

    /// The server's refusals of all messages until now. The server handles a connection's messages
    /// in order, so the refusal of a forbidden marker comes last.
    async fn refused(&mut self) -> Vec<String> {
        self.markers += 1;
        let marker = format!("nobody.{}", self.markers);
        self.client.publish(marker.clone(), "".into()).await.unwrap();
        let mut refused = Vec::new();
        loop {
            let refusal = within("the marker is refused", self.refusals.recv()).await.expect("the connection is open");
            if refusal.contains(&marker) {
                return refused;
            }
            refused.push(refusal);
        }
    }

    pub(crate) async fn request(&self, subject: &str, payload: Value) -> Value {
        body(&within("an answer", self.client.request(subject.to_owned(), payload.to_string().into())).await.unwrap())
    }
}

/// A server, a scheduler that leads `hub`, and a worker that knows it.
struct Stage {
    worker: User,
    news: Subscriber,
    _scheduler: Running,
    nats: Server,
}

async fn stage() -> Stage {
    let nats = shipped::single().await;
    let mut worker = User::connect(&nats, "worker").await;
    let (mut news, refused) = worker.subscribe("rampmeter.event.hub").await;
    assert!(refused.is_empty(), "{refused:?}");
    let scheduler = shipped::lead(&nats, HUNDRED).await;
    // A leader with a new store announces that it listens, without an epoch, and that it leads.
    for epoch in [0, 1] {
        let event = body(&within("an event", news.next()).await.unwrap());
        assert_eq!((&event["event"], &event["epoch"]), (&json!("leader"), &json!(epoch)));
    }
    Stage { worker, news, _scheduler: scheduler, nats }
}

#[tokio::test]
async fn each_user_may_do_its_part_and_nothing_else() {
    let nats = shipped::single().await;
    for (name, _) in shipped::USERS {
        let mut user = User::connect(&nats, name).await;
        for (subject, who_may) in PUBLISH {
            check(name, subject, who_may, &user.publish(subject).await);
        }
        for (subject, who_may) in SUBSCRIBE {
            check(name, subject, who_may, &user.subscribe(subject).await.1);
        }
        for (subject, who_may) in JOIN {
            check(name, subject, who_may, &user.join(subject, "group").await);
        }
    }
}

/// Checks that this subject was refused once, unless `user` is among those that may use it.
fn check(user: &str, subject: &str, who_may: &str, refused: &[String]) {
    let expected = usize::from(!who_may.split(' ').any(|who| who == user));
    assert_eq!(refused.len(), expected, "{user}, {subject}: {refused:?}");
    assert!(refused.iter().all(|refusal| refusal.contains(&format!("\"{subject}\""))), "{subject}: {refused:?}");
}

#[tokio::test]
async fn wrong_credentials_are_refused() {
    let nats = shipped::single().await;
    let password = |user: &str, password: &str| ConnectOptions::with_user_and_password(user.into(), password.into());
    let table = [
        ConnectOptions::new(),
        password("worker", ""),
        password("worker", "password-of-scheduler"),
        password("scheduler", "password-of-worker"),
        password("route", "password-of-route"),
        password("sys", ""),
    ];
    for options in table {
        let error = options.connect(nats.url()).await.expect_err("refused");
        assert_eq!(error.kind(), ConnectErrorKind::AuthorizationViolation);
    }
    let text = shipped::configuration(&shipped::url(&nats, "scheduler").replace("password-of", "guess"), HUNDRED);
    let error = scheduler::refused(&text).await;
    let server = nats.url();
    assert!(error.starts_with(&format!("the NATS server at {server} does not take this user and password")), "{error}");
    assert!(!error.contains("guess"), "{error}");
}

/// Like a scheduler's configuration, with several servers of which one may be away.
#[tokio::test]
async fn a_worker_is_the_user_of_its_url_and_no_error_shows_its_password() {
    let nats = shipped::single().await;
    let url = shipped::url(&nats, "worker");
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [url.clone(), format!("nats://{away},{url}")] {
        sdk::Client::connect(&url).await.unwrap();
    }
    let wrong = url.replace("password-of", "guess");
    for url in [wrong.clone(), wrong.replace("nats://", "http://")] {
        let client = sdk::Client::connect(&url).await.expect_err("refused");
        let queue = Queue::open(&url, "roles").await.expect_err("refused");
        for error in [format!("{client} {client:?}"), format!("{queue} {queue:?}")] {
            assert!(!error.contains("guess"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_token_in_the_url_opens_a_server_that_wants_one() {
    let options = Options { arguments: ["--auth", "known"].map(str::to_owned).into(), ..Options::default() };
    let nats = nats::start_with(options).await;
    let url = |token: &str| nats.url().replace("nats://", &format!("nats://{token}@"));
    let _scheduler = scheduler::try_begin(&scheduler::configuration(&url("known"), HUNDRED)).await.unwrap();
    sdk::Client::connect(url("known")).await.unwrap();
    let error = sdk::Client::connect(url("guessed")).await.expect_err("refused");
    assert!(!format!("{error} {error:?}").contains("guessed"), "{error}");
}

#[tokio::test]
async fn a_worker_gets_permits_in_all_modes_settles_and_hears_the_news() {
    let Stage { worker, nats, .. } = &mut stage().await;
    let client = sdk::Client::builder()
        .options(shipped::login("worker"))
        .inbox_prefix("_INBOX_worker")
        .connect(nats.url())
        .await
        .unwrap();
    let hub = client.resource("hub").unwrap();
    for asked in [hub.try_acquire(1), hub.reserve(1), hub.acquire(1)] {
        let permit = within("a permit", asked.into_future()).await.unwrap();
        permit.begin().settle(Outcome::status(200));
    }
    client.close().await;

    let granted = worker.request("rampmeter.permit.hub", json!({"id": "a", "mode": "wait"})).await;
    assert_eq!((&granted["status"], &granted["epoch"]), (&json!("granted"), &json!(1)));
    let settled = worker.request("rampmeter.settle.hub", json!({"id": "a", "used": false})).await;
    assert_eq!(settled, json!({"status": "settled", "id": "a"}));
    assert!(worker.refused().await.is_empty());
}

#[tokio::test]
async fn an_operator_finds_schedulers_and_sees_how_they_do() {
    let Stage { nats, .. } = &stage().await;
    let mut operator = User::connect(nats, "operator").await;
    let found = operator.request("$SRV.PING.rampmeter", json!({})).await;
    assert_eq!(found["name"], "rampmeter");
    assert!(operator.refused().await.is_empty());
    let url = shipped::url(nats, "operator");
    let rules = file_with(HUNDRED.replace("100", "90"));
    let file = rules.path().to_str().unwrap();
    let looks = [vec!["status"], vec!["status", "hub", "--json"], vec!["explain", "hub"]];
    let edits = [vec!["apply", file], vec!["limits", "get", "hub"], vec!["limits", "reset", "hub"]];
    for arguments in looks.into_iter().chain(edits) {
        let Output { status, stdout, stderr } =
            process::run(RAMPMETER, &[&arguments[..], &["--nats", &url, "--inbox-prefix", "_INBOX_operator"]].concat())
                .await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert!(status.success() && !stdout.is_empty(), "{arguments:?}: {}{}", text(stdout), text(stderr));
    }
}

/// Watching KV needs a consumer, and therefore more rights than reading and writing.
#[tokio::test]
async fn a_scheduler_may_watch_the_state() {
    let Stage { nats, .. } = &stage().await;
    let mut scheduler = User::connect(nats, "scheduler").await;
    let bucket = nats::bucket_of(&scheduler.client).await;
    let mut watch = bucket.watch_with_history("state.*").await.unwrap();
    let entry = within("an entry", watch.next()).await.unwrap().unwrap();
    assert_eq!(entry.key, "state.hub");
    drop(watch);
    assert!(scheduler.refused().await.is_empty());
}

/// The server does not check reply subjects. A scheduler that answered anywhere would write for a
/// worker what that worker may not write.
#[tokio::test]
async fn no_worker_can_make_the_scheduler_write_for_it() {
    let Stage { worker, nats, news, .. } = &mut stage().await;
    let operator = User::connect(nats, "operator").await;
    let forbidden = ["$KV.rampmeter.state.hub", "$KV.rampmeter.permits.hub.0", "rampmeter.event.hub"];
    for reply in forbidden {
        for (user, subject) in [
            (&*worker, "rampmeter.permit.hub"),
            (&*worker, "rampmeter.settle.hub"),
            (&operator, "rampmeter.status.hub"),
            (&operator, "rampmeter.explain.hub"),
            (&operator, "rampmeter.resources"),
        ] {
            let body = json!({"id": "forged"}).to_string();
            user.client.publish_with_reply(subject, reply, body.into()).await.unwrap();
        }
    }
    // The scheduler's reactions to earlier messages precede this answer.
    worker.request("rampmeter.permit.hub", json!({})).await;
    operator.request("rampmeter.resources", json!({})).await;
    let status: Status = serde_json::from_value(operator.request("rampmeter.status.hub", json!({})).await).unwrap();
    assert!(worker.refused().await.is_empty(), "and what was said until now has come");
    assert!(news.next().now_or_never().is_none(), "no event was forged");

    let scheduler = User::connect(nats, "scheduler").await;
    let bucket = nats::bucket_of(&scheduler.client).await;
    // The store too handles messages in order.
    bucket.put("after", "".into()).await.unwrap();
    let state = bucket.get("state.hub").await.unwrap().unwrap();
    assert!(state.starts_with(b"rampmeter "), "{state:?}");
    assert_eq!(bucket.get("permits.hub.0").await.unwrap(), None);
    assert_eq!((status.epoch, status.counters.granted), (Epoch::FIRST, 1), "no permit was granted without an answer");
}

/// The APIs of JetStream for one stream, as far as they answer or deliver, with a payload for those
/// that need one. `$S` is the stream.
const JETSTREAM: &[(&str, &str)] = &[
    ("STREAM.INFO.$S", ""),
    ("STREAM.CREATE.$S", r#"{"name":"$S"}"#),
    ("STREAM.UPDATE.$S", r#"{"name":"$S"}"#),
    ("STREAM.DELETE.$S", ""),
    ("STREAM.PURGE.$S", ""),
    ("STREAM.NAMES", ""),
    ("STREAM.LIST", ""),
    ("STREAM.MSG.GET.$S", r#"{"seq":1}"#),
    ("STREAM.MSG.DELETE.$S", r#"{"seq":1}"#),
    ("STREAM.SNAPSHOT.$S", r#"{"deliver_subject":"$R"}"#),
    ("STREAM.RESTORE.$S", ""),
    ("STREAM.LEADER.STEPDOWN.$S", ""),
    ("STREAM.PEER.REMOVE.$S", ""),
    ("DIRECT.GET.$S", r#"{"seq":1}"#),
    ("DIRECT.GET.$S", r#"{"batch":2,"multi_last":[">"]}"#),
    ("DIRECT.GET.$S.$KV.rampmeter-rules.rules", ""),
    ("DIRECT.GET.$S.$KV.rampmeter.state.hub", ""),
    ("CONSUMER.CREATE.$S", r#"{"stream_name":"$S","config":{"deliver_subject":"$R","ack_policy":"none"}}"#),
    (
        "CONSUMER.CREATE.$S.a",
        r#"{"stream_name":"$S","config":{"name":"a","deliver_subject":"$R","ack_policy":"none"}}"#,
    ),
    (
        "CONSUMER.CREATE.$S.b.>",
        r#"{"stream_name":"$S","config":{"name":"b","filter_subject":">","deliver_subject":"$R","ack_policy":"none"}}"#,
    ),
    (
        "CONSUMER.DURABLE.CREATE.$S.c",
        r#"{"stream_name":"$S","config":{"durable_name":"c","deliver_subject":"$R","ack_policy":"none"}}"#,
    ),
    ("CONSUMER.NAMES.$S", ""),
    ("CONSUMER.LIST.$S", ""),
    ("CONSUMER.INFO.$S.a", ""),
    ("CONSUMER.DELETE.$S.a", ""),
    ("CONSUMER.PAUSE.$S.a", ""),
    ("CONSUMER.UNPIN.$S.a", ""),
    ("CONSUMER.MSG.NEXT.$S.a", ""),
    ("CONSUMER.LEADER.STEPDOWN.$S.a", ""),
    ("INFO", ""),
    ("SERVER.REMOVE", ""),
    ("META.LEADER.STEPDOWN", ""),
];

/// JetStream answers and delivers to any subject of the account, whoever may write there. So no user
/// but the scheduler may ask it at all.
#[tokio::test]
async fn no_api_of_jetstream_stores_or_announces_anything_for_others() {
    let Stage { nats, news, worker, .. } = &mut stage().await;
    let url = shipped::url(nats, "operator");
    let rules = file_with(HUNDRED.replace("100", "90"));
    let apply = ["apply", rules.path().to_str().unwrap(), "--nats", &url, "--inbox-prefix", "_INBOX_operator"];
    let (code, output, errors) = process::said(RAMPMETER, &apply).await;
    assert_eq!(code, Some(0), "there is something to deliver: {output}{errors}");
    while news.next().now_or_never().is_some() {}
    for (name, _) in shipped::USERS.into_iter().filter(|(name, _)| *name != "scheduler") {
        let mut user = User::connect(nats, name).await;
        for reply in ["$KV.rampmeter.state.hub", "rampmeter.event.hub"] {
            for stream in ["KV_rampmeter", "KV_rampmeter-rules"] {
                for (api, payload) in JETSTREAM {
                    let subject = format!("$JS.API.{}", api.replace("$S", stream));
                    let payload = payload.replace("$S", stream).replace("$R", reply);
                    user.client.publish_with_reply(subject.clone(), reply, payload.into()).await.unwrap();
                    assert_eq!(user.refused().await.len(), 1, "{name} may ask {subject}");
                }
            }
        }
    }
    let scheduler = User::connect(nats, "scheduler").await;
    let bucket = nats::bucket_of(&scheduler.client).await;
    bucket.put("after", "".into()).await.unwrap();
    let mut records = bucket.history("state.hub").await.unwrap();
    while let Some(record) = records.next().await {
        let record = record.unwrap().value;
        assert!(record.starts_with(b"rampmeter "), "{record:?}");
    }
    worker.request("rampmeter.permit.hub", json!({})).await;
    let heard = news.next().now_or_never();
    assert!(heard.is_none(), "an event was forged: {heard:?}");
    let operator = User::connect(nats, "operator").await;
    assert_eq!(operator.request("rampmeter.status.hub", json!({})).await["epoch"], 1, "no record was replaced");
}
