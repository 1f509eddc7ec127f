//! The settings of a proxy.

use crate::credential::Credentials;
use crate::money::Money;
use crate::route::Routes;
use crate::tokens::{BodyLabel, TokenUnits};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, Method, Uri};
use ipnet::IpNet;
use rampmeter_listener::path::{AmbiguousPath, normalised};
use rampmeter_listener::tls::CertificateFiles;
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::time::Span;
use rampmeter_telemetry::Spans;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// How often a proxy calls while no scheduler answers.
pub use rampmeter_worker_sdk::policy::SafeRate;

/// Longest body that is read for its request's cost: a request with pictures of 20 MiB.
pub const MAX_SCANNED: usize = 32 << 20;

/// The settings of a proxy.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server behind the proxy.
    pub upstream: Upstream,
    /// How the permits of requests are determined.
    pub asking: Asking,
    /// How headers change on their way through the proxy.
    pub headers: HeaderSettings,
    /// The credentials sent to the upstream in place of the clients' own.
    pub credentials: Credentials,
    /// How long requests and their parts may take.
    pub times: Times,
    /// The bounds of its resources.
    pub bounds: Bounds,
    /// TLS on both sides.
    pub encryption: Encryption,
    /// What web pages may request.
    pub pages: Pages,
    /// Where spans go, if this process exports any.
    pub spans: Option<Spans>,
}

/// TLS on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// The certificate for clients, whose connections are otherwise not encrypted.
    pub certificate: Option<CertificateFiles>,
    /// The authorities (PEM) that are trusted for the upstream instead of the system's.
    pub upstream_ca: Option<PathBuf>,
}

/// What web pages may request: any page can have a browser send requests here, to be forwarded with the credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Names of this proxy besides its addresses, `localhost`, and the hosts of the upstream and of routes.
    pub hosts: Vec<String>,
    /// The origins whose pages may send requests, such as `https://app.example`.
    pub origins: Vec<String>,
}

/// How the permits of requests are determined.
#[derive(Clone, Debug, Default)]
pub struct Asking {
    /// Kinds of requests with their classes, labels and costs. The first that matches applies.
    pub routes: Routes,
    /// Whether equivalent spellings of a path are normalised before routes and prices see it.
    pub normalise: bool,
    /// The class of requests whose route has none; the resource's default if absent.
    pub class: Option<String>,
    /// The header in which clients state their class.
    pub class_header: Option<HeaderName>,
    /// Computes the labels of every request, if there are any.
    pub labels: Option<LabelsFn>,
    /// Labels read from JSON bodies.
    pub body_labels: Vec<BodyLabel>,
    /// The units of tokens, if requests go to language models.
    pub tokens: Option<TokenUnits>,
    /// The prices of language models, if limits count money.
    pub money: Option<Money>,
    /// Units whose amounts clients may state, with the headers in which they do.
    pub cost_headers: Vec<(String, HeaderName)>,
    /// Computes the cost of a request from its body.
    pub price: Option<PriceFn>,
    /// Whether to refuse requests whose bodies are not understood instead of charging the default.
    pub refuses_unpriced: bool,
    /// Finds codes for texts of responses, if the file lists such texts.
    pub codes: Option<CodeFn>,
}

/// A function of the settings.
pub struct Function<F: ?Sized>(pub Arc<F>);

/// Computes the labels of a request from this address, or says why the request is ambiguous.
pub type LabelsFn = Function<dyn Fn(&Parts, IpAddr) -> Result<Labels<'static>, String> + Send + Sync>;

/// Finds an error's code from the status and 16 KiB of the body, or a stream's last event.
pub type CodeFn = Function<dyn Fn(u16, &str) -> Option<String> + Send + Sync>;

/// Computes amounts by unit from method, path and body, or says why there is none. May take a tenth of a second.
pub type ComputePrice = Function<dyn Fn(&Method, &str, &[u8]) -> Result<Vec<(String, f64)>, String> + Send + Sync>;

/// The pricing of requests by their bodies.
#[derive(Clone, Debug)]
pub struct PriceFn {
    /// Computes the price.
    pub compute: ComputePrice,
    /// The cost of a request without a price, whose route has no cost.
    pub otherwise: Vec<(String, f64)>,
}

impl Asking {
    /// Returns the path for routes and prices. Fails if servers read it differently, and only one spelling counts.
    pub(crate) fn path<'a>(&self, written: &'a str) -> Result<Cow<'a, str>, AmbiguousPath> {
        if self.normalise { normalised(written).map(Cow::from) } else { Ok(written.into()) }
    }

    /// The bytes that are kept of a body. A body that determines its request's cost is kept whole.
    pub(crate) fn kept_bytes(&self, bounds: &Bounds) -> usize {
        if self.reads_bodies() { bounds.replay_bytes.max(MAX_SCANNED) } else { bounds.replay_bytes }
    }

    /// Whether the tokens of requests count, or their money does.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.tokens.is_some() || self.money.is_some()
    }

    /// Whether a body has to be read before its request gets a permit.
    pub(crate) fn reads_bodies(&self) -> bool {
        self.counts_tokens() || self.price.is_some() || !self.body_labels.is_empty()
    }
}

