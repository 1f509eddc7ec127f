//! The original request that a reverse proxy asks about, and its client.

use axum::http::{HeaderMap, Uri, request};
use ipnet::IpNet;
use rampmeter_config::{LabelSource, OriginSettings};
use rampmeter_listener::path::{AmbiguousPath, normalised};
use rampmeter_listener::stated::{Stated, Unclear, UnitCost};
use rampmeter_listener::tls::ClientName;
use rampmeter_protocol::bounds::MAX_LABEL_VALUE;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::labels::Labels;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// Headers with the path and the method of the original request, used by nginx by convention, and by Traefik.
const PATHS: [&str; 2] = ["x-original-uri", "x-forwarded-uri"];
const METHODS: [&str; 2] = ["x-original-method", "x-forwarded-method"];
/// Headers in which proxies record the addresses of their clients.
const ADDRESSES: [&str; 2] = ["x-forwarded-for", "forwarded"];
/// The path after which a proxy appends the original path.
pub(super) const CHECK: &str = "/check";

/// Why the original request is uncertain and refused: its client could otherwise choose which limits apply.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ambiguity {
    /// A client has set one of two headers that no proxy would both set.
    #[error("`{0}` and `{1}` contradict each other; the proxy has to remove the one that it does not set")]
    Contradiction(&'static str, &'static str),
    #[error(transparent)]
    Unclear(#[from] Unclear),
    #[error(transparent)]
    Path(#[from] AmbiguousPath),
    #[error("`x-forwarded-for` has {found} addresses, and `trusted_hops` says that {wanted} proxies have added one")]
    TooFewHops { found: usize, wanted: usize },
}

#[derive(Debug)]
pub(super) struct OriginalRequest<'a> {
    asked: &'a request::Parts,
    peer: IpAddr,
    settings: &'a OriginSettings,
    /// Whether the request is about itself, so that no header gives another path or method.
    is_direct: bool,
}

/// Returns whether `headers` describe another request, as only proxies write them.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    [PATHS, METHODS, ADDRESSES].as_flattened().iter().any(|name| headers.contains_key(*name))
}

impl<'a> OriginalRequest<'a> {
    /// Creates the request that the proxy at `peer` asks about in `asked`; a request that this process forwards is
    /// direct. Only trusted proxies are believed about other addresses. Fails if one of those contradicts itself.
    pub(super) fn new(
        asked: &'a request::Parts,
        peer: IpAddr,
        settings: &'a OriginSettings,
        is_direct: bool,
    ) -> Result<Self, Ambiguity> {
        let origin = OriginalRequest { asked, peer, settings, is_direct };
        if origin.trusts(peer) {
            let told = if is_direct { &ADDRESSES[..] } else { [PATHS, METHODS, ADDRESSES].as_flattened() };
            told.iter().try_for_each(|name| origin.only(name).map(drop))?;
        }
        Ok(origin)
    }

