//! The HTTP front of a scheduler: permits, `/check`, health, metrics and the web page.
//!
//! `probes` show programs how the scheduler is doing, and `page` shows people. The front grants permits to clients
//! without NATS: `permits` speaks the protocol, `check` answers reverse proxies. Both ask with the session of the
//! worker SDK (`conversation`; `settling` reports calls). Its messages go over NATS, so that every scheduler serves all
//! resources, or directly to this process if it leads (`front_client`). `connection_limiter`, `browser`, `reading` and
//! `token` decide which requests are admitted, and `token_holder` what they may ask for.
//!
//! # How it works
//!
//! * The front is an ordinary NATS client with its own connection. Each HTTP request for permits has a
//!   session, which asks until every element is answered, and ends after a second of silence. Requests
//!   share their knowledge of how long answers take.
//! * Every permit needs an id, and the session makes one if the client gives none. While a request waits,
//!   only the front asks for progress, which distinguishes a living scheduler from a dead one.
//! * A client that hangs up drops its conversation, whose permits the front gives back, also those granted later.
//! * A connection is either owed an answer or not. If all places are taken, the oldest connection that is
//!   owed none is closed: it is idle, slow, or still sending. Requests are therefore read to their end
//!   first. Requests of the front cannot take all places: some are kept for health.
//! * Any web page can make a browser send a request. The browser marks such a request, and it is refused.
//! * Only a configured proxy may speak for another client. A request that contradicts itself is refused.
//! * The IETF's `RateLimit` states what is left after the call. Only the leader knows that, and sends it
//!   with the permit. `RateLimit-Policy` hardly ever changes; the front reads it from the status.

mod access_log;
mod browser;
mod check;
mod connection_limiter;
mod conversation;
mod front_client;
pub mod metrics;
mod original_request;
mod page;
mod permits;
mod places;
mod probes;
mod rate_limit;
mod reading;
mod settling;
mod token;
mod token_holder;
mod token_reader;

use access_log::AccessLog;
use anyhow::Context;
use axum::Router;
use axum::http::{Method, StatusCode, Uri, request};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, post};
use browser::FrontGuard;
use check::Check;
use connection_limiter::ConnectionLimiter;
use front_client::FrontClient;
use original_request::OriginalRequest;
pub use page::{Callers, ForecastError, Forecaster, WhatIf};
use page::{JobQueues, WebPage};
use permits::Front;
use rampmeter_config::{HttpSettings, OriginSettings};
use rampmeter_listener::tls::Certificate;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::labels::Labels;
use rampmeter_serve::SchedulerView;
use rampmeter_serve::connection::connect_noting;
use rampmeter_serve::context::ProcessContext;
use rampmeter_serve::denials::Denials;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use token::Guard;
pub use token::check as check_settings;
use tokio::net::TcpListener;

/// The part of `max_connections` for requests whose answer `throttle` holds back: half.
const HELD_BACK: usize = 2;

/// The protocols of encrypted clients. HTTP/2 is left out, since a request holds its connection while it waits.
const HTTP_1: &[&[u8]] = &[b"http/1.1"];

/// A bound address, not yet served.
#[derive(Debug)]
pub struct BoundSocket {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
    certificate: Option<Certificate>,
    settings: HttpSettings,
}

/// Functions of the program around the front.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Answers the page's what-if questions.
    pub forecaster: &'static dyn Forecaster,
    /// Returns the number of lost log lines.
    pub lost_lines: fn() -> u64,
}

/// A running HTTP server.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    url: String,
    connection_limiter: ConnectionLimiter,
    front_client: Option<FrontClient>,
}

impl BoundSocket {
    /// Binds the address in `settings`, if there is one.
    ///
    /// # Errors
    /// If the address is not available, the token or the certificate can't be read, or other hosts would reach the
    /// front without a token.
    pub async fn bind(settings: HttpSettings) -> anyhow::Result<Option<Self>> {
        if settings.listen.is_empty() {
            return Ok(None);
        }
        settings.check_address()?;
        let guard = Guard::new(settings.tokens.as_ref().filter(|_| settings.front))?;
        let listen = &settings.listen;
        let bound = TcpListener::bind(listen).await;
        let listener = bound.with_context(|| {
            format!("`http.listen`: can't listen at {listen}; name another address, or \"\" for none")
        })?;
        let address = listener.local_addr()?;
        settings.check_reach(address.ip())?;
        let files = settings.tls.clone();
        let certificate = files.map(|files| Certificate::read(files, HTTP_1, Clock::start())).transpose();
        let certificate = certificate.context("`http.tls`")?;
        if settings.is_in_the_clear(address.ip()) {
            tracing::warn!(
                %address,
                "`http.listen`: tokens and permits travel in the clear; give `cert_file` and `key_file` in [http.tls], \
                 or set `behind_tls = true` in [http] if TLS ends before this scheduler"
            );
        }
        Ok(Some(BoundSocket { listener, address, guard, certificate, settings }))
    }

