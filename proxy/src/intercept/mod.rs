//! Tunnels that end here: for programs that know no base URL, only `HTTPS_PROXY`.
//!
//! A program asks its proxy for a tunnel to a host (`CONNECT`). If the host is one of `hosts`, the
//! proxy answers in its place. `authority` shows a certificate that the user's own authority has
//! signed. `tunnel` hands on the connection, whose requests are treated like all requests. To any
//! other host there is no tunnel.

mod certificate_authority;
mod hosts;
mod tunnel;

pub use certificate_authority::AuthorityFiles;
pub(crate) use hosts::{HTTP, HTTPS};
pub use hosts::{Host, HostError};
use http::uri::Authority;
use rampmeter_protocol::clock::Clock;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
pub(crate) use tunnel::{Tunnel, TunnelSlot};

use crate::tls::TlsFileError;
use certificate_authority::CertificateAuthority;

/// Which tunnels end here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interception {
    /// The authority that programs trust.
    pub authority: AuthorityFiles,
    /// The hosts. If the list is empty, the upstream's own host counts.
    pub hosts: Vec<Host>,
}

/// Answers in place of hosts.
#[derive(Debug)]
pub(crate) struct Interceptor {
    hosts: Vec<Host>,
    authority: CertificateAuthority,
}

impl Interceptor {
    /// Answers for the hosts of `interception`, or for the `upstream` alone.
    ///
    /// # Errors
    /// If the authority cannot be used.
    pub(crate) fn open(interception: Interception, upstream: &Authority, clock: Clock) -> Result<Self, TlsFileError> {
        let Interception { authority, mut hosts } = interception;
        if hosts.is_empty() {
            hosts.push(Host::of(upstream));
        }
        let authority = CertificateAuthority::read(authority, hosts.clone(), clock)?;
        Ok(Interceptor { hosts, authority })
    }

    /// The host at `wanted`, if it is one of these. A host without a port is at `port`.
    pub(crate) fn find(&self, wanted: &Authority, port: u16) -> Option<Arc<Host>> {
        let wanted = Host::at(wanted, port)?;
        self.hosts.iter().any(|host| host.has(&wanted, port)).then(|| Arc::new(wanted))
    }

    /// The acceptor for clients of `host`.
    async fn acceptor(&self, host: &Host) -> Option<TlsAcceptor> {
        self.authority.acceptor(host.name()).await
    }
}
