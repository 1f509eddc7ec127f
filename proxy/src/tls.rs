//! Encryption towards clients, and the authorities of the upstream.

use crate::watched_files::WatchedFiles;
use rampmeter_protocol::clock::Clock;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};

/// The protocols that clients may choose, the better one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The certificate of a proxy and its private key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those of intermediate authorities behind it.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
    /// The authorities that clients need a certificate of. Without them, clients need none.
    pub client_ca_file: Option<PathBuf>,
}

/// The first name in the certificate of a client, which its request carries along.
#[derive(Clone, Debug)]
pub struct ClientName(pub Arc<str>);

impl ClientName {
    /// The name of the client that has begun this session.
    pub(crate) fn of(session: &ServerConnection) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(session.peer_certificates()?.first()?).ok()?;
        let name = certificate.valid_dns_names().next().map(Arc::from);
        name.map(ClientName)
    }
}

/// Why a file is of no use. The text contains no part of a key.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct TlsFileError {
    path: PathBuf,
    reason: String,
}

/// The certificate that counts now. It is read again when a file changes.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: CertificateFiles,
    clock: Clock,
    /// The lock guards what was read. It is held for a look at the files.
    current: Mutex<Current>,
}

struct Current {
    acceptor: TlsAcceptor,
    watched: WatchedFiles,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Current")
    }
}

impl Certificate {
    /// # Errors
    /// If a file is of no use.
    pub(crate) fn read(files: CertificateFiles, clock: Clock) -> Result<Self, TlsFileError> {
        let watched = WatchedFiles::new(files.all(), clock.now());
        let current = Mutex::new(Current { acceptor: files.acceptor()?, watched });
        Ok(Certificate { files, clock, current })
    }

    /// The acceptor for the next client. While changed files are of no use, the former ones count.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.watched.have_changed(self.clock.now()) {
            match self.files.acceptor() {
                Ok(acceptor) => current.acceptor = acceptor,
                Err(error) => tracing::warn!(%error, "the former certificate stays in use"),
            }
        }
        current.acceptor.clone()
    }
}

impl CertificateFiles {
    fn all(&self) -> Vec<PathBuf> {
        [Some(&self.cert_file), Some(&self.key_file), self.client_ca_file.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    fn acceptor(&self) -> Result<TlsAcceptor, TlsFileError> {
        let key = pem(&self.key_file, |text| PrivateKeyDer::from_pem_slice(text).ok(), "it has no private key in PEM")?;
        let config = match &self.client_ca_file {
            Some(file) => ServerConfig::builder().with_client_cert_verifier(verifier(file)?),
            None => ServerConfig::builder().with_no_client_auth(),
        };
        let config = config.with_single_cert(certificates(&self.cert_file)?, key);
        Ok(acceptor(config.map_err(|error| fault(&self.key_file, error.to_string()))?))
    }
}

/// An acceptor with `config`, for both versions of HTTP.
pub(crate) fn acceptor(mut config: ServerConfig) -> TlsAcceptor {
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    TlsAcceptor::from(Arc::new(config))
}

/// A client of servers whose certificates the authorities in `file` have signed.
///
/// # Errors
/// If the file is of no use.
pub(crate) fn trusting(file: &Path) -> Result<ClientConfig, TlsFileError> {
    Ok(ClientConfig::builder().with_root_certificates(authorities(file)?).with_no_client_auth())
}

/// A verifier that refuses clients without a certificate that the authorities in `file` have
/// signed.
fn verifier(file: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    let verifier = WebPkiClientVerifier::builder(Arc::new(authorities(file)?));
    verifier.build().map_err(|error| fault(file, error.to_string()))
}

fn authorities(file: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| fault(file, error.to_string()))?;
    }
    Ok(roots)
}

/// The certificates in `file`, of which there is at least one.
///
/// # Errors
/// If the file has none.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let all = |text: &[u8]| {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        all.ok().filter(|all| !all.is_empty())
    };
    pem(file, all, "it has no certificate in PEM")
}

/// What `read` finds in `file`.
///
/// # Errors
/// If there is no such file, or `read` finds nothing.
pub(crate) fn pem<T>(file: &Path, read: impl Fn(&[u8]) -> Option<T>, otherwise: &str) -> Result<T, TlsFileError> {
    let text = std::fs::read(file).map_err(|error| fault(file, error.to_string()))?;
    read(&text).ok_or_else(|| fault(file, otherwise.to_owned()))
}

/// Says of the file at `path` why it is of no use.
pub(crate) fn fault(path: &Path, reason: String) -> TlsFileError {
    TlsFileError { path: path.to_owned(), reason }
}
