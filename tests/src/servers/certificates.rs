//! Certificates for one test, and servers and clients that show them.

use rampmeter_nats_server::Options;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// An authority, and the folder with all that it has issued.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate's file.
    pub cert: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}

impl Authority {
    /// A new authority. Two authorities have different names.
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut of_authority = params(name, &[]);
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = of_authority.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Authority { folder, issuer: Issuer::new(of_authority, key) }
    }

    /// The file with its own certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Issues a certificate for `hosts`.
    pub fn issue(&self, name: &str, hosts: &[&str]) -> Issued {
        self.sign(name, params(name, hosts))
    }

    /// The same; it has expired long ago.
    pub fn issue_expired(&self, name: &str, hosts: &[&str]) -> Issued {
        let mut params = params(name, hosts);
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign(name, params)
    }

    /// What a server of this authority answers to `sent`: a client that speaks one of these protocols, and may show a
    /// certificate of its own.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn answered(
        &self,
        address: &str,
        protocols: &[&str],
        shown: Option<&Issued>,
        sent: &str,
    ) -> io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.ca_file()).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match shown {
            Some(Issued { cert, key }) => {
                let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(address).await?;
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(sent.as_bytes()).await?;
        let mut found = String::new();
        stream.read_to_string(&mut found).await?;
        Ok(found)
    }

    fn sign(&self, name: &str, params: CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |kind: &str| self.folder.path().join(format!("{name}-{kind}.pem"));
        let issued = Issued { cert: file("cert"), key: file("key") };
        std::fs::write(&issued.cert, certificate.pem()).unwrap();
        std::fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// The options of a server that shows `own`. With `clients` it verifies its clients, too.
pub fn encrypted(own: &Issued, clients: Option<&Path>, options: Options) -> Options {
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let own = ["--tls".to_owned(), "--tlscert".to_owned(), text(&own.cert), "--tlskey".to_owned(), text(&own.key)];
    let verify = clients.map(|ca| ["--tlsverify".to_owned(), "--tlscacert".to_owned(), text(ca)]);
    let arguments = options.arguments.into_iter().chain(own).chain(verify.into_iter().flatten()).collect();
    Options { arguments, ..options }
}
