//! The arguments that locate running schedulers.

use anyhow::Context;
use rampmeter_config::{self as config, NatsTable};
use rampmeter_nats::tls::{Identity, Tls};
use rampmeter_protocol::name::Name;
use std::path::{Path, PathBuf};

/// The NATS server, the credentials there, and the prefixes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct NatsArg {
    /// The NATS server, such as `nats://user:password@host:4222` or `nats://token@host:4222`;
    /// `tls://` requires encryption. Several of a cluster are separated by commas. Without it,
    /// `[nats]` of the configuration says how to connect, or else `nats://127.0.0.1:4222`.
    #[arg(long, value_name = "URL", env = "RAMPMETER_NATS", hide_env_values = true)]
    nats: Option<String>,
    /// The configuration whose `[nats]` counts without `--nats`; it need not exist.
    #[arg(long, value_name = "FILE", default_value = "rampmeter.toml", env = "RAMPMETER_CONFIG")]
    config: PathBuf,
    /// The file with NATS credentials.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_CREDENTIALS")]
    credentials_file: Option<String>,
    /// The file with the seed of an `NKey`.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_NKEY_FILE", conflicts_with = "credentials_file")]
    nkey_file: Option<String>,
    /// The authorities (PEM) that count instead of the system's; requires encryption.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// The certificate (PEM) of this client; requires encryption.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_CERT_FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// The private key (PEM) of that certificate.
    #[arg(long, value_name = "FILE", env = "RAMPMETER_NATS_KEY_FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// The first token of the subjects that answers come to, `_INBOX` by default: one that this user may subscribe to.
    #[arg(long, value_name = "TOKEN", env = "RAMPMETER_INBOX_PREFIX")]
    inbox_prefix: Option<Name>,
    /// The first token of all subjects, `rampmeter` by default.
    #[arg(long, env = "RAMPMETER_PREFIX")]
    prefix: Option<Name>,
}

impl NatsArg {
    /// Returns the settings of the connection: from the arguments, completed by the configuration, whose path is
    /// returned if it is used. Fails if it is used and has no valid `[nats]`.
    pub(super) fn table(&self) -> anyhow::Result<(NatsTable, Option<&Path>)> {
        let written = match self.nats {
            Some(_) => None,
            None => config::nats_of(&self.config)
                .context("it says how to connect to NATS, as there is no --nats; mend it, or name a server")?,
        };
        let file = written.as_ref().map(|_| &*self.config);
        let mut table = written.unwrap_or_default();
        set(&mut table.url, self.nats.as_ref());
        set(&mut table.prefix, self.prefix.as_ref());
        set(&mut table.inbox_prefix, self.inbox_prefix.as_ref());
        if self.credentials_file.is_some() || self.nkey_file.is_some() {
            table.credentials_file.clone_from(&self.credentials_file);
            table.nkey_file.clone_from(&self.nkey_file);
        }
        if let Some(tls) = self.tls() {
            table.tls = tls;
        }
        Ok((table, file))
    }

    /// Returns the path of the configuration, which may not exist.
    pub(super) fn file(&self) -> &Path {
        &self.config
    }

    /// Returns the encryption. Files for it make it mandatory, as in a configuration.
    fn tls(&self) -> Option<Tls> {
        let identity = self.cert_file.clone().zip(self.key_file.clone());
        let identity = identity.map(|(cert_file, key_file)| Identity { cert_file, key_file });
        let required = self.ca_file.is_some() || identity.is_some();
        required.then(|| Tls { required, ca_file: self.ca_file.clone(), identity })
    }
}

fn set<T: Clone>(value: &mut T, by: Option<&T>) {
    if let Some(given) = by {
        value.clone_from(given);
    }
}

/// Adds to an error that `file` has the server's address, if it does.
pub(super) fn by_file<T>(connected: anyhow::Result<T>, file: Option<&Path>) -> anyhow::Result<T> {
    match file {
        Some(file) => connected.with_context(|| format!("the NATS server is that of {}", file.display())),
        None => connected,
    }
}
