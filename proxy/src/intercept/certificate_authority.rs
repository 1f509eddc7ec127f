//! The user's own authority, which signs a certificate for each intercepted host.
//!
//! Keys of hosts are in memory only. All hosts have their certificates from the start: there are
//! few, and a fault of the authority is reported before a client meets it. The certificates are
//! made again once a day, and when a file of the authority changes.

use super::Host;
use crate::tls::watched_files::WatchedFiles;
use crate::tls::{self, PemFault, TlsFileError, blocking, certificates, fault};
use rampmeter_protocol::clock::{Clock, unix_ms};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::time::ASN1Time;

const DAY_S: u64 = 86_400;
/// How far a client's clock may be behind.
const SLACK_S: u64 = DAY_S;
/// How long a certificate counts. Clients may keep a connection, and their clocks may be ahead.
const VALID_S: u64 = 7 * DAY_S;
/// How old a certificate becomes before the next one is made.
const RENEW_MS: u64 = DAY_S * 1000;
/// The permissions that let other users than its owner read a key's file.
const READ_BY_OTHERS: u32 = 0o044;
/// The name in a certificate, for people that look at it.
const SUBJECT: &str = "made by a Rampmeter proxy";

/// An authority and its private key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// Its certificate, followed by those of the authorities above it.
    pub cert_file: PathBuf,
    /// Its private key (PKCS #8).
    pub key_file: PathBuf,
}

/// Shows certificates of hosts.
#[derive(Debug)]
pub(crate) struct CertificateAuthority {
    files: AuthorityFiles,
    hosts: Vec<Host>,
    clock: Clock,
    /// The lock guards the certificates. It is held while files are read and certificates made.
    current: Mutex<Current>,
}

struct Current {
    acceptors: BTreeMap<String, TlsAcceptor>,
    watched: WatchedFiles,
    made_ms: u64,
}

/// The authority as it was read.
struct Signer {
    files: AuthorityFiles,
    issuer: Issuer<'static, KeyPair>,
    /// The authority's own certificate comes first.
    chain: Vec<CertificateDer<'static>>,
    provider: CryptoProvider,
    now_s: u64,
}

/// Shows its certificate to clients that want this host, or do not say what they want.
#[derive(Debug)]
struct OneHost {
    name: String,
    shown: Arc<CertifiedKey>,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Current")
    }
}

impl CertificateAuthority {
    /// # Errors
    /// If a file cannot be used, or the authority can't sign for one of the hosts.
    pub(crate) fn read(files: AuthorityFiles, hosts: Vec<Host>, clock: Clock) -> Result<Self, TlsFileError> {
        let watched = WatchedFiles::new(vec![files.cert_file.clone(), files.key_file.clone()], clock.now());
        let made_ms = unix_ms();
        let acceptors = files.acceptors(&hosts, made_ms)?;
        Ok(CertificateAuthority { files, hosts, clock, current: Mutex::new(Current { acceptors, watched, made_ms }) })
    }

    /// The acceptor for the next client that wants the host of this name. While changed files are
    /// of no use, the former certificates count.
    pub(crate) async fn acceptor(&self, host: &str) -> Option<TlsAcceptor> {
        let mut current = self.current.lock().await;
        let have_changed = current.watched.have_changed(self.clock.now());
        let now_ms = unix_ms();
        if have_changed || now_ms.abs_diff(current.made_ms) >= RENEW_MS {
            current.made_ms = now_ms;
            let (files, hosts) = (self.files.clone(), self.hosts.clone());
            match blocking(&self.files.cert_file, move || files.acceptors(&hosts, now_ms)).await {
                Ok(acceptors) => current.acceptors = acceptors,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "the certificates of before go on counting");
                }
            }
        }
        current.acceptors.get(host).cloned()
    }
}

impl AuthorityFiles {
    fn acceptors(&self, hosts: &[Host], now_ms: u64) -> Result<BTreeMap<String, TlsAcceptor>, TlsFileError> {
        let signer = Signer::read(self.clone(), now_ms / 1000)?;
        let acceptor = |host: &Host| Ok((host.name().to_owned(), signer.acceptor(host.name())?));
        hosts.iter().map(acceptor).collect()
    }
}

