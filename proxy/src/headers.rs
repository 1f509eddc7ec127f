//! Hop-by-hop headers, and headers that are passed on (RFC 9110, section 7.6).

use http::header::TRANSFER_ENCODING;
use http::header::{CONNECTION, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, UPGRADE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use std::net::IpAddr;

/// Hop-by-hop headers besides those in `Connection`. `Trailer` passes, as trailers do.
const OF_ONE_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
];
/// Headers that `Connection` cannot remove, because upstreams and proxies decide by them.
const KEPT: [HeaderName; 6] = [
    HOST,
    VIA,
    FORWARDED,
    X_FORWARDED_FOR,
    HeaderName::from_static("authorization"),
    HeaderName::from_static("cookie"),
];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// How clients and upstreams see this proxy in `Via`.
#[derive(Clone, Debug)]
pub(crate) struct Pseudonym(String);

/// What a request's headers say about its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientInfo {
    pub(crate) address: IpAddr,
    pub(crate) is_encrypted: bool,
    /// Whether the client is a proxy whose `X-Forwarded-For` is trusted.
    pub(crate) is_trusted: bool,
}

impl Pseudonym {
    /// Creates a pseudonym that no other proxy has.
    pub(crate) fn new() -> Self {
        Pseudonym(format!("rampmeter-{:08x}", rand::random::<u32>()))
    }

    /// Returns whether a request with these headers has passed this proxy before.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        headers.get_all(VIA).iter().filter_map(|via| via.to_str().ok()).any(|via| via.contains(&self.0))
    }

    fn value(&self, version: Version) -> String {
        let version = match version {
            Version::HTTP_2 => "2.0",
            Version::HTTP_10 => "1.0",
            _ => "1.1",
        };
        format!("{version} {}", self.0)
    }
}

pub(crate) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| !KEPT.contains(name))
        .collect();
    for name in named.iter().chain(&OF_ONE_CONNECTION) {
        headers.remove(name);
    }
}

/// Turns a client's headers into those for the upstream, which say nothing about the client without `client`.
pub(crate) fn forward(headers: &mut HeaderMap, version: Version, client: Option<ClientInfo>, pseudonym: &Pseudonym) {
    let takes_trailers = headers.get_all(TE).iter().any(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    strip(headers);
    // The proxy itself has answered the expectation.
    headers.remove(EXPECT);
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    add(headers, VIA, &pseudonym.value(version));
    if client.is_none_or(|client| !client.is_trusted) {
        for name in [FORWARDED, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO] {
            headers.remove(name);
        }
    }
    if let Some(client) = client {
        add_client(client, headers);
    }
}

fn add_client(client: ClientInfo, headers: &mut HeaderMap) {
    add(headers, X_FORWARDED_FOR, &client.address.to_string());
    let scheme = HeaderValue::from_static(if client.is_encrypted { "https" } else { "http" });
    headers.entry(X_FORWARDED_PROTO).or_insert(scheme);
    if let Some(host) = headers.get(HOST).cloned() {
        headers.entry(X_FORWARDED_HOST).or_insert(host);
    }
}

fn add(headers: &mut HeaderMap, name: HeaderName, member: &str) {
    let former: Vec<&str> = headers.get_all(&name).iter().filter_map(|value| value.to_str().ok()).collect();
    let list = former.into_iter().chain([member]).collect::<Vec<_>>().join(", ");
    if let Ok(list) = HeaderValue::try_from(list) {
        headers.insert(name, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn headers(text: &str) -> HeaderMap {
        let pairs = text.lines().filter_map(|line| line.trim().split_once(": "));
        pairs
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .collect()
    }

    fn forwarded(text: &str, is_trusted: bool) -> Vec<String> {
        let client = ClientInfo { address: Ipv4Addr::new(9, 9, 9, 9).into(), is_encrypted: false, is_trusted };
        let mut headers = headers(text);
        forward(&mut headers, Version::HTTP_11, Some(client), &Pseudonym("me".to_owned()));
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_concerns_one_connection_does_not_pass() {
        let sent = "connection: close, X-Mine\nx-mine: a\nkeep-alive: 5\nproxy-authorization: b\nte: trailers\n\
                    transfer-encoding: chunked\nupgrade: h2c\nexpect: 100-continue\ntrailer: x-sum\naccept: */*";
        let passed = [
            "accept: */*",
            "te: trailers",
            "trailer: x-sum",
            "via: 1.1 me",
            "x-forwarded-for: 9.9.9.9",
            "x-forwarded-proto: http",
        ];
        assert_eq!(forwarded(sent, false), passed);
    }

    #[test]
    fn a_client_takes_off_no_header_that_others_decide_by() {
        let sent = "connection: authorization, x-forwarded-for, host\nhost: a\nauthorization: b";
        let passed = [
            "authorization: b",
            "host: a",
            "via: 1.1 me",
            "x-forwarded-for: 9.9.9.9",
            "x-forwarded-host: a",
            "x-forwarded-proto: http",
        ];
        assert_eq!(forwarded(sent, false), passed);
    }

    #[test]
    fn only_trusted_proxies_tell_of_clients() {
        let sent = "x-forwarded-for: 6.6.6.6\nx-forwarded-proto: https\nforwarded: for=6.6.6.6\nvia: 1.0 other";
        let strange = ["via: 1.0 other, 1.1 me", "x-forwarded-for: 9.9.9.9", "x-forwarded-proto: http"];
        assert_eq!(forwarded(sent, false), strange);
        let trusted = [
            "forwarded: for=6.6.6.6",
            "via: 1.0 other, 1.1 me",
            "x-forwarded-for: 6.6.6.6, 9.9.9.9",
            "x-forwarded-proto: https",
        ];
        assert_eq!(forwarded(sent, true), trusted);
    }

    #[test]
    fn a_loop_is_found() {
        let pseudonym = Pseudonym::new();
        let looped = headers(&format!("via: 1.1 other\nvia: 1.0 a, {}", pseudonym.value(Version::HTTP_2)));
        assert!(pseudonym.is_in(&looped) && !Pseudonym::new().is_in(&looped));
    }
}
