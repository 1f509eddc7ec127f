//! Refuses requests that a web page may have sent.
//!
//! A browser lets every page send simple requests to this host, and lets a page read the answers if the page's own
//! name was made to resolve to this host (DNS rebinding). But its requests show where they come from, and which
//! host name the page has used. Programs other than browsers send neither `Origin` nor `Sec-Fetch-Site`.

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header};
use std::net::IpAddr;
use std::sync::Arc;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The values of `Sec-Fetch-Site` that no request of another site's page has.
const OWN: [&[u8]; 2] = [b"same-origin", b"none"];
const LOCALHOST: &str = "localhost";

/// Distinguishes requests of web pages from those of programs.
#[derive(Clone, Debug)]
pub struct BrowserGuard {
    /// The names of this server, in lower case.
    names: Arc<[String]>,
    /// The origins whose pages may ask here.
    origins: Arc<[String]>,
    /// The configuration table with `hosts`.
    table: &'static str,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwelcome {
    /// The request has no host, or several.
    #[error("a request has one readable Host")]
    NoHost,
    /// The request has a host that is not this one.
    #[error("`{host}` is no name of this server; if it is one, add it to `hosts` in {table}")]
    OtherHost {
        /// The name.
        host: String,
        /// The configuration table with `hosts`.
        table: &'static str,
    },
    /// A page of another origin has sent it.
    #[error("a web page of another origin sent this; only programs may ask here")]
    OtherPage,
}

/// Bound on the characters of a host that an answer quotes. A name of DNS has 253.
const SHOWN_HOST: usize = 253;

impl Unwelcome {
    /// Returns the status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Unwelcome::NoHost => StatusCode::BAD_REQUEST,
            Unwelcome::OtherHost { .. } => StatusCode::MISDIRECTED_REQUEST,
            Unwelcome::OtherPage => StatusCode::FORBIDDEN,
        }
    }
}

impl BrowserGuard {
    /// Creates a guard of a server with these names, configured in `table`, besides its addresses and `localhost`.
    pub fn new(names: impl IntoIterator<Item = String>, table: &'static str) -> Self {
        let names = names.into_iter().chain([LOCALHOST.to_owned()]).map(|name| in_lower_case(&name));
        BrowserGuard { names: names.collect(), origins: Arc::default(), table }
    }

    /// Admits pages of `origins`, such as `https://app.example`.
    #[must_use]
    pub fn with_origins(self, origins: &[String]) -> Self {
        BrowserGuard { origins: origins.iter().map(|origin| in_lower_case(origin)).collect(), ..self }
    }

    /// Returns the host of a request from `peer`, or `None` in HTTP/1.0.
    ///
    /// # Errors
    /// If there is no single readable host, or it may be a page's own name that was made to resolve here.
    pub fn host(
        &self,
        uri: &Uri,
        version: Version,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Option<Authority>, Unwelcome> {
        match host(uri, headers)? {
            Some(host) if self.is_ours(host.host(), peer) => Ok(Some(host)),
            Some(host) => {
                Err(Unwelcome::OtherHost { host: host.host().chars().take(SHOWN_HOST).collect(), table: self.table })
            }
            // Every browser sends a host. The probes of some load balancers speak HTTP/1.0.
            None if version < Version::HTTP_11 => Ok(None),
            None => Err(Unwelcome::NoHost),
        }
    }

    /// Checks that the request comes from no page of another origin than `host`.
    ///
    /// # Errors
    /// If its headers show that it does.
    pub fn check_page(&self, host: Option<&Authority>, headers: &HeaderMap) -> Result<(), Unwelcome> {
        let is_origin_known =
            |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| self.origins.contains(&in_lower_case(origin)));
        let is_origin_own = |origin: &HeaderValue| {
            let origin = Uri::try_from(origin.as_bytes()).ok();
            origin.is_some_and(|origin| origin.scheme().is_some() && origin.authority() == host)
        };
        let mut origins = headers.get_all(header::ORIGIN).iter().peekable();
        let may_ask = if origins.peek().is_some_and(|origin| is_origin_known(origin)) {
            origins.count() == 1
        } else {
            let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
            origins.all(is_origin_own) && sites.all(|site| OWN.contains(&site.as_bytes()))
        };
        if may_ask { Ok(()) } else { Err(Unwelcome::OtherPage) }
    }

    /// Returns whether `host` means this server. A page cannot make an address resolve to this host. From a remote
    /// peer any address counts, since a published port has others. From a local peer only loopback addresses do.
    fn is_ours(&self, host: &str, peer: IpAddr) -> bool {
        let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let is_address_ours = |address: IpAddr| address.to_canonical().is_loopback() || !peer.is_loopback();
        address.is_some_and(is_address_ours) || self.names.contains(&in_lower_case(host))
    }
}

/// Returns the host that a request is for: that of its target if there is one, else that of its header.
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

/// Returns a name in the form for comparison, without the dot of the root.
fn in_lower_case(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const LOCAL: &str = "127.0.0.1";
    const KUBELET: &str = "10.1.0.1";

    fn status(peer: &str, headers: &str) -> u16 {
        let mut request = Request::builder().uri("/readyz");
        for (name, value) in headers.split("; ").filter_map(|line| line.split_once(": ")) {
            request = request.header(name, value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let guard = BrowserGuard::new(["scheduler-a".to_owned(), "Rampmeter.internal".to_owned()], "[http]")
            .with_origins(&["https://App.example".to_owned()]);
        let host = guard.host(&head.uri, head.version, &head.headers, peer.parse().unwrap());
        let checked = host.and_then(|host| guard.check_page(host.as_ref(), &head.headers));
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
            (LOCAL,     "Host: localhost; Origin: https://app.example",                     200),
            (LOCAL,     "Host: localhost; Origin: https://app.example; Sec-Fetch-Site: cross-site", 200),
            (LOCAL,     "Host: localhost; Origin: https://app.example; Origin: http://a",   403),
            (LOCAL,     "Host: localhost; Origin: http://app.example",                      403),
            (LOCAL,     "Host: app.example; Origin: https://app.example",                   421),
        ];
        for (peer, headers, expected) in table {
            assert_eq!(status(peer, headers), expected, "{peer} {headers}");
        }
    }
}
