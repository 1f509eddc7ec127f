//! The private nats-servers of `rampmeter serve --embedded-nats`, `rampmeter proxy` and `rampmeter demo`.

use anyhow::{Context, anyhow, bail};
use rampmeter_nats::entropy::secret;
use rampmeter_nats::servers::{self, PRIVATE, Servers};
use rampmeter_nats_server::{Binary, Login, Options, Server, StartError};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file with the URL of a private server, in the folder of its state.
const URL_FILE: &str = "nats-url";
/// The hosts allowed in `nats.url`, since the private server listens on loopback only.
const HERE: [&str; 2] = ["127.0.0.1", "localhost"];

/// Starts the server on the port of `url`, with its data in `data` and the login in `url`, if there is one. Fails if
/// `url` is not on this machine, or the server does not run; `verbose` errors include the end of NATS' log.
pub(in crate::commands) async fn start(url: &str, data: PathBuf, verbose: bool) -> anyhow::Result<Server> {
    start_with(Options { port: port(url)?, login: login(url)?, store: Some(data), ..Options::default() }, verbose).await
}

/// A server for this process alone, with a random password.
#[derive(Debug)]
pub(in crate::commands) struct PrivateServer {
    pub(in crate::commands) server: Server,
    /// The URL with the password.
    pub(in crate::commands) url: String,
}

impl PrivateServer {
    /// Starts the server on a free port. With `data`, its state is kept there, with its URL in a file that only this
    /// user may read. Fails if the server or the file does; `verbose` errors include the end of NATS' log.
    pub(in crate::commands) async fn start(data: Option<PathBuf>, verbose: bool) -> anyhow::Result<Self> {
        let (user, password) = ("rampmeter", format!("{:032x}", secret()));
        let login = Some(Login::User(user.to_owned(), password.clone()));
        let server = start_with(Options { login, store: data.clone(), ..Options::default() }, verbose).await?;
        let url = format!("nats://{user}:{password}@127.0.0.1:{}", server.port());
        if let Some(data) = data {
            let file = data.join(URL_FILE);
            write_secret(&file, &url).with_context(|| format!("can't write {}", file.display()))?;
        }
        Ok(PrivateServer { server, url })
    }
}

fn write_secret(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::options().create(true).write(true).truncate(true).mode(0o600).open(file)?;
    // The file of an earlier start keeps its mode.
    file.set_permissions(PermissionsExt::from_mode(0o600))?;
    writeln!(file, "{text}")
}

async fn start_with(options: Options, verbose: bool) -> anyhow::Result<Server> {
    let binary = Binary::find().await?;
    // Ctrl-C ends this process, which then stops the server itself.
    let options = Options { outlives_interrupt: true, name_prefix: Some(PRIVATE), ..options };
    let open = match options.login {
        Some(_) => "",
        None => " without a password: if others use this machine, put one into `nats.url`",
    };
    let server = Server::start(&binary, options).await.map_err(|error| explained(error, verbose))?;
    tracing::info!(url = server.url(), version = %binary.version(), "embedded nats-server{open}");
    Ok(server)
}

/// Returns the port of `url`, which must be an address on this machine.
fn port(url: &str) -> anyhow::Result<u16> {
    let servers: Servers = url.parse()?;
    match &*servers.addresses() {
        [one] if HERE.contains(&one.host()) && !one.tls_required() => Ok(one.port()),
        _ => bail!(
            "--embedded-nats starts a server at nats://127.0.0.1, and `nats.url` is {servers}; leave out \
             --embedded-nats to use that one, or `nats.url`"
        ),
    }
}

/// Returns the credentials in `url`, which clients of the server need.
fn login(url: &str) -> anyhow::Result<Option<Login>> {
    let servers: Servers = url.parse()?;
    Ok(servers.login()?.map(|login| match login {
        servers::Login::User(user, password) => Login::User(user, password),
        servers::Login::Token(token) => Login::Token(token),
    }))
}

fn explained(error: StartError, verbose: bool) -> anyhow::Error {
    let remedy = match &error {
        StartError::PortTaken { .. } => {
            "; if that is a NATS server, leave out --embedded-nats, otherwise change the port in `nats.url`"
        }
        StartError::InUse { .. } => {
            "; stop the scheduler that it belongs to, or give this one another folder with --data"
        }
        StartError::Ended { .. } | StartError::NotReady { .. } if !verbose => "; --verbose shows the log of NATS",
        StartError::Ended { .. }
        | StartError::NotReady { .. }
        | StartError::Folder(_)
        | StartError::Stop(_)
        | StartError::Process { .. } => "",
    };
    let log = error.log().filter(|_| verbose).map(|log| format!("\nThe log of NATS ends with:\n{log}"));
    let text =
        format!("{}{remedy}{}", crate::commands::output::error_text::with_causes(&error), log.unwrap_or_default());
    anyhow!(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_on_this_machine_can_be_served() {
        #[rustfmt::skip]
        let table = [
            ("nats://127.0.0.1:4333",                   Some(4333)),
            ("nats://localhost:4333",                   Some(4333)),
            ("127.0.0.1",                               Some(4222)),
            ("nats://user:secret@127.0.0.1:4333",       Some(4333)),
            ("nats://user:secret@nats.example.com",     None),
            ("tls://127.0.0.1:4333",                    None),
            ("nats://user:12#secret@127.0.0.1:4333",    None),
            ("nats://user:12/secret@127.0.0.1:4333",    None),
            ("nats://127.0.0.1:1,nats://127.0.0.1:2",   None),
        ];
        for (url, expected) in table {
            let found = port(url);
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{url}");
            assert!(found.err().is_none_or(|error| !error.to_string().contains("secret")), "{url}");
        }
    }
}
