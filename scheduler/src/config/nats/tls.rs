//! `tls` of the table `[nats]`.

use crate::config::keys::keys;
use rampmeter_nats::tls::{Identity, Tls};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;

keys! {
    /// `tls = { … }`
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(in crate::config) struct TlsTable {
        /// Whether a server without TLS is refused.
        #[serde(default = "yes")]
        pub required: bool = Default("true"),
        /// The authorities that count instead of those of the system, as PEM.
        pub ca_file: Option<PathBuf> = Example(r#""/etc/rampmeter/nats-ca.pem""#),
        /// The certificate of this client, as PEM, if the server wants one.
        pub cert_file: Option<PathBuf> = Example(r#""/etc/rampmeter/nats-cert.pem""#),
        /// The private key of that certificate, as PEM.
        pub key_file: Option<PathBuf> = Example(r#""/etc/rampmeter/nats-key.pem""#),
    }
}

fn yes() -> bool {
    true
}

/// Reads the table.
pub(in crate::config) fn tls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tls, D::Error> {
    let TlsTable { required, ca_file, cert_file, key_file } = TlsTable::deserialize(deserializer)?;
    let identity = match (cert_file, key_file) {
        (Some(cert_file), Some(key_file)) => Some(Identity { cert_file, key_file }),
        (None, None) => None,
        (Some(_), None) => return Err(Error::custom("`cert_file` needs the private key: `key_file`")),
        (None, Some(_)) => return Err(Error::custom("`key_file` needs the certificate: `cert_file`")),
    };
    Ok(Tls { required, ca_file, identity })
}
