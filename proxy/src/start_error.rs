//! Errors of starting a proxy.

use rampmeter_listener::tls::TlsFileError;

/// Why a proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file with a certificate or a key cannot be used.
    #[error(transparent)]
    File(#[from] TlsFileError),
    /// The system has no authorities for an encrypted upstream.
    #[error("the authorities of the system")]
    Authorities(#[source] std::io::Error),
    /// The listener has no address.
    #[error("the address of the listener")]
    Listener(#[source] std::io::Error),
}