impl<F: ?Sized> Clone for Function<F> {
    fn clone(&self) -> Self {
        Function(Arc::clone(&self.0))
    }
}

impl<F: ?Sized> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

/// How headers change on their way through the proxy.
#[derive(Clone, Debug, Default)]
pub struct HeaderSettings {
    /// Whether the upstream receives the client's `Host` instead of its own name.
    pub keep_host: bool,
    /// Whether the upstream gets the client's address and `Host` as `X-Forwarded-For` etc.
    pub forwarded: bool,
    /// The proxies whose `X-Forwarded-For` is kept.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether responses contain the milliseconds for which their request was held.
    pub tell_wait: bool,
}

/// How long requests and their parts may take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Longest hold of a request before it is answered with 429.
    pub max_wait: Span,
    /// Timeout of connecting to the upstream.
    pub connect: Span,
    /// Timeout of the response's head, from the last byte of the request.
    pub first_byte: Span,
    /// Longest silence of the upstream in the middle of a response.
    pub next_byte: Span,
    /// How long an idle connection to the upstream is kept.
    pub idle: Span,
    /// How long held requests still wait when the proxy has to stop.
    pub drain: Span,
}

/// The bounds of a proxy's resources.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections of clients.
    pub clients: usize,
    /// Requests that wait for their permits or for the head of their answer.
    pub held: usize,
    /// Requests that the upstream is processing.
    pub in_flight: usize,
    /// Bytes of one body kept to send it again; up to 32 MiB if the body determines its cost.
    pub replay_bytes: usize,
    /// Bytes kept of all bodies together.
    pub replay_memory: usize,
}

/// The server behind the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// The prefix of all paths, without a slash at its end.
    prefix: String,
}

/// Why a text is not a valid upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an upstream is written like \"https://api.example.com\" or \"http://10.0.0.5:8080/base\", not {0:?}")]
pub struct UpstreamError(String);

impl Default for Times {
    fn default() -> Self {
        Times {
            // As long as the clients of large APIs wait for a response.
            max_wait: Span::from_secs(600),
            connect: Span::from_secs(10),
            first_byte: Span::from_secs(600),
            // As long as for the first byte: a language model may pause within a response.
            next_byte: Span::from_secs(600),
            // Shorter than servers keep them, so that a request seldom meets a closing connection.
            idle: Span::from_secs(30),
            drain: Span::from_secs(20),
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { clients: 16_384, held: 10_000, in_flight: 1_024, replay_bytes: 1 << 20, replay_memory: 256 << 20 }
    }
}

impl Upstream {
    /// Returns whether it is reached over TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Returns its name or address, without a port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// The upstream's URL for a client's target; `None` if that has no path.
    pub(crate) fn target(&self, wanted: &Uri) -> Option<Uri> {
        let path = wanted.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = format!("{}{}", self.prefix, if path.is_empty() { "/" } else { path });
        let builder = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        builder.path_and_query(path).build().ok().filter(|target| target.path().starts_with('/'))
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}

impl std::str::FromStr for Upstream {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, UpstreamError> {
        let wrong = || UpstreamError(text.to_owned());
        let parts = text.parse::<Uri>().map_err(|_| wrong())?.into_parts();
        let path = parts.path_and_query.as_ref();
        let scheme = parts.scheme.filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let is_plain = path.is_none_or(|path| path.query().is_none());
        let authority = parts.authority.filter(|authority| is_plain && !authority.as_str().contains('@'));
        let prefix = path.map_or("", PathAndQuery::path).trim_end_matches('/').to_owned();
        let (scheme, authority) = scheme.zip(authority).ok_or_else(wrong)?;
        Ok(Upstream { scheme, authority, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_scheme_a_host_and_perhaps_a_path() {
        let target = |upstream: &str, wanted: &str| {
            let upstream: Upstream = upstream.parse().unwrap();
            upstream.target(&wanted.parse().unwrap()).map(|target| target.to_string())
        };
        assert_eq!(target("https://a.example", "/v1/x?y=z").unwrap(), "https://a.example/v1/x?y=z");
        assert_eq!(target("http://10.0.0.5:8080/base/", "/x").unwrap(), "http://10.0.0.5:8080/base/x");
        assert_eq!(target("http://a", "http://other/x?y").unwrap(), "http://a/x?y");
        assert_eq!(target("http://a", "*"), None);
        for wrong in ["a.example", "/a", "ftp://a", "http://a/?b", "http://me:secret@a", ""] {
            assert!(wrong.parse::<Upstream>().is_err(), "{wrong}");
        }
    }
}