    /// Returns the configured labels that the request states, cut to the protocol's length. Fails if it is ambiguous.
    pub(super) fn labels(&self) -> Result<Labels<'static>, Ambiguity> {
        let mut labels = Labels::new();
        for (key, source) in &self.settings.labels {
            if let Some(value) = self.value(source)? {
                let value: String = value.chars().take(MAX_LABEL_VALUE).collect();
                labels.set(key.clone(), value).expect("the configuration has seen to keys and number");
            }
        }
        Ok(labels)
    }

    fn value(&self, source: &LabelSource) -> Result<Option<Cow<'_, str>>, Ambiguity> {
        Ok(match source {
            LabelSource::Stated(stated) => stated.text(&self.asked.headers, self.query_with(stated)?)?,
            LabelSource::Path if self.settings.normalise => Some(normalised(self.path()?)?.into()),
            LabelSource::Path => Some(self.path()?.into()),
            LabelSource::Method => Some(self.method()?.into()),
            LabelSource::ClientAddress => Some(self.client_address()?.to_string().into()),
            LabelSource::ClientCertificate => self.asked.extensions.get().map(|ClientName(name)| Cow::from(&**name)),
        })
    }

    /// Returns the cost of the original request by unit. Fails if it is ambiguous, or lacks a required amount.
    pub(super) fn cost(&self, units: &[(String, UnitCost)]) -> Result<Cost<'static>, Ambiguity> {
        let mut cost = Cost::new();
        for (unit, amount) in units {
            let query = amount.from().map(|stated| self.query_with(stated)).transpose()?.flatten();
            let amount = amount.read(&self.asked.headers, query)?;
            cost.set(unit.clone(), amount).expect("the configuration has seen to their number");
        }
        Ok(cost)
    }

    /// Returns the query of the original request if `stated` needs it, from the proxy's header or behind `/check`.
    fn query_with(&self, stated: &Stated) -> Result<Option<&str>, Ambiguity> {
        let own = self.asked.uri.query().filter(|_| matches!(stated, Stated::Query(_)));
        let forwarded = if matches!(stated, Stated::Query(_)) { self.forwarded(PATHS)? } else { None };
        let Some(uri) = forwarded else { return Ok(own) };
        let told = uri.split('#').next().and_then(|uri| uri.split_once('?')).map(|(_path, query)| query);
        match (told, own) {
            (Some(told), Some(own)) if told != own => Err(Ambiguity::Contradiction(PATHS[0], "/check?…")),
            (told, _) => Ok(told),
        }
    }

    /// Returns the path of the original request, as it was written, without its query.
    fn path(&self) -> Result<&str, Ambiguity> {
        if self.is_direct {
            return Ok(self.asked.uri.path());
        }
        let forwarded = self.forwarded(PATHS)?.map(|uri| uri.split(['?', '#']).next().unwrap_or(uri));
        match (forwarded, appended(&self.asked.uri)) {
            (Some(path), _) if !path.starts_with('/') && path != "*" => {
                Err(unreadable(PATHS[0], "no path: one begins with a slash"))
            }
            (Some(forwarded), Some(appended)) if forwarded != appended => {
                Err(Ambiguity::Contradiction(PATHS[0], "/check/…"))
            }
            (forwarded, appended) => Ok(forwarded.or(appended).unwrap_or("/")),
        }
    }

    fn method(&self) -> Result<&str, Ambiguity> {
        Ok(self.forwarded(METHODS)?.unwrap_or(self.asked.method.as_str()))
    }

    /// Returns the address in front of all trusted proxies. Each proxy appends the address of its client.
    /// Addresses that a client has written itself come before those, and are not reached.
    pub(super) fn client_address(&self) -> Result<IpAddr, Ambiguity> {
        let mut address = self.peer;
        if !self.trusts(self.peer) {
            return Ok(address);
        }
        let hops = self.hops()?;
        for (passed, hop) in hops.iter().rev().enumerate() {
            let is_proxy = self.settings.trusted_hops.map_or_else(|| self.trusts(address), |hops| passed < hops);
            match hop {
                Hop::Address(hop) if is_proxy => address = *hop,
                Hop::Neither(name) if is_proxy => return Err(unreadable(name, "an entry that is no address")),
                Hop::Address(_) | Hop::Hidden | Hop::Neither(_) => return Ok(address),
            }
        }
        match self.settings.trusted_hops {
            Some(wanted) if hops.len() < wanted => Err(Ambiguity::TooFewHops { found: hops.len(), wanted }),
            Some(_) | None => Ok(address),
        }
    }

    /// Returns the addresses that proxies have recorded, the nearest last. `Forwarded` counts only without
    /// `X-Forwarded-For`. A client may have written any bytes in front.
    fn hops(&self) -> Result<Vec<Hop>, Ambiguity> {
        let elements = |list: &'a [u8]| {
            let elements = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            elements.filter(|element| !element.is_empty())
        };
        let [plain, rich] = ADDRESSES;
        Ok(match (self.only(plain)?, self.only(rich)?) {
            (Some(list), _) => elements(list).map(|element| Hop::read(element, plain)).collect(),
            (None, Some(list)) => elements(list).map(|element| Hop::read(forwarded_for(element), rich)).collect(),
            (None, None) => Vec::new(),
        })
    }

    /// Returns the value of the one present header of `names`, if the peer is trusted.
    fn forwarded(&self, names: [&'static str; 2]) -> Result<Option<&str>, Ambiguity> {
        if self.is_direct || !self.trusts(self.peer) {
            return Ok(None);
        }
        match (self.ascii(names[0])?, self.ascii(names[1])?) {
            (Some(one), Some(other)) if one != other => Err(Ambiguity::Contradiction(names[0], names[1])),
            (one, other) => Ok(one.or(other)),
        }
    }

    fn ascii(&self, name: &'static str) -> Result<Option<&'a str>, Ambiguity> {
        let text = |value: &'a [u8]| std::str::from_utf8(value).ok().filter(|text| text.is_ascii());
        let wrong = || unreadable(name, "bytes that are not ASCII");
        self.only(name)?.map(|value| text(value).ok_or_else(wrong)).transpose()
    }

    /// Returns the value of a header that may occur only once.
    fn only(&self, name: &str) -> Result<Option<&'a [u8]>, Ambiguity> {
        let mut values = self.asked.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (value, None) => Ok(value.map(|value| value.as_bytes())),
            (_, Some(_)) => Err(Unclear::DoubledHeader(name.to_owned()).into()),
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        let trusted: &[IpNet] = &self.settings.trusted_proxies;
        trusted.iter().any(|network| network.contains(&address))
    }
}

