//! The original request that a reverse proxy asks about, and its client.

use crate::config::{CheckSettings, LabelSource};
use axum::http::{HeaderMap, HeaderValue, Uri, request};
use ipnet::IpNet;
use rampmeter_protocol::bounds::MAX_LABEL_VALUE;
use rampmeter_protocol::labels::Labels;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// Headers in which proxies write the path and the method of the original request: nginx by custom,
/// Traefik by itself.
const PATHS: [&str; 2] = ["x-original-uri", "x-forwarded-uri"];
const METHODS: [&str; 2] = ["x-original-method", "x-forwarded-method"];
/// The path after which a proxy appends the original path.
const CHECK: &str = "/check";

/// Two headers that a proxy would not both write say different things: a client has written one of
/// them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` and `{1}` contradict each other; the proxy has to remove the one that it does not set")]
pub(super) struct Contradiction(&'static str, &'static str);

/// A request that is asked about.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    /// The question of the proxy.
    asked: &'a request::Parts,
    /// The address of the peer.
    peer: IpAddr,
    trusted: &'a [IpNet],
}

impl<'a> Origin<'a> {
    /// The request that `asked`, which came from `peer`, is about. Only trusted proxies are
    /// believed about other addresses.
    pub(super) fn new(asked: &'a request::Parts, peer: IpAddr, trusted: &'a [IpNet]) -> Self {
        Origin { asked, peer, trusted }
    }

