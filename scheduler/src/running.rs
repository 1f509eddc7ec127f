//! A scheduler with its HTTP front.

use crate::commands::process::logging;
use crate::commands::simulate::what_if::WhatIfSimulator;
use rampmeter_config::Config;
use rampmeter_front::{BoundSocket, HttpServer, Program};
use rampmeter_serve::{self as serve, Scheduler};
use std::net::SocketAddr;

/// The functions of this program for the front.
const PROGRAM: Program = Program { forecaster: &WhatIfSimulator, lost_lines: logging::lost_lines };

/// A running scheduler, and its HTTP server. Dropping it ends it without a handover; see [`stop`](Running::stop).
pub struct Running {
    /// The scheduler.
    pub scheduler: Scheduler,
    http: Option<HttpServer>,
}

/// Starts serving everything in `config`.
///
/// # Errors
/// If NATS can't be reached or is too old, the KV bucket can't be created, or the HTTP address is taken.
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
    /// Returns the address of health and metrics, if they are served.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// Returns the URL of HTTP, if it is served.
    #[must_use]
    pub fn http_url(&self) -> Option<&str> {
        self.http.as_ref().map(HttpServer::url)
    }

    /// Returns once every resource is led, by this scheduler or another.
    pub async fn ready(&self) {
        self.scheduler.ready().await;
    }

    /// Hands every resource over, and then closes the HTTP connections.
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
