//! How a connection is encrypted, and which certificates both ends show.

use crate::key_file::{KeyFileError, readable};
use async_nats::ConnectOptions;
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};

/// How a client wants its connection encrypted. By default the server and its URL decide, and the
/// system's authorities count.
///
/// The files are read for each connection, so that replaced ones count from the next one on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Whether a server without TLS is refused.
    pub required: bool,
    /// The certificates of the authorities that count instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate of this client and its private key, for servers that verify clients.
    pub identity: Option<Identity>,
}

/// The two files in which a client has its certificate and its private key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and those of intermediate authorities behind it.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}

impl Tls {
    /// The same options with this encryption.
    ///
    /// # Errors
    /// If a file can't be read, has no certificate or key, or has the key of another certificate.
    pub fn applied(&self, mut options: ConnectOptions) -> Result<ConnectOptions, KeyFileError> {
        if let Some(ca_file) = &self.ca_file {
            certificates(ca_file)?;
            options = options.add_root_certificates(ca_file.clone());
        }
        if let Some(identity) = &self.identity {
            identity.check()?;
            options = options.add_client_certificate(identity.cert_file.clone(), identity.key_file.clone());
        }
        Ok(if self.required { options.require_tls(true) } else { options })
    }
}

impl Identity {
    /// Whether the key is that of the certificate.
    fn check(&self) -> Result<(), KeyFileError> {
        let Identity { cert_file, key_file } = self;
        let (certificates, key) = (certificates(cert_file)?, key(key_file)?);
        let client = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
        let mismatch = |_| KeyFileError::Mismatch { cert: cert_file.clone(), key: key_file.clone() };
        client.with_client_auth_cert(certificates, key).map(drop).map_err(mismatch)
    }
}

/// The certificates in `file`. The client itself accepts a file without certificates.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, KeyFileError> {
    let text = readable(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = certificates.ok().filter(|certificates| !certificates.is_empty());
    found.ok_or_else(|| KeyFileError::lacks(file, "a certificate in PEM"))
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, KeyFileError> {
    let text = readable(file)?;
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| KeyFileError::lacks(file, "a private key in PEM"))
}
