//! `[proxy.intercept]` of the file.

use crate::config::keys::keys;
use crate::config::reading::source::{ConfigError, Source};
use rampmeter_proxy::intercept::{AuthorityFiles, Host, Interception};
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// The most hosts. Each host has a certificate, and all certificates are signed at once.
const MAX_HOSTS: usize = 32;

keys! {
    /// `[proxy.intercept]`
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(in crate::config) struct InterceptTable {
        /// The certificate of your own authority, as PEM, then those above it. Programs trust
        /// it. The files are read again when they change.
        ca_cert_file: PathBuf = Given(r#""/etc/rampmeter/intercept-ca.pem""#),
        /// Its private key, as PEM (PKCS #8, without a password). Its owner can be any host
        /// to these programs.
        ca_key_file: PathBuf = Given(r#""/etc/rampmeter/intercept-ca-key.pem""#),
        /// The proxy answers requests for these hosts, from `upstream`. Without this: the host of
        /// `upstream`. It refuses tunnels to other hosts.
        #[serde(default)]
        hosts: Vec<Spanned<String>> = Example(r#"["api.example.com", "eu.api.example.com:8443"]"#),
    }
}

/// The settings of `table`.
pub(in crate::config) fn settings(source: &Source, table: &InterceptTable) -> Result<Interception, ConfigError> {
    let InterceptTable { ca_cert_file, ca_key_file, hosts } = table;
    if let Some(beyond) = hosts.get(MAX_HOSTS) {
        return Err(source.fault(&beyond.span(), format!("at most {MAX_HOSTS} hosts")));
    }
    let host = |text: &Spanned<String>| {
        text.get_ref().parse::<Host>().map_err(|error| source.fault(&text.span(), error.to_string()))
    };
    let authority = AuthorityFiles { cert_file: ca_cert_file.clone(), key_file: ca_key_file.clone() };
    Ok(Interception { authority, hosts: hosts.iter().map(host).collect::<Result<_, _>>()? })
}