    /// The labels as configured. Without the header there is no label. Values beyond the protocol's
    /// length are cut.
    ///
    /// # Errors
    /// If the original request is ambiguous.
    pub(super) fn labels(&self, settings: &CheckSettings) -> Result<Labels<'static>, Contradiction> {
        let mut labels = Labels::new();
        for (key, source) in &settings.labels {
            if let Some(value) = self.value(source)? {
                let value: String = value.chars().take(MAX_LABEL_VALUE).collect();
                labels.set(key.clone(), value).expect("the configuration has seen to keys and number");
            }
        }
        Ok(labels)
    }

    fn value(&self, source: &LabelSource) -> Result<Option<Cow<'_, str>>, Contradiction> {
        Ok(match source {
            LabelSource::Header(name) => {
                self.asked.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()))
            }
            LabelSource::Path => Some(self.path()?.into()),
            LabelSource::Method => Some(self.method()?.into()),
            LabelSource::ClientAddress => Some(self.client_address().to_string().into()),
        })
    }

    /// The path of the original request, as it was written, without its query.
    fn path(&self) -> Result<&str, Contradiction> {
        let forwarded = self.forwarded(PATHS)?.map(|uri| uri.split(['?', '#']).next().unwrap_or(uri));
        match (forwarded, appended(&self.asked.uri)) {
            (Some(forwarded), Some(appended)) if forwarded != appended => Err(Contradiction(PATHS[0], "/check/…")),
            (forwarded, appended) => Ok(forwarded.or(appended).unwrap_or("/")),
        }
    }

    fn method(&self) -> Result<&str, Contradiction> {
        Ok(self.forwarded(METHODS)?.unwrap_or(self.asked.method.as_str()))
    }

    /// The address in front of all trusted proxies. Each proxy appends the address that it was
    /// asked by. Addresses that a client has written itself stand in front of that, and are not
    /// reached.
    fn client_address(&self) -> IpAddr {
        let hops = hops(&self.asked.headers);
        let mut address = self.peer;
        for hop in hops.into_iter().rev() {
            match hop {
                Some(hop) if self.trusts(address) => address = hop,
                Some(_) | None => break,
            }
        }
        address
    }

    /// The value of the one header of `names` that is there, if the peer is believed.
    fn forwarded(&self, names: [&'static str; 2]) -> Result<Option<&str>, Contradiction> {
        if !self.trusts(self.peer) {
            return Ok(None);
        }
        let value = |name| self.asked.headers.get(name).and_then(text);
        match names.map(value) {
            [Some(one), Some(other)] if one != other => Err(Contradiction(names[0], names[1])),
            [one, other] => Ok(one.or(other)),
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// The path behind `/check`.
fn appended(uri: &Uri) -> Option<&str> {
    uri.path().strip_prefix(CHECK).filter(|path| !path.is_empty())
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

/// The addresses that proxies have noted, the nearest last; nothing for an entry that is no
/// address. `Forwarded` counts only without an `X-Forwarded-For`.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let lists = |name| headers.get_all(name).iter().filter_map(text);
    let elements = |name| lists(name).flat_map(|list| list.split(',')).map(str::trim);
    let mut hops: Vec<_> = elements("x-forwarded-for").map(address).collect();
    if hops.is_empty() {
        hops = elements("forwarded").map(forwarded_for).collect();
    }
    hops
}

/// The `for` of one element of `Forwarded` (RFC 7239).
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let node = pairs.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("for")).map(|(_, node)| node)?;
    address(node.trim_matches('"'))
}

/// An address, perhaps in brackets, perhaps with a port. An IPv4 address that is mapped to IPv6
/// counts as IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    bare.parse().or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    const NGINX: &str = "10.0.0.1";

    /// A question that `peer` asks with these headers, a line each.
    fn labels(peer: &str, line: &str, headers: &str) -> Result<String, Contradiction> {
        let (method, uri) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers.lines().filter_map(|line| line.trim().split_once(": ")) {
            request = request.header(name, value);
        }
        let (asked, ()) = request.body(()).unwrap().into_parts();
        let trusted = ["10.0.0.0/24".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let origin = Origin::new(&asked, peer.parse().unwrap(), &trusted);
        Ok(format!("{} {} {}", origin.client_address(), origin.method()?, origin.path()?))
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let forwarded = "x-original-uri: /a?b=c\nx-original-method: PUT\nx-forwarded-for: 9.9.9.9";
        #[rustfmt::skip]
        let table = [
            // the peer, its request, its headers, and the origin that counts
            (NGINX,         "GET /check",           forwarded,                                                       "9.9.9.9 PUT /a"),
            ("8.8.8.8",     "GET /check",           forwarded,                                                       "8.8.8.8 GET /"),
            ("8.8.8.8",     "POST /check/a/b?c",    "",                                                         "8.8.8.8 POST /a/b"),
            (NGINX,         "POST /check/a/b?c",    "",                                                         "10.0.0.1 POST /a/b"),
            (NGINX,         "GET /check",           "x-forwarded-uri: /a%2Fb\nx-forwarded-method: DELETE",      "10.0.0.1 DELETE /a%2Fb"),
            (NGINX,         "GET /check",           "x-forwarded-for: 6.6.6.6, 9.9.9.9",                        "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: 6.6.6.6, 9.9.9.9, 10.0.0.2",              "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: 6.6.6.6\nx-forwarded-for: 9.9.9.9",       "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: 6.6.6.6, unknown, 10.0.0.2",              "10.0.0.2 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: 10.0.0.3, 10.0.0.2",                      "10.0.0.3 GET /"),
            (NGINX,         "GET /check",           "forwarded: for=6.6.6.6, for=\"[2001:db8::1]:80\";proto=http", "2001:db8::1 GET /"),
            (NGINX,         "GET /check",           "forwarded: for=6.6.6.6\nx-forwarded-for: 9.9.9.9",         "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "forwarded: proto=http;For=9.9.9.9:1234",                   "9.9.9.9 GET /"),
            ("fd00::1",     "GET /check",           "x-forwarded-for: ::ffff:9.9.9.9",                          "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-original-uri: /a\nx-forwarded-uri: /a",                  "10.0.0.1 GET /a"),
        ];
        for (peer, line, headers, about) in table {
            assert_eq!(labels(peer, line, headers).unwrap(), about, "{peer} {line} {headers}");
        }
    }

    #[test]
    fn a_client_that_writes_the_other_header_is_found_out() {
        let remedy = "contradict each other; the proxy has to remove the one that it does not set";
        let table = [
            ("GET /check", "x-original-uri: /free\nx-forwarded-uri: /dear", "`x-original-uri` and `x-forwarded-uri`"),
            ("GET /check/dear", "x-original-uri: /free", "`x-original-uri` and `/check/…`"),
        ];
        for (line, headers, names) in table {
            assert_eq!(labels(NGINX, line, headers).unwrap_err().to_string(), format!("{names} {remedy}"));
        }
    }

    #[test]
    fn long_values_are_cut() {
        let (asked, ()) = Request::builder().uri(format!("/check/{}", "a".repeat(300))).body(()).unwrap().into_parts();
        let settings = CheckSettings {
            resource: rampmeter_protocol::name::Name::new("api").unwrap(),
            class: None,
            throttle: None,
            on_unavailable: crate::config::OnUnavailable::Refuse,
            trusted_proxies: Vec::new(),
            labels: vec![("route".to_owned(), LabelSource::Path)],
        };
        let labels = Origin::new(&asked, "127.0.0.1".parse().unwrap(), &[]).labels(&settings).unwrap();
        assert_eq!(labels.get("route").unwrap().chars().count(), MAX_LABEL_VALUE);
    }
}