    /// Serves until the process ends. The front asks on a connection of its own, like any client.
    ///
    /// # Errors
    /// If the front can't connect, or can't listen for answers.
    pub async fn serve(self, scheduler: &Arc<SchedulerView>, program: Program) -> anyhow::Result<HttpServer> {
        let access_log = AccessLog::new(scheduler.context.clock);
        let mut open = probes::router(scheduler.clone(), program.lost_lines, access_log.clone())
            .method_not_allowed_fallback(misused);
        let (mut front_client, mut asked, has_front) = (None, Router::new(), self.settings.front);
        let connection_limiter = ConnectionLimiter::new(self.settings.max_connections);
        if has_front {
            let asking = front_client.insert(connect(scheduler).await?).clone();
            let front = Front::new(asking.clone(), scheduler.stopping.clone());
            asked = routes(Arc::new(front), &self.settings);
            if self.settings.page {
                let jobs_nats = self.settings.jobs_nats.clone().unwrap_or_else(|| scheduler.nats.clone());
                let jobs = JobQueues::new(self.settings.jobs.clone(), jobs_nats);
                asked = asked.merge(page::routes(WebPage::start(asking, scheduler, jobs, program.forecaster)));
                open = open.merge(page::files());
            }
            asked = guarded(asked, self.guard, access_log.clone(), &connection_limiter);
        }
        let router = with_directions(open.layer(from_fn(reading::bodiless)).merge(asked), has_front, &self.settings);
        let browser_guard = FrontGuard::new(&self.settings, access_log);
        let router = router.layer(from_fn_with_state(browser_guard, browser::guard));
        let url = self.settings.url(self.address);
        tokio::spawn(connection_limiter.clone().open(self.listener, self.certificate, router));
        Ok(HttpServer { address: self.address, url, connection_limiter, front_client })
    }
}

async fn connect(scheduler: &SchedulerView) -> anyhow::Result<FrontClient> {
    let SchedulerView { context: ProcessContext { leader, subjects, clock, .. }, nats, stopping, led, .. } = scheduler;
    let client = connect_noting(&Denials::default(), Some(stopping), nats, &format!("{leader}-http")).await?;
    FrontClient::start(client, subjects.clone(), led.clone(), *clock).await
}

/// Returns the labels of the request that a proxy at `peer` asks about.
///
/// # Errors
/// If the original request is ambiguous.
pub fn labels(asked: &request::Parts, peer: IpAddr, settings: &OriginSettings) -> Result<Labels<'static>, String> {
    let origin = OriginalRequest::new(asked, peer, settings, false);
    origin.and_then(|origin| origin.labels()).map_err(|error| error.to_string())
}

/// Returns the labels of a request from `peer` that this process forwards.
///
/// # Errors
/// If the request is ambiguous.
pub fn forwarded_labels(
    request: &request::Parts,
    peer: IpAddr,
    settings: &OriginSettings,
) -> Result<Labels<'static>, String> {
    let origin = OriginalRequest::new(request, peer, settings, true);
    origin.and_then(|origin| origin.labels()).map_err(|error| error.to_string())
}

/// Answers requests for unknown paths with the list of pages.
fn with_directions(router: Router, has_front: bool, settings: &HttpSettings) -> Router {
    let pages = [
        ("GET / for people", has_front && settings.page),
        ("GET /healthz, /readyz and /metrics", true),
        ("POST /v1/permit/RESOURCE and /v1/settle/RESOURCE", has_front),
        ("any method for /check and below it", has_front && settings.check.is_some()),
    ];
    let pages: Vec<&str> = pages.into_iter().filter(|(_, is_there)| *is_there).map(|(page, _)| page).collect();
    let pages = pages.join("; ");
    let absent = move |uri: Uri| async move {
        (StatusCode::NOT_FOUND, format!("there is no {}; there are: {pages}\n", uri.path()))
    };
    router.fallback(absent)
}

async fn misused(method: Method, uri: Uri) -> (StatusCode, String) {
    let takes_post = ["/v1/", "/page/waiting/", "/page/what-if/", "/page/order/"]
        .iter()
        .any(|begins| uri.path().starts_with(begins));
    let right = if takes_post { "POST" } else { "GET" };
    (StatusCode::METHOD_NOT_ALLOWED, format!("{} takes {right}, not {method}\n", uri.path()))
}

fn routes(front: Arc<Front>, settings: &HttpSettings) -> Router {
    let mut router = Router::new()
        .route("/v1/permit/{resource}", post(permits::permit))
        .route("/v1/settle/{resource}", post(permits::settle))
        .route_layer(from_fn(browser::json_only))
        .with_state(front.clone());
    if let Some(check) = &settings.check {
        let check = Arc::new(Check::new(front, check.clone(), (settings.max_connections / HELD_BACK).max(1)));
        let paths = ["/check", "/check/", "/check/{*path}"];
        let checks = paths.into_iter().fold(Router::new(), |checks, path| checks.route(path, any(check::check)));
        router = router.merge(checks.with_state(check));
    }
    router
}

/// Puts the front's guards before `asked`: a request may need a token, is read to its end, and needs a place.
fn guarded(asked: Router, guard: Guard, access_log: AccessLog, connection_limiter: &ConnectionLimiter) -> Router {
    asked
        .method_not_allowed_fallback(misused)
        .route_layer(from_fn_with_state(connection_limiter.clone(), connection_limiter::in_a_place))
        .route_layer(from_fn(reading::whole))
        .route_layer(from_fn_with_state((guard, access_log), token::guard))
}

impl HttpServer {
    /// Returns the bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the pages.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Closes all connections, once their answers are sent. Later clients still see the scheduler's health.
    pub async fn clear(&self) {
        self.connection_limiter.clear().await;
        if let Some(front_client) = &self.front_client {
            front_client.flush().await;
        }
    }
}
