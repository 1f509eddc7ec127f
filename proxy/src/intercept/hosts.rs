//! Names of hosts, in the configuration and in requests.

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use std::fmt;
use tokio_rustls::rustls::pki_types::ServerName;

/// The port of `https` URLs.
pub(crate) const HTTPS: u16 = 443;
/// The port of `http` URLs.
pub(crate) const HTTP: u16 = 80;

/// A host such as `api.example.com`, perhaps with a port. A host without a port stands for the
/// ports of `http` and `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// In small letters, without the brackets of an address.
    name: String,
    port: Option<u16>,
}

/// Why a text names no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host is written like \"api.example.com\" or \"api.example.com:8443\", without a pattern; not {0:?}")]
pub struct HostError(String);

impl Host {
    /// The host as `authority` writes it.
    pub(crate) fn of(authority: &Authority) -> Self {
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        Host { name, port: authority.port_u16() }
    }

    /// The host in `authority`, at `port` if `authority` has none. `None` if `authority` has a
    /// user, or a port that is not a number.
    pub(crate) fn at(authority: &Authority, port: u16) -> Option<Self> {
        let Host { name, port: written } = Host::of(authority);
        // What stands behind the host is a port, or nothing.
        let is_whole = authority.port_u16().is_some() || authority.as_str() == authority.host();
        let is_plain = !authority.as_str().contains('@') && is_whole;
        is_plain.then(|| Host { name, port: Some(written.unwrap_or(port)) })
    }

    /// Its name or address.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is the host `wanted`, which has a port. If this host has none, `port` counts.
    pub(crate) fn has(&self, wanted: &Host, port: u16) -> bool {
        self.name == wanted.name && Some(self.port.unwrap_or(port)) == wanted.port
    }

    /// Whether a request in the tunnel to this host names this host and no other, in its target and
    /// its `Host` headers. A request that names no host is for none.
    pub(crate) fn is_meant_by(&self, head: &Parts) -> bool {
        let in_headers = head.headers.get_all(HOST).iter().map(|host| Authority::try_from(host.as_bytes()).ok());
        let mut named = head.uri.authority().cloned().map(Some).into_iter().chain(in_headers).peekable();
        let is_meant = |named: Option<Authority>| {
            named.and_then(|named| Host::at(&named, HTTPS)).is_some_and(|named| self.has(&named, HTTPS))
        };
        let is_named = named.peek().is_some();
        is_named && named.all(is_meant)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl std::str::FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let wrong = || HostError(text.to_owned());
        let authority: Authority = text.parse().map_err(|_| wrong())?;
        let host = Host::of(&authority);
        let is_host = Host::at(&authority, HTTPS).is_some() && ServerName::try_from(host.name()).is_ok();
        is_host.then_some(host).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        let has = |host: &str, wanted: &str| {
            let wanted = Host::at(&wanted.parse().unwrap(), HTTPS);
            wanted.is_some_and(|wanted| host.parse::<Host>().unwrap().has(&wanted, HTTPS))
        };
        #[rustfmt::skip]
        let table = [
            ("a.example",      "a.example",         true),
            ("a.example",      "A.Example:443",     true),
            ("A.example:8443", "a.example:8443",    true),
            ("a.example:443",  "a.example",         true),
            ("a.example",      "a.example:80",      false),
            ("a.example:8443", "a.example",         false),
            ("a.example",      "b.a.example",       false),
            ("a.example",      "a.example.",        false),
            ("a.example",      "me:secret@a.example", false),
            ("a.example",      "a.example:",        false),
            ("[::1]:8443",     "[::1]:8443",        true),
            ("127.0.0.1",      "127.0.0.1:443",     true),
        ];
        for (host, wanted, expected) in table {
            assert_eq!(has(host, wanted), expected, "{host} {wanted}");
        }
        for wrong in ["", "*.example", "a b", "https://a", "a/b", "me@a", "a:", "a:99999", ".", "a..b"] {
            assert!(wrong.parse::<Host>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_in_a_tunnel_names_its_host_and_no_other() {
        let is_meant = |target: &str, hosts: &[&str]| {
            let request = hosts.iter().fold(Request::get(target), |request, host| request.header(HOST, *host));
            let host = Host { name: "a.example".to_owned(), port: Some(HTTPS) };
            host.is_meant_by(&request.body(()).unwrap().into_parts().0)
        };
        #[rustfmt::skip]
        let table: [(&str, &[&str], bool); 9] = [
            ("/",                     &["a.example"],              true),
            ("/",                     &["A.example:443"],          true),
            ("https://a.example/",    &[],                         true),
            ("https://a.example/",    &["b.example"],              false),
            ("https://b.example/",    &["a.example"],              false),
            ("/",                     &["b.example"],              false),
            ("/",                     &["a.example:8443"],         false),
            ("/",                     &["a.example", "b.example"], false),
            ("/",                     &[],                         false),
        ];
        for (target, hosts, expected) in table {
            assert_eq!(is_meant(target, hosts), expected, "{target} {hosts:?}");
        }
    }
}