impl Signer {
    fn read(files: AuthorityFiles, now_s: u64) -> Result<Self, TlsFileError> {
        let chain = certificates(&files.cert_file)?;
        let of_cert = |reason: &str| fault(&files.cert_file, reason.to_owned());
        let own = chain.first().ok_or_else(|| of_cert("it has no certificate"))?;
        let (_, read) =
            x509_parser::parse_x509_certificate(own).map_err(|_| of_cert("its certificate can't be read"))?;
        if !read.is_ca() {
            return Err(of_cert("its first certificate is not one of an authority (basicConstraints = CA:TRUE)"));
        }
        if !moment(now_s).is_some_and(|now| read.validity().is_valid_at(now)) {
            return Err(of_cert("its first certificate is not valid now"));
        }
        let issuer = Issuer::from_ca_cert_der(own, key(&files.key_file)?);
        let issuer = issuer.map_err(|error| of_cert(&format!("its subject can't be signed for: {error}")))?;
        Ok(Signer { issuer, chain, provider: default_provider(), now_s, files })
    }

    fn acceptor(&self, host: &str) -> Result<TlsAcceptor, TlsFileError> {
        let (certificate, key) = self.sign(host).map_err(|reason| fault(&self.files.cert_file, reason))?;
        self.check(&certificate, host).map_err(|error| {
            fault(&self.files.cert_file, format!("what it signs for {host} with {} is refused: {error}", self.key()))
        })?;
        let chain = [certificate].into_iter().chain(self.chain.iter().cloned()).collect();
        let shown = CertifiedKey::from_der(chain, key, &self.provider);
        let shown = shown.map_err(|error| fault(&self.files.cert_file, error.to_string()))?;
        let one_host = OneHost { name: host.to_owned(), shown: Arc::new(shown) };
        Ok(tls::acceptor(ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(one_host))))
    }

    fn key(&self) -> std::path::Display<'_> {
        self.files.key_file.display()
    }

    /// A certificate for `host`, and its key.
    fn sign(&self, host: &str) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), String> {
        let of_rcgen = |error: rcgen::Error| format!("no certificate for {host}: {error}");
        let (from, to) = moment(self.now_s.saturating_sub(SLACK_S))
            .zip(moment(self.now_s + VALID_S))
            .ok_or("the clock tells no date of a certificate")?;
        let key = KeyPair::generate().map_err(of_rcgen)?;
        let mut params = CertificateParams::new([host.to_owned()]).map_err(of_rcgen)?;
        (params.not_before, params.not_after) = (from.to_datetime(), to.to_datetime());
        params.distinguished_name.push(DnType::CommonName, SUBJECT);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Python 3.13 and newer refuse certificates without this extension.
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(of_rcgen)?;
        Ok((certificate.der().clone(), PrivateKeyDer::from(key)))
    }

    /// Verifies `certificate` as a client does that trusts the authority. This finds a key of
    /// another authority, and a name constraint that excludes the host.
    fn check(&self, certificate: &CertificateDer<'_>, host: &str) -> Result<(), webpki::Error> {
        let anchors = [anchor_from_trusted_cert(&self.chain[0])?];
        let now = UnixTime::since_unix_epoch(Duration::from_secs(self.now_s));
        let shown = EndEntityCert::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        shown.verify_for_usage(algorithms, &anchors, &[], now, KeyUsage::server_auth(), None, None)?;
        let name = ServerName::try_from(host).map_err(|_| webpki::Error::MalformedDnsIdentifier)?;
        shown.verify_is_valid_for_subject_name(&name)
    }
}

impl ResolvesServerCert for OneHost {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_meant = hello.server_name().is_none_or(|name| name.eq_ignore_ascii_case(&self.name));
        is_meant.then(|| self.shown.clone())
    }
}

fn key(file: &Path) -> Result<KeyPair, TlsFileError> {
    let mode = std::fs::metadata(file).map_or(0, |file| file.permissions().mode());
    if mode & READ_BY_OTHERS != 0 {
        tracing::warn!(file = %file.display(), "others than its owner may read the key of the authority: chmod 600");
    }
    let read = |text: &[u8]| {
        PrivateKeyDer::from_pem_slice(text)?;
        let key = std::str::from_utf8(text).ok().and_then(|text| KeyPair::from_pem(text).ok());
        key.ok_or(PemFault::UnsupportedKey)
    };
    tls::pem(file, read, "it has no private key in PEM that can be used: PKCS #8, without a password")
}

fn moment(unix_s: u64) -> Option<ASN1Time> {
    ASN1Time::from_timestamp(i64::try_from(unix_s).ok()?).ok()
}
