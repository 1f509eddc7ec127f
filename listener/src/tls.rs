//! Encryption: the certificate of a server, and authorities in files.

use crate::watched_files::WatchedFiles;
use rampmeter_nats::key_file;
use rampmeter_protocol::clock::Clock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// The protocols that clients may choose, the preferred one first.
pub const HTTP_2_OR_1: &[&[u8]] = &[b"h2", b"http/1.1"];

/// The certificate of a server and its private key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of intermediate authorities.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
    /// The authorities by which clients' certificates must be signed. Without them, clients need none.
    pub client_ca_file: Option<PathBuf>,
}

/// The first name in a client's certificate, attached to its requests.
#[derive(Clone, Debug)]
pub struct ClientName(pub Arc<str>);

impl ClientName {
    /// Returns the name of the client of this session.
    #[must_use]
    pub fn of(session: &ServerConnection) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(session.peer_certificates()?.first()?).ok()?;
        let name = certificate.valid_dns_names().next().map(Arc::from);
        name.map(ClientName)
    }
}

/// Why a file cannot be used. The text contains no part of a key, unlike that of the parser.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct TlsFileError {
    path: PathBuf,
    reason: String,
    source: Option<std::io::Error>,
}

/// The current certificate, which is read again when a file changes.
#[derive(Debug)]
pub struct Certificate {
    files: CertificateFiles,
    protocols: &'static [&'static [u8]],
    clock: Clock,
    /// Locked while files are read, so that each client gets their present content.
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
    /// Reads the files. Clients may choose one of `protocols`.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn read(
        files: CertificateFiles,
        protocols: &'static [&'static [u8]],
        clock: Clock,
    ) -> Result<Self, TlsFileError> {
        let watched = WatchedFiles::new(files.all(), clock.now());
        let current = Mutex::new(Current { acceptor: files.acceptor(protocols)?, watched });
        Ok(Certificate { files, protocols, clock, current })
    }

    /// Performs the handshake with a client, to which it reports failures. `None` if it fails or takes too long.
    pub async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let handshake = self.acceptor().await.accept(stream);
        tokio::time::timeout(HANDSHAKE, handshake).await.ok()?.ok()
    }

    /// Returns the acceptor for the next client. While changed files cannot be used, the former ones count.
    async fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().await;
        if current.watched.have_changed(self.clock.now()) {
            let (files, protocols) = (self.files.clone(), self.protocols);
            match blocking(&self.files.cert_file, move || files.acceptor(protocols)).await {
                Ok(acceptor) => current.acceptor = acceptor,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "the former certificate stays in use");
                }
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

    fn acceptor(&self, protocols: &[&[u8]]) -> Result<TlsAcceptor, TlsFileError> {
        let key = |text: &[u8]| PrivateKeyDer::from_pem_slice(text).ok();
        let key = pem(&self.key_file, key, "it has no private key in PEM; `openssl pkey` writes one")?;
        let config = match &self.client_ca_file {
            Some(file) => ServerConfig::builder().with_client_cert_verifier(verifier(file)?),
            None => ServerConfig::builder().with_no_client_auth(),
        };
        let config = config.with_single_cert(certificates(&self.cert_file)?, key);
        let mut config = config.map_err(|error| fault(&self.key_file, error.to_string()))?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Creates the configuration of a client that trusts the authorities in `file`.
///
/// # Errors
/// If the file cannot be used.
pub fn trusting(file: &Path) -> Result<ClientConfig, TlsFileError> {
    Ok(ClientConfig::builder().with_root_certificates(authorities(file)?).with_no_client_auth())
}

/// Creates a verifier that refuses clients without a certificate signed by an authority in `file`.
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

/// Returns the certificates in `file`. Fails if there are none.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let all = |text: &[u8]| {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        all.ok().filter(|all| !all.is_empty())
    };
    pem(file, all, "it has no certificate in PEM; `openssl x509` writes one")
}

/// Returns what `read` finds in `file`. Fails if the file does not exist or is too long, or `read` finds nothing.
fn pem<T>(file: &Path, read: impl Fn(&[u8]) -> Option<T>, otherwise: &str) -> Result<T, TlsFileError> {
    let unreadable = |error| TlsFileError { source: Some(error), ..fault(file, "it can't be read".to_owned()) };
    let text = key_file::bounded(file).map_err(unreadable)?;
    read(&text).ok_or_else(|| fault(file, otherwise.to_owned()))
}

fn fault(path: &Path, reason: String) -> TlsFileError {
    TlsFileError { path: path.to_owned(), reason, source: None }
}

/// Runs `read` on a thread that may wait for a disk. If the runtime ends, the error is that of `path`.
async fn blocking<T: Send + 'static>(
    path: &Path,
    read: impl FnOnce() -> Result<T, TlsFileError> + Send + 'static,
) -> Result<T, TlsFileError> {
    spawn_blocking(read).await.unwrap_or_else(|error| Err(fault(path, error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    /// All texts of an error, down to its first cause.
    fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
        std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string).collect()
    }

    #[test]
    fn a_fault_in_pem_quotes_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reason = "it has no certificate in PEM; `openssl x509` writes one";
        for text in [
            "",
            "-----BEGIN CERTIFICATE-----\ncanary\n",
            "-----BEGIN CERTIFICATE----- canary",
            "-----BEGIN CERTIFICATE-----\ncanary!\n-----END CERTIFICATE-----\n",
        ] {
            std::fs::write(file.path(), text).unwrap();
            let error = certificates(file.path()).unwrap_err();
            assert!(!format!("{error:?}").contains("canary"), "{error:?}");
            assert_eq!(chain(&error), [format!("{}: {reason}", file.path().display())], "{text}");
        }
    }
}
