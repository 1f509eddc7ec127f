//! Requests that a web page may have sent. They are refused.
//!
//! A browser lets every page send simple requests to this host. It lets a page read the answers if
//! the page's own name was made to resolve to this host (DNS rebinding). But the browser tells
//! where a request comes from, and which host name the page has used. Programs that are no browsers
//! send neither `OriginalRequest` nor `Sec-Fetch-Site`.

use super::original_request::{CHECK, is_forwarded};
use super::reading::refuse;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use ipnet::IpNet;
use rampmeter_config::HttpSettings;
use rampmeter_listener::Connection;
use std::net::IpAddr;
use std::sync::Arc;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The values of `Sec-Fetch-Site` that a request from another site's page never has.
const OWN: [&[u8]; 2] = [b"same-origin", b"none"];
/// The name of the loopback address.
const LOCALHOST: &str = "localhost";

/// Tells requests of web pages from those of programs.
#[derive(Clone, Debug)]
pub(super) struct BrowserGuard {
    /// The names of this scheduler, in lower case.
    names: Arc<[String]>,
    /// The proxies that pass on what browsers say to them.
    proxies: Arc<[IpNet]>,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unwelcome {
    #[error("a request has one readable Host")]
    NoHost,
    #[error("`{0}` is no name of this scheduler; if it is one, add it to `hosts` in [http]")]
    OtherHost(String),
    #[error("a web page of another origin sent this; only programs may ask here")]
    OtherPage,
    #[error("a body is JSON: send it with `Content-Type: application/json` (curl --json)")]
    OtherType,
}

impl Unwelcome {
    fn status(&self) -> StatusCode {
        match self {
            Unwelcome::NoHost => StatusCode::BAD_REQUEST,
            Unwelcome::OtherHost(_) => StatusCode::MISDIRECTED_REQUEST,
            Unwelcome::OtherPage => StatusCode::FORBIDDEN,
            Unwelcome::OtherType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    fn response(&self) -> Response {
        refuse(self.status(), format!("{self}\n"))
    }
}

impl BrowserGuard {
    pub(super) fn new(settings: &HttpSettings) -> Self {
        let listen = settings.listen.rsplit_once(':').map(|(host, _port)| host.to_owned());
        let names = settings.hosts.iter().cloned().chain(listen).chain([LOCALHOST.to_owned()]);
        let proxies = settings.check.iter().flat_map(|check| check.origin.trusted_proxies.iter().copied());
        BrowserGuard { names: names.map(|name| in_lower_case(&name)).collect(), proxies: proxies.collect() }
    }

    /// Refuses `request`, which came from `peer`, if a page of another site may have sent it.
    fn check(&self, request: &Request, peer: IpAddr) -> Result<(), Unwelcome> {
        let headers = request.headers();
        let host = match host(request.uri(), headers)? {
            Some(host) if self.is_ours(host.host(), peer) => Some(host),
            Some(host) => return Err(Unwelcome::OtherHost(host.host().to_owned())),
            // Every browser sends a host. The probes of some load balancers speak HTTP/1.0.
            None if request.version() < Version::HTTP_11 => None,
            None => return Err(Unwelcome::NoHost),
        };
        match self.is_passed_on(request, peer) || is_own(host.as_ref(), headers) {
            true => Ok(()),
            false => Err(Unwelcome::OtherPage),
        }
    }

    /// Whether `host` means this scheduler. A page cannot make an address resolve to this host. For
    /// a remote peer, any address therefore counts: a published port has other addresses. For a
    /// local peer, only loopback addresses count.
    fn is_ours(&self, host: &str, peer: IpAddr) -> bool {
        let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let is_address_ours = |address: IpAddr| address.to_canonical().is_loopback() || !peer.is_loopback();
        address.is_some_and(is_address_ours) || self.names.contains(&in_lower_case(host))
    }

    /// Whether a proxy asks about a request of its own client. A page cannot add a proxy's headers
    /// without a preflight request, which nothing here allows.
    fn is_passed_on(&self, request: &Request, peer: IpAddr) -> bool {
        let is_proxy = self.proxies.iter().any(|network| network.contains(&peer));
        is_proxy && request.uri().path().starts_with(CHECK) && is_forwarded(request.headers())
    }
}

/// Lets requests of programs through.
pub(super) async fn guard(State(guard): State<BrowserGuard>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Connection>().expect("the limiter adds it to every request").address();
    match guard.check(&request, peer) {
        Ok(()) => next.run(request).await,
        Err(unwelcome) => unwelcome.response(),
    }
}

/// Lets requests through that have no body, or JSON. Without a preflight request, a page may send
/// other types to any host, and bodies without a type.
pub(super) async fn json_only(request: Request, next: Next) -> Response {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    match request.body().is_end_stream() || content_type.is_some_and(is_json) {
        true => next.run(request).await,
        false => Unwelcome::OtherType.response(),
    }
}

/// The host that a request is for: that of its target if there is one, otherwise that of its
/// header.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<Option<Authority>, Unwelcome> {
    if let Some(host) = uri.authority() {
        return Ok(Some(host.clone()));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => Ok(None),
        (Some(host), None) => host.as_bytes().try_into().map(Some).map_err(|_| Unwelcome::NoHost),
        (Some(_), Some(_)) => Err(Unwelcome::NoHost),
    }
}

/// Whether browsers would say of a request that a page of `host` itself has sent it.
fn is_own(host: Option<&Authority>, headers: &HeaderMap) -> bool {
    let is_origin_own = |origin: &HeaderValue| {
        let origin = Uri::try_from(origin.as_bytes()).ok();
        origin.is_some_and(|origin| origin.scheme().is_some() && origin.authority() == host)
    };
    headers.get_all(header::ORIGIN).iter().all(is_origin_own)
        && headers.get_all(SEC_FETCH_SITE).iter().all(|site| OWN.contains(&site.as_bytes()))
}

fn is_json(content_type: &HeaderValue) -> bool {
    let bare = content_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    bare.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// A name as it is compared: it may end with the dot of the root.
fn in_lower_case(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const LOCAL: &str = "127.0.0.1";
    const KUBELET: &str = "10.1.0.1";

    fn status(peer: &str, headers: &str) -> u16 {
        let settings = HttpSettings {
            listen: "scheduler-a:8480".to_owned(),
            hosts: vec!["Rampmeter.internal".to_owned()],
            ..HttpSettings::default()
        };
        let mut request = Request::builder().uri("/readyz");
        for (name, value) in headers.split("; ").filter_map(|line| line.split_once(": ")) {
            request = request.header(name, value);
        }
        let checked = BrowserGuard::new(&settings).check(&request.body(Body::empty()).unwrap(), peer.parse().unwrap());
        checked.map_or_else(|unwelcome| unwelcome.status().as_u16(), |()| 200)
    }

    #[test]
    fn pages_of_other_hosts_and_origins_are_refused() {
        #[rustfmt::skip]
        let table = [
            // the peer, the headers, and the status
            (LOCAL,     "Host: 127.0.0.1:8480",                                             200),
            (LOCAL,     "Host: [::1]:8480",                                                 200),
            (LOCAL,     "Host: LocalHost.",                                                 200),
            (LOCAL,     "Host: scheduler-a:8480",                                           200),
            (LOCAL,     "Host: rampmeter.INTERNAL:80",                                      200),
            (LOCAL,     "Host: rebound.example:8480",                                       421),
            (LOCAL,     "Host: localhost.rebound.example",                                  421),
            (LOCAL,     "Host: 0.0.0.0:8480",                                               421),
            (LOCAL,     "Host: 10.1.0.7:8480",                                              421),
            (KUBELET,   "Host: 10.1.0.7:8480",                                              200),
            (KUBELET,   "Host: rebound.example",                                            421),
            (LOCAL,     "",                                                                 400),
            (LOCAL,     "Host: a b",                                                        400),
            (LOCAL,     "Host: localhost; Host: localhost",                                 400),
            (LOCAL,     "Host: localhost:1; Origin: http://localhost:1",                    200),
            (LOCAL,     "Host: localhost:1; Origin: http://localhost:2",                    403),
            (LOCAL,     "Host: localhost:1; Origin: https://page.example",                  403),
            (LOCAL,     "Host: localhost:1; Origin: null",                                  403),
            (LOCAL,     "Host: localhost; Origin: localhost",                               403),
            (LOCAL,     "Host: localhost; Origin: http://localhost; Origin: http://a",      403),
            (LOCAL,     "Host: localhost; Sec-Fetch-Site: none",                            200),
            (LOCAL,     "Host: localhost; Sec-Fetch-Site: same-origin",                     200),
            (LOCAL,     "Host: localhost; Sec-Fetch-Site: same-site",                       403),
            (LOCAL,     "Host: localhost; Sec-Fetch-Site: cross-site",                      403),
        ];
        for (peer, headers, expected) in table {
            assert_eq!(status(peer, headers), expected, "{peer} {headers}");
        }
    }

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
