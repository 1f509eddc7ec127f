//! The HTTP front, from its clients' side.

use crate::api::http;
use crate::{nats, scheduler};
use rampmeter_nats_server::Server;
use rampmeter_scheduler::running::Running;
use serde_json::Value;
use std::net::SocketAddr;

/// A scheduler in this process, and a client of its front.
pub struct Front {
    /// The scheduler.
    pub running: Running,
    http: reqwest::Client,
    url: String,
}

/// An answer of the front.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body; text if it is not JSON.
    pub body: Value,
}

impl Response {
    /// Reads the rest of `response`.
    pub async fn read(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        Response { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    /// A header's text, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Front {
    /// Starts a scheduler of `resources`, which leads them, with `http` in its `[http]`.
    pub async fn start(nats: &Server, http: &str, resources: &str) -> Self {
        Self::of(scheduler::start(nats, &format!("{http}\n{resources}")).await)
    }

    /// The same, on a server of its own.
    pub async fn alone(http: &str, resources: &str) -> (Server, Self) {
        let nats = nats::start().await;
        let front = Self::start(&nats, http, resources).await;
        (nats, front)
    }

    /// The front of a running scheduler.
    pub fn of(running: Running) -> Self {
        let url = format!("http://{}", running.http().unwrap());
        Front { running, http: http(), url }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.running.http().unwrap()
    }

    /// Posts JSON to `path`.
    pub async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        self.post_with(path, &[("content-type", "application/json")], body).await
    }

    /// Posts `body` to `path` with these headers.
    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Response {
        let request = self.http.post(format!("{}{path}", self.url)).body(body);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Response::read(request.send().await.unwrap()).await
    }

    /// Gets `path` with these headers.
    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let request = self.http.get(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Response::read(request.send().await.unwrap()).await
    }
}

/// An `[http.check]` that asks for `resource`, with labels from all sources.
pub fn check(resource: &str) -> String {
    format!(
        "[http.check]\nresource = \"{resource}\"\ntrusted_proxies = [\"127.0.0.1/32\"]\n\
         [http.check.labels]\nclient = \"header:x-api-key\"\nroute = \"path\"\nmethod = \"method\"\naddress = \"client-address\"\n"
    )
}

/// A resource called `api` with one limit, called `few`.
pub fn few(capacity: u32, period: &str) -> String {
    format!(
        "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = {capacity}\nperiod = \"{period}\"\nmargin = 0\n"
    )
}
