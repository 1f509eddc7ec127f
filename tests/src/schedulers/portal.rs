//! Resources whose provider tells the limits, and the customer's credentials.

use crate::customer_portal::Portal;
use crate::process::{Process, Program};
use crate::scheduler::configuration;
use rampmeter_nats_server::Server;
use std::time::Duration;

/// The environment variables in which schedulers find the credentials.
pub const ENVIRONMENT: [(&str, &str); 2] = [("HUB_CLIENT_ID", CLIENT_ID), ("HUB_CLIENT_SECRET", CLIENT_SECRET)];
/// The customer.
pub const CLIENT_ID: &str = "canary-client-id";
/// The customer's secret, with characters that a form has to escape.
pub const CLIENT_SECRET: &str = "canary+client&secret=1%";

/// An upstream that enforces `policies` and tells its customer about them.
pub async fn upstream(policies: &[&str]) -> Portal {
    Portal::start(policies, (CLIENT_ID, CLIENT_SECRET), Duration::from_secs(3600)).await
}

/// An upstream that allows a thousand requests a minute, and whose tokens live so long.
pub async fn with_token_life(life: Duration) -> Portal {
    Portal::start(&["requests=1000/PT1M"], (CLIENT_ID, CLIENT_SECRET), life).await
}

/// The `provider` of a resource, which asks `upstream` every second and also has the keys in
/// `more`.
pub fn provider(upstream: &Portal, more: &str) -> String {
    let url = upstream.url();
    format!(
        "{{ kind = \"sentinel-hub\", base_url = \"{url}\", client_id_env = \"HUB_CLIENT_ID\", \
         token_url = \"{url}/auth/realms/main/protocol/openid-connect/token\", \
         contract_every = \"1s\", timeout = \"2s\", {more} }}"
    )
}

/// A resource of requests, `per_minute` of them, whose provider is `upstream`.
pub fn resource(name: &str, per_minute: u32, upstream: &Portal, more: &str) -> String {
    let provider = provider(upstream, &format!("client_secret_env = \"HUB_CLIENT_SECRET\", {more}"));
    format!(
        "[[resource]]\nname = \"{name}\"\nprovider = {provider}\n[[resource.limit]]\nname = \"per-minute\"\n\
         capacity = {per_minute}\nperiod = \"PT1M\"\n"
    )
}

/// A scheduler of `resources` in its own process, with the credentials. It may not be ready yet.
pub fn begin(program: Program, nats: &Server, resources: &str) -> Process {
    Process::begin_in(program, &configuration(nats.url(), resources), &[], &ENVIRONMENT)
}

/// The same, ready.
///
/// # Panics
/// If it does not become ready; the message has its log.
pub async fn start(program: Program, nats: &Server, resources: &str) -> Process {
    let mut process = begin(program, nats, resources);
    process.until_ready().await;
    process
}