fn unreadable(name: &str, what: &'static str) -> Ambiguity {
    Unclear::Unreadable(name.to_owned(), what).into()
}

fn appended(uri: &Uri) -> Option<&str> {
    uri.path().strip_prefix(CHECK).filter(|path| !path.is_empty())
}

/// A client's address as recorded by a proxy.
#[derive(Debug)]
enum Hop {
    Address(IpAddr),
    /// The proxy does not know or reveal the address (RFC 7239, section 6).
    Hidden,
    /// This header holds text that no proxy writes.
    Neither(&'static str),
}

impl Hop {
    fn read(written: &[u8], header: &'static str) -> Self {
        let text = std::str::from_utf8(written).unwrap_or_default();
        match address(text) {
            Some(address) => Hop::Address(address),
            None if text.eq_ignore_ascii_case("unknown") || text.starts_with('_') => Hop::Hidden,
            None => Hop::Neither(header),
        }
    }
}

/// Returns the `for` of an element of `Forwarded` (RFC 7239), or `unknown` if it has none.
fn forwarded_for(element: &[u8]) -> &[u8] {
    let pairs = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let node = pairs.into_iter().find(|pair| pair.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"for=")));
    let node = node.map_or(&b"unknown"[..], |pair| &pair[4..]);
    node.strip_prefix(b"\"").and_then(|node| node.strip_suffix(b"\"")).unwrap_or(node)
}

