//! Refuses requests that a web page may have sent, except through proxies that ask about their clients' requests.

use super::access_log::{AccessLog, Lacks};
use super::original_request::{CHECK, is_forwarded};
use super::reading::refuse;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use ipnet::IpNet;
use rampmeter_config::HttpSettings;
use rampmeter_listener::{BrowserGuard, Connection, Unwelcome};
use std::net::IpAddr;
use std::sync::Arc;

/// Distinguishes requests of web pages from those of programs and proxies.
#[derive(Clone, Debug)]
pub(super) struct FrontGuard {
    guard: BrowserGuard,
    /// The proxies that pass on the headers of browsers.
    proxies: Arc<[IpNet]>,
    access_log: AccessLog,
}

impl FrontGuard {
    pub(super) fn new(settings: &HttpSettings, access_log: AccessLog) -> Self {
        let listen = settings.listen.rsplit_once(':').map(|(host, _port)| host.to_owned());
        let proxies = settings.check.iter().flat_map(|check| check.origin.trusted_proxies.iter().copied());
        let guard = BrowserGuard::new(settings.hosts.iter().cloned().chain(listen), "[http]");
        FrontGuard { guard, proxies: proxies.collect(), access_log }
    }

    /// Refuses `request` from `peer` if a page of another site may have sent it.
    fn check(&self, request: &Request, peer: IpAddr) -> Result<(), Unwelcome> {
        let headers = request.headers();
        let host = self.guard.host(request.uri(), request.version(), headers, peer)?;
        match self.is_passed_on(request, peer) {
            true => Ok(()),
            false => self.guard.check_page(host.as_ref(), headers),
        }
    }

    /// Returns whether a proxy asks about a request of its client. No page can add such headers: no preflight succeeds.
    fn is_passed_on(&self, request: &Request, peer: IpAddr) -> bool {
        let is_proxy = self.proxies.iter().any(|network| network.contains(&peer));
        is_proxy && request.uri().path().starts_with(CHECK) && is_forwarded(request.headers())
    }
}

/// Passes requests of programs on.
pub(super) async fn guard(State(guard): State<FrontGuard>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Connection>().expect("the limiter adds it to every request").address();
    match guard.check(&request, peer) {
        Ok(()) => next.run(request).await,
        Err(unwelcome) => {
            guard.access_log.note(Lacks::Program, peer, None);
            refuse(unwelcome.status(), format!("{unwelcome}\n"))
        }
    }
}

/// Passes on empty and JSON bodies alone: a web page can send other types to any host without a preflight.
pub(super) async fn json_only(request: Request, next: Next) -> Response {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    match request.body().is_end_stream() || content_type.is_some_and(is_json) {
        true => next.run(request).await,
        false => refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a body is JSON: send it with `Content-Type: application/json` (curl --json)\n".to_owned(),
        ),
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    let bare = content_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    bare.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_one_name() {
        #[rustfmt::skip]
        let table = [
            ("application/json",                    true),
            ("Application/JSON ; charset=utf-8",    true),
            ("text/plain",                          false),
            ("text/plain; application/json",        false),
            ("application/x-www-form-urlencoded",   false),
        ];
        for (content_type, expected) in table {
            assert_eq!(is_json(&HeaderValue::from_static(content_type)), expected, "{content_type}");
        }
    }
}
