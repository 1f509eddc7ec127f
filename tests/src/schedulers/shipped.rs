//! nats-servers with the configuration of `deploy/nats`, on free ports.

use crate::cluster::{Cluster, Seat, impatient};
use crate::nats;
use crate::patience::until;
use crate::repository::root;
use async_nats::ConnectOptions;
use rampmeter_nats_server::{Options, Server};
use rampmeter_scheduler::running::Running;
use std::path::PathBuf;
use tempfile::TempDir;

/// The users of that configuration, and the inboxes for their answers.
pub const USERS: [(&str, &str); 4] = [
    ("worker", "_INBOX_worker"),
    ("bulk", "_INBOX_bulk"),
    ("operator", "_INBOX_operator"),
    ("scheduler", "_INBOX_scheduler"),
];

/// The users of the account of jobs, and their inboxes.
pub const JOBS_USERS: [(&str, &str); 2] = [("jobs", "_INBOX_jobs"), ("jobs-operator", "_INBOX")];

/// The path of a file of `deploy/nats`.
pub fn path(name: &str) -> PathBuf {
    root().join("deploy/nats").join(name)
}

/// One server.
pub async fn single() -> Server {
    nats::start_with(options("single.conf", passwords())).await
}

/// A folder whose `single.conf` has the account of jobs and these further settings.
pub fn folder_with_jobs(further: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["single.conf", "jetstream.conf", "accounts.conf", "jobs.conf"] {
        let text = std::fs::read_to_string(path(name)).unwrap();
        std::fs::write(folder.path().join(name), text.replace("# include", "include")).unwrap();
    }
    let single = folder.path().join("single.conf");
    let text = std::fs::read_to_string(&single).unwrap();
    std::fs::write(single, format!("{text}{further}")).unwrap();
    folder
}

/// One server with the account of jobs and these further settings, and the folder with its
/// configuration.
pub async fn single_with_jobs(further: &str) -> (TempDir, Server) {
    let folder = folder_with_jobs(further);
    let configuration = Some(folder.path().join("single.conf"));
    (folder, nats::start_with(Options { configuration, ..options("single.conf", passwords_with_jobs()) }).await)
}

/// One server whose `accounts.conf` is changed, and the folder with its configuration.
pub async fn single_with_accounts(change: impl Fn(&str) -> String) -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["single.conf", "jetstream.conf", "accounts.conf"] {
        let text = std::fs::read_to_string(path(name)).unwrap();
        let text = if name == "accounts.conf" { change(&text) } else { text };
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let configuration = Some(folder.path().join("single.conf"));
    (folder, nats::start_with(Options { configuration, ..options("single.conf", passwords()) }).await)
}

/// A cluster that answers schedulers, though it may need another moment before it makes a bucket.
pub async fn cluster() -> Cluster {
    let cluster = Cluster::start_with(|seat| options("cluster.conf", variables(seat))).await;
    let client = login("scheduler").connect(cluster.urls().as_slice()).await.unwrap();
    let jetstream = impatient(client);
    until("the cluster has a leader", async || jetstream.query_account().await.ok()).await;
    cluster
}

/// The environment variables of a node in `seat`, beside its store.
pub fn variables(seat: &Seat) -> Vec<(String, String)> {
    let routes = seat.routes.map(|route| format!("nats://route:{}@{route}", password("route")));
    let of_node = [
        ("NATS_NAME", seat.name.clone()),
        ("NATS_CLUSTER_LISTEN", seat.listen.to_string()),
        ("NATS_ROUTE_PASSWORD", password("route")),
        ("NATS_ROUTES", format!("[{}]", routes.join(", "))),
    ];
    let of_node = of_node.map(|(name, value)| (name.to_owned(), value));
    passwords().into_iter().chain(of_node).collect()
}

/// The environment variables with the users' passwords.
pub fn passwords() -> Vec<(String, String)> {
    USERS.map(|(user, _)| variable(user)).into()
}

/// The same with those of the account of jobs.
pub fn passwords_with_jobs() -> Vec<(String, String)> {
    let of_jobs = JOBS_USERS.map(|(user, _)| variable(user));
    passwords().into_iter().chain(of_jobs).collect()
}

fn variable(user: &str) -> (String, String) {
    (format!("NATS_{}_PASSWORD", user.to_uppercase().replace('-', "_")), password(user))
}

/// The URL with which `user` connects to `server`.
pub fn url(server: &Server, user: &str) -> String {
    server.url().replace("nats://", &format!("nats://{user}:{}@", password(user)))
}

/// How `user` connects, with its answers in its own inboxes.
pub fn login(user: &str) -> ConnectOptions {
    let (_, inbox) = USERS.into_iter().chain(JOBS_USERS).find(|(name, _)| *name == user).expect("a user");
    ConnectOptions::with_user_and_password(user.to_owned(), password(user)).custom_inbox_prefix(inbox)
}

/// The configuration of a scheduler of `resources` whose server is at `url`.
pub fn configuration(url: &str, resources: &str) -> String {
    let nats = "[nats]\ninbox_prefix = \"_INBOX_scheduler\"";
    crate::scheduler::configuration(url, resources).replace("[nats]", nats)
}

/// A scheduler of `resources` that leads them, as the user of schedulers.
pub async fn lead(server: &Server, resources: &str) -> Running {
    crate::scheduler::start_by(&configuration(&url(server, "scheduler"), resources)).await
}

fn options(name: &str, environment: Vec<(String, String)>) -> Options {
    Options {
        configuration: Some(path(name)),
        arguments: ["--http_port", "-1"].map(str::to_owned).into(),
        environment,
        ..Options::default()
    }
}

fn password(user: &str) -> String {
    format!("password-of-{user}")
}
