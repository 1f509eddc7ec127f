//! `[nats]` of the file.

use super::keys::keys;
use super::reading::source::{ConfigError, Source};
use anyhow::Context;
use rampmeter_nats::servers::Servers;
use rampmeter_nats::tls::{Identity, Tls};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

keys! {
    /// `[nats]`
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct NatsTable {
        /// The server, or several of a cluster, with a user if the server wants one:
        /// `nats://user:password@a:4222,nats://b:4222` or `nats://token@a:4222`.
        /// Also: `--nats`, `RAMPMETER_NATS`.
        pub url: String = Default(r#""nats://127.0.0.1:4222""#),
        /// The file with the credentials (JWT and seed), if the server wants some.
        pub credentials_file: Option<String> = Example(r#""/etc/rampmeter/nats.creds""#),
        /// The file with the seed of an `NKey`, if the server wants one. Not beside credentials.
        pub nkey_file: Option<String> = Example(r#""/etc/rampmeter/nats.nk""#),
        /// How the connection is encrypted. Without this the server and the URL decide:
        /// `tls://host:4222` requires TLS. With it there are
        #[serde(deserialize_with = "tls")]
        pub tls: Tls = Example(r#"{ ca_file = "/etc/rampmeter/nats-ca.pem" }"#),
        /// The first token of all subjects, and the name of the KV bucket.
        pub prefix: Name = Default(r#""rampmeter""#),
        /// The first token of the subjects that answers come to.
        /// The user of the scheduler must be allowed to subscribe to them.
        pub inbox_prefix: Name = Default(r#""_INBOX""#),
        /// The first tokens of the inboxes of all users, if NATS keeps users apart by them. Messages
        /// that want answers elsewhere are dropped. Not needed for workers in accounts of their own.
        pub inboxes: Vec<Name> = Example(r#"["_INBOX_worker", "_INBOX_operator"]"#),
        /// The file with the keys that sign the state, so that no other user of NATS can write it: a
        /// line each, of 32 characters or more. Without it, records are not signed.
        pub state_key_file: Option<PathBuf> = Example(r#""/etc/rampmeter/state.key""#),
        /// The number of replicas of the KV bucket: 1, 3 or 5. A cluster wants 3.
        #[serde(deserialize_with = "replicas")]
        pub replicas: usize = Default("1"),
    }
}

impl NatsTable {
    /// Returns the defaults with the server at `url`.
    #[must_use]
    pub fn at(url: &str) -> Self {
        NatsTable { url: url.to_owned(), ..NatsTable::default() }
    }

    /// Returns the subjects, with the inboxes that are answered: those of this process, too.
    #[must_use]
    pub fn subjects(&self) -> Subjects {
        let own = (!self.inboxes.is_empty()).then(|| self.inbox_prefix.clone());
        let inboxes: Vec<Name> = self.inboxes.iter().cloned().chain(own).collect();
        Subjects::new(&self.prefix).expect("the prefix is a name").with_inboxes(&inboxes)
    }

    /// Parses the servers of `url`.
    ///
    /// # Errors
    /// If the URL names none.
    pub fn servers(&self) -> anyhow::Result<Servers> {
        self.url.parse().context("`nats.url`")
    }
}

impl Default for NatsTable {
    fn default() -> Self {
        NatsTable {
            url: "nats://127.0.0.1:4222".to_owned(),
            credentials_file: None,
            nkey_file: None,
            tls: Tls::default(),
            prefix: Subjects::default().prefix().clone(),
            inbox_prefix: Name::new("_INBOX").expect("a valid name"),
            inboxes: Vec::new(),
            state_key_file: None,
            replicas: 1,
        }
    }
}

/// Reads `[nats]` of the file at `path`, whatever else is in it, if both exist.
///
/// # Errors
/// If the file can't be read, or has a fault before or in that table.
pub fn nats_of(path: &Path) -> Result<Option<NatsTable>, ConfigError> {
    #[derive(Deserialize)]
    struct File {
        nats: Option<NatsTable>,
    }
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?,
    };
    let fault = |error: toml::de::Error| Source::new(path, &text).fault(&error.span().unwrap_or(0..0), error.message());
    toml::from_str::<File>(&text).map(|file| file.nats).map_err(fault)
}

/// A Raft group has an odd number of members, and `JetStream` at most five.
fn replicas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let replicas = usize::deserialize(deserializer)?;
    match replicas {
        1 | 3 | 5 => Ok(replicas),
        other => Err(Error::custom(format!("there can be 1, 3 or 5 replicas, not {other}"))),
    }
}

keys! {
    /// `tls = { … }`
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct TlsTable {
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

fn tls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tls, D::Error> {
    let TlsTable { required, ca_file, cert_file, key_file } = TlsTable::deserialize(deserializer)?;
    let identity = match (cert_file, key_file) {
        (Some(cert_file), Some(key_file)) => Some(Identity { cert_file, key_file }),
        (None, None) => None,
        (Some(_), None) => return Err(Error::custom("`cert_file` needs the private key: `key_file`")),
        (None, Some(_)) => return Err(Error::custom("`key_file` needs the certificate: `cert_file`")),
    };
    Ok(Tls { required, ca_file, identity })
}
