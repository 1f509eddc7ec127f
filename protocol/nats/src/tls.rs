//! TLS of a connection and the certificates of both ends.

use crate::key_file::{KeyFileError, readable};
use async_nats::ConnectOptions;
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};

/// A client's TLS settings, whose files are read for each connection. By default the server and its URL decide whether
/// to encrypt, and the system's authorities are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Whether to refuse a server without TLS.
    pub required: bool,
    /// Certificates of the authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// This client's certificate and private key, for servers that verify clients.
    pub identity: Option<Identity>,
}

/// The PEM files of a client's certificate and private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, followed by those of intermediate authorities.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}

impl Tls {
    /// Applies these settings to `options`.
    ///
    /// # Errors
    /// If a file cannot be read, lacks its certificate or key, or these do not match.
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
    /// Checks that the key matches the certificate.
    fn check(&self) -> Result<(), KeyFileError> {
        let Identity { cert_file, key_file } = self;
        let (certificates, key) = (certificates(cert_file)?, key(key_file)?);
        let client = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
        let mismatch = |_| KeyFileError::Mismatch { cert: cert_file.clone(), key: key_file.clone() };
        client.with_client_auth_cert(certificates, key).map(drop).map_err(mismatch)
    }
}

/// Reads the certificates in `file`. The client itself accepts a file without any.
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