/// Parses an address with optional brackets and port. An IPv4 address mapped to IPv6 counts as IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    bare.parse().or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderValue, Request};

    const NGINX: &str = "10.0.0.1";

    fn settings() -> OriginSettings {
        OriginSettings {
            trusted_proxies: vec!["10.0.0.0/24".parse().unwrap(), "fd00::/8".parse().unwrap()],
            trusted_hops: None,
            normalise: false,
            labels: vec![("key".to_owned(), LabelSource::Stated("header:x-api-key".parse().unwrap()))],
        }
    }

    /// A question with these headers, a line each. A dollar stands for the byte 0xff.
    fn question(line: &str, headers: &str) -> request::Parts {
        let (method, uri) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers.lines().filter_map(|line| line.trim().split_once(": ")) {
            let bytes: Vec<u8> = value.bytes().map(|byte| if byte == b'$' { 0xff } else { byte }).collect();
            request = request.header(name, HeaderValue::from_bytes(&bytes).unwrap());
        }
        request.body(()).unwrap().into_parts().0
    }

    /// The origin that counts for a question of `peer`.
    fn read(settings: &OriginSettings, peer: &str, line: &str, headers: &str) -> Result<String, Ambiguity> {
        let asked = question(line, headers);
        let origin = OriginalRequest::new(&asked, peer.parse().unwrap(), settings, false)?;
        origin.labels()?;
        Ok(format!("{} {} {}", origin.client_address()?, origin.method()?, origin.path()?))
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let forwarded = "x-original-uri: /a?b=c\nx-original-method: PUT\nx-forwarded-for: 9.9.9.9";
        let twice = "x-original-uri: /a\nx-original-uri: /$\nx-forwarded-for: $\nx-forwarded-for: 9.9.9.9";
        #[rustfmt::skip]
        let table = [
            // the peer, its request, its headers, and the origin that counts
            (NGINX,         "GET /check",           forwarded,                                                       "9.9.9.9 PUT /a"),
            ("8.8.8.8",     "GET /check",           forwarded,                                                       "8.8.8.8 GET /"),
            ("8.8.8.8",     "GET /check",           twice,                                                           "8.8.8.8 GET /"),
            ("8.8.8.8",     "POST /check/a/b?c",    "",                                                         "8.8.8.8 POST /a/b"),
            (NGINX,         "POST /check/a/b?c",    "",                                                         "10.0.0.1 POST /a/b"),
            (NGINX,         "OPTIONS /check",       "x-original-uri: *",                                        "10.0.0.1 OPTIONS *"),
            (NGINX,         "GET /check",           "x-forwarded-uri: /a%2Fb\nx-forwarded-method: DELETE",      "10.0.0.1 DELETE /a%2Fb"),
            (NGINX,         "GET /check",           "x-forwarded-for: 6.6.6.6, 9.9.9.9",                        "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: $$, 9.9.9.9",                             "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: 9.9.9.9,, 10.0.0.2 ,",                    "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: 6.6.6.6, 9.9.9.9, 10.0.0.2",              "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: 6.6.6.6, unknown, 10.0.0.2",              "10.0.0.2 GET /"),
            (NGINX,         "GET /check",           "x-forwarded-for: 10.0.0.3, 10.0.0.2",                      "10.0.0.3 GET /"),
            (NGINX,         "GET /check",           "forwarded: for=6.6.6.6, for=\"[2001:db8::1]:80\";proto=http", "2001:db8::1 GET /"),
            (NGINX,         "GET /check",           "forwarded: for=6.6.6.6\nx-forwarded-for: 9.9.9.9",         "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "forwarded: proto=http;For=9.9.9.9:1234",                   "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "forwarded: proto=http",                                    "10.0.0.1 GET /"),
            (NGINX,         "GET /check",           "forwarded: for=_hidden",                                   "10.0.0.1 GET /"),
            ("fd00::1",     "GET /check",           "x-forwarded-for: ::ffff:9.9.9.9",                          "9.9.9.9 GET /"),
            (NGINX,         "GET /check",           "x-original-uri: /a\nx-forwarded-uri: /a",                  "10.0.0.1 GET /a"),
        ];
        for (peer, line, headers, about) in table {
            assert_eq!(read(&settings(), peer, line, headers).unwrap(), about, "{peer} {line} {headers}");
        }
    }

    #[test]
    fn a_request_that_can_be_read_in_two_ways_is_refused() {
        let contradict = "contradict each other; the proxy has to remove the one that it does not set";
        let twice = "is there more than once; the proxy has to replace what its client sends, or join the values";
        #[rustfmt::skip]
        let table = [
            ("GET /check",      "x-original-uri: /free\nx-forwarded-uri: /dear",    format!("`x-original-uri` and `x-forwarded-uri` {contradict}")),
            ("GET /check/dear", "x-original-uri: /free",                            format!("`x-original-uri` and `/check/…` {contradict}")),
            ("GET /check",      "x-original-uri: /dear?$",                          "`x-original-uri` is not readable: it has bytes that are not ASCII".to_owned()),
            ("GET /check",      "x-forwarded-uri: /dear$",                          "`x-forwarded-uri` is not readable: it has bytes that are not ASCII".to_owned()),
            ("GET /check",      "x-original-uri: dear",                             "`x-original-uri` is not readable: it has no path: one begins with a slash".to_owned()),
            ("GET /check",      "x-original-uri: http://a/dear",                    "`x-original-uri` is not readable: it has no path: one begins with a slash".to_owned()),
            ("GET /check",      "x-original-method: P$T",                           "`x-original-method` is not readable: it has bytes that are not ASCII".to_owned()),
            ("GET /check",      "x-original-uri: /free\nx-original-uri: /dear",     format!("`x-original-uri` {twice}")),
            ("GET /check",      "x-forwarded-method: GET\nx-forwarded-method: GET", format!("`x-forwarded-method` {twice}")),
            ("GET /check",      "x-forwarded-for: 6.6.6.6\nx-forwarded-for: 9.9.9.9", format!("`x-forwarded-for` {twice}")),
            ("GET /check",      "forwarded: for=6.6.6.6\nforwarded: for=9.9.9.9",   format!("`forwarded` {twice}")),
            ("GET /check",      "x-forwarded-for: 9.9.9.9, $$",                     "`x-forwarded-for` is not readable: it has an entry that is no address".to_owned()),
            ("GET /check",      "x-forwarded-for: 9.9.9.9, $$, 10.0.0.2",           "`x-forwarded-for` is not readable: it has an entry that is no address".to_owned()),
            ("GET /check",      "forwarded: for=9.9.9.9, for=\"$\"",                "`forwarded` is not readable: it has an entry that is no address".to_owned()),
            ("GET /check",      "x-api-key: a\nx-api-key: b",                       format!("`x-api-key` {twice}")),
            ("GET /check",      "x-api-key: a$",                                    "`x-api-key` is not readable: it has bytes that are not UTF-8".to_owned()),
        ];
        for (line, headers, reason) in table {
            let refused = read(&settings(), NGINX, line, headers).unwrap_err();
            assert_eq!(refused.to_string(), reason, "{line} {headers}");
        }
    }

    #[test]
    fn hops_count_proxies_of_any_address() {
        #[rustfmt::skip]
        let table = [
            // proxies, the addresses that they and the client have noted, and the client
            (1, "6.6.6.6, 9.9.9.9",                 Ok("9.9.9.9")),
            (2, "6.6.6.6, 9.9.9.9, 7.7.7.7",        Ok("9.9.9.9")),
            (2, "$$, 9.9.9.9, 10.0.0.2",            Ok("9.9.9.9")),
            (1, "9.9.9.9, 10.0.0.2",                Ok("10.0.0.2")),
            (2, "9.9.9.9, unknown, 7.7.7.7",        Ok("7.7.7.7")),
            (2, "9.9.9.9, $$, 7.7.7.7",             Err("`x-forwarded-for` is not readable: it has an entry that is no address")),
            (3, "9.9.9.9, 7.7.7.7",                 Err("`x-forwarded-for` has 2 addresses, and `trusted_hops` says that 3 proxies have added one")),
        ];
        for (hops, list, expected) in table {
            let settings = OriginSettings { trusted_hops: Some(hops), ..settings() };
            let asked = question("GET /check", &format!("x-forwarded-for: {list}"));
            let found =
                OriginalRequest::new(&asked, NGINX.parse().unwrap(), &settings, false).unwrap().client_address();
            let found = found.map(|address| address.to_string()).map_err(|error| error.to_string());
            assert_eq!(found.as_deref().map_err(|error| error.as_str()), expected, "{hops} {list}");
        }
    }

    #[test]
    fn paths_are_compared_as_written_unless_they_are_normalised() {
        for (normalise, path) in [(false, "/a/../%64ear"), (true, "/dear")] {
            let labels = vec![("route".to_owned(), LabelSource::Path)];
            let settings = OriginSettings { normalise, labels, ..settings() };
            for (line, headers) in [("GET /check", "x-original-uri: /a/../%64ear?b"), ("GET /check/a/../%64ear", "")] {
                let asked = question(line, headers);
                let labels =
                    OriginalRequest::new(&asked, NGINX.parse().unwrap(), &settings, false).unwrap().labels().unwrap();
                assert_eq!(labels.get("route"), Some(path), "{line}");
            }
        }
    }

    #[test]
    fn a_direct_request_is_labelled_by_its_own_line() {
        let labels = vec![("route".to_owned(), LabelSource::Path), ("method".to_owned(), LabelSource::Method)];
        let settings = OriginSettings { labels, ..settings() };
        let asked = question("GET /check/a", "x-original-uri: /free\nx-original-method: PUT\nx-forwarded-uri: /free");
        let labels = OriginalRequest::new(&asked, NGINX.parse().unwrap(), &settings, true).unwrap().labels().unwrap();
        assert_eq!((labels.get("route"), labels.get("method")), (Some("/check/a"), Some("GET")));
    }

    #[test]
    fn long_values_are_cut() {
        let asked = question(&format!("GET /check/{}", "a".repeat(300)), "");
        let settings = OriginSettings { labels: vec![("route".to_owned(), LabelSource::Path)], ..settings() };
        let labels =
            OriginalRequest::new(&asked, "127.0.0.1".parse().unwrap(), &settings, false).unwrap().labels().unwrap();
        assert_eq!(labels.get("route").unwrap().chars().count(), MAX_LABEL_VALUE);
    }
}
