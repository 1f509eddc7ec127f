//! What a proxy is configured with.

use crate::credential::Credential;
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

/// The longest body that is read for what its request costs: a request with pictures of 20 MiB.
pub const MAX_SCANNED: usize = 32 << 20;

/// Everything that one proxy does differently from another.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server behind the proxy.
    pub upstream: Upstream,
    /// What requests ask for.
    pub asking: Asking,
    /// How headers change on their way through the proxy.
    pub headers: HeaderSettings,
    /// What the proxy shows to the upstream in place of its clients' own.
    pub credential: Option<Credential>,
    /// How long requests and their parts may take.
    pub times: Times,
    /// How much there may be of everything.
    pub bounds: Bounds,
    /// How connections are encrypted.
    pub encryption: Encryption,
    /// What web pages may ask for.
    pub pages: Pages,
    /// Where spans go, if this process sends any.
    pub spans: Option<Spans>,
}

/// How connections are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// The certificate that clients see. Without it, their connections are not encrypted.
    pub certificate: Option<CertificateFiles>,
    /// The authorities (PEM) that count for the upstream instead of the system's.
    pub upstream_ca: Option<PathBuf>,
}

/// What web pages may ask for. A browser lets any page send requests to this proxy, which would make
/// them with its credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// The names by which clients call this proxy, beside its addresses, `localhost`, the upstream's
    /// host and the hosts of routes.
    pub hosts: Vec<String>,
    /// The origins whose pages may send requests, such as `https://app.example`.
    pub origins: Vec<String>,
}

/// What requests ask for.
#[derive(Clone, Debug, Default)]
pub struct Asking {
    /// Kinds of requests, with their classes, labels and costs. The first one that fits counts.
    pub routes: Routes,
    /// Whether equivalent spellings of a path become one before routes and prices look at it.
    pub normalise: bool,
    /// The class of requests whose route has none. Without it, the resource's default counts.
    pub class: Option<String>,
    /// The header in which clients name their class.
    pub class_header: Option<HeaderName>,
    /// The labels of every request. Without it, there are none.
    pub labels: Option<LabelsFn>,
    /// Labels that are read from JSON bodies.
    pub body_labels: Vec<BodyLabel>,
    /// The units of tokens, if requests are those to language models.
    pub tokens: Option<TokenUnits>,
    /// Units whose amounts clients may state, and the headers in which they do.
    pub cost_headers: Vec<(String, HeaderName)>,
    /// How the cost of a request is computed from its body, if it is.
    pub price: Option<PriceFn>,
    /// Whether requests whose bodies are not understood are refused. Otherwise they cost the default.
    pub refuses_unpriced: bool,
    /// Codes that texts of answers stand for, if the file names such texts.
    pub codes: Option<CodeFn>,
}

/// A function of the settings.
pub struct Function<F: ?Sized>(pub Arc<F>);

/// Reads the labels of a request, which came from this address, or says why the request is ambiguous.
pub type LabelsFn = Function<dyn Fn(&Parts, IpAddr) -> Result<Labels<'static>, String> + Send + Sync>;

/// Finds the code of an objection, from the status and the first 16 KiB of the body, or the last event
/// of a stream.
pub type CodeFn = Function<dyn Fn(u16, &str) -> Option<String> + Send + Sync>;

/// Computes amounts by unit, from the method, the path and the body, or says why there is no price. It
/// may take a tenth of a second.
pub type ComputePrice = Function<dyn Fn(&Method, &str, &[u8]) -> Result<Vec<(String, f64)>, String> + Send + Sync>;

/// What a request costs by its body.
#[derive(Clone, Debug)]
pub struct PriceFn {
    /// Computes the price.
    pub compute: ComputePrice,
    /// What a request costs that has no price, and whose route has no cost.
    pub otherwise: Vec<(String, f64)>,
}

impl Asking {
    /// The path by which routes and prices tell requests apart.
    ///
    /// # Errors
    /// If servers read it differently, and only one spelling counts.
    pub(crate) fn path<'a>(&self, written: &'a str) -> Result<Cow<'a, str>, AmbiguousPath> {
        if self.normalise { normalised(written).map(Cow::from) } else { Ok(written.into()) }
    }

    /// The bytes that are kept of a body. One that tells what its request costs is kept whole.
    pub(crate) fn kept_bytes(&self, bounds: &Bounds) -> usize {
        if self.reads_bodies() { bounds.replay_bytes.max(MAX_SCANNED) } else { bounds.replay_bytes }
    }

    /// Whether a body has to be read before its request asks for a permit.
    pub(crate) fn reads_bodies(&self) -> bool {
        self.tokens.is_some() || self.price.is_some() || !self.body_labels.is_empty()
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
    /// Whether the upstream sees the `Host` of the client instead of its own name.
    pub keep_host: bool,
    /// Whether the upstream learns the client's address and `Host`: `X-Forwarded-For` and the like.
    pub forwarded: bool,
    /// The proxies whose `X-Forwarded-For` is kept.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether answers tell the milliseconds for which their request was held.
    pub tell_wait: bool,
}

/// How long requests and their parts may take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long a request is held before it is answered 429.
    pub max_wait: Span,
    /// How long a connection to the upstream may take.
    pub connect: Span,
    /// How long the upstream may take for the head of its answer, from the last byte of the
    /// request.
    pub first_byte: Span,
    /// How long the upstream may be silent in the middle of an answer.
    pub next_byte: Span,
    /// How long a connection to the upstream is kept without a request.
    pub idle: Span,
    /// How long held requests go on waiting when the proxy is told to stop.
    pub drain: Span,
}

/// How much there may be of everything.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections of clients.
    pub clients: usize,
    /// Requests that wait for their permits or for the head of their answer.
    pub held: usize,
    /// Requests that the upstream works on.
    pub in_flight: usize,
    /// Bytes of one body that are kept to send it again. Bodies that tell what they cost are kept
    /// whole, up to 32 MiB.
    pub replay_bytes: usize,
    /// Bytes of all bodies together that are kept.
    pub replay_memory: usize,
}

/// The server behind the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// The path in front of all paths, without a slash at its end.
    prefix: String,
}

/// Why a text names no upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an upstream is written like \"https://api.example.com\" or \"http://10.0.0.5:8080/base\", not {0:?}")]
pub struct UpstreamError(String);

impl Default for Times {
    fn default() -> Self {
        Times {
            // As long as the clients of large APIs wait for an answer.
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
    /// Whether it is reached over TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Its name or address, without a port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// The upstream's URL for what a client wants; `None` if the client names no path.
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
