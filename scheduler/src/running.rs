//! A scheduler with its HTTP front.

use crate::commands::process::logging;
use crate::commands::simulate::what_if::WhatIfSimulator;
use rampmeter_config::Config;
use rampmeter_front::{BoundSocket, HttpServer, Program};
use rampmeter_protocol::name::Name;
use rampmeter_serve::{self as serve, Scheduler};
use rampmeter_telemetry::Spans;
use std::net::SocketAddr;

/// What the front asks this program.
const PROGRAM: Program = Program { forecaster: &WhatIfSimulator, lost_lines: logging::lost_lines };

/// A scheduler that runs, and what it serves over HTTP. Dropping it ends it without a handover;
/// [`stop`](Running::stop) hands over.
pub struct Running {
    scheduler: Scheduler,
    http: Option<HttpServer>,
}

/// Starts serving everything in `config`.
///
/// # Errors
/// If NATS can't be reached or is too old, the KV bucket can't be made, or the HTTP address is
/// taken.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    let socket = BoundSocket::bind(config.http.clone()).await?;
    let scheduler = serve::start(config).await?;
    let mut running = Running { scheduler, http: None };
    let Some(socket) = socket else { return Ok(running) };
    match socket.serve(running.scheduler.view(), PROGRAM).await {
        Ok(http) => {
            running.http = Some(http);
            Ok(running)
        }
        Err(error) => {
            // The scheduler may lead already.
            running.stop().await.ok();
            Err(error)
        }
    }
}

impl Running {
    /// Where health and metrics are served, if they are.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// The URL of HTTP, if it is served.
    #[must_use]
    pub fn http_url(&self) -> Option<&str> {
        self.http.as_ref().map(HttpServer::url)
    }

    /// Where spans go, if this process sends any.
    #[must_use]
    pub fn spans(&self) -> Option<Spans> {
        self.scheduler.spans()
    }

    /// Returns when every resource is led, by this scheduler or another.
    pub async fn ready(&self) {
        self.scheduler.ready().await;
    }

    /// Waits until every resource is led, and returns the leader of each: another scheduler, or
    /// `None` for this one.
    pub fn leaders(&self) -> impl Future<Output = Vec<(Name, Option<String>)>> + use<> {
        self.scheduler.leaders()
    }

    /// Returns if something ends that should go on. This process is to be replaced then.
    pub async fn broken(&mut self) -> anyhow::Error {
        self.scheduler.broken().await
    }

    /// Hands every resource over, and then ends the connections of HTTP.
    ///
    /// # Errors
    /// If the handover takes longer than 5 s.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let handed_over = self.scheduler.hand_over().await;
        if let Some(http) = &self.http {
            http.clear().await;
        }
        self.scheduler.finish().await;
        handed_over
    }
}
