//! The private nats-server of `rampmeter serve --embedded-nats`.

use anyhow::{anyhow, bail};
use rampmeter_nats::servers::{self, Servers};
use rampmeter_nats_server::{Binary, Login, Options, Server, StartError};
use std::path::PathBuf;

/// The hosts that `nats.url` may name: the private server listens on loopback only.
const HERE: [&str; 2] = ["127.0.0.1", "localhost"];

/// Starts the server on the port of `url`, with its data in `data`. It asks every client for the
/// user and password of `url`, if there are any.
///
/// # Errors
/// If `url` is not an address on this machine, or the server does not run. With `verbose`, the text
/// includes the end of the log of NATS.
pub(in crate::commands) async fn start(url: &str, data: PathBuf, verbose: bool) -> anyhow::Result<Server> {
    start_with(Options { port: port(url)?, login: login(url)?, ..Options::default() }, data, verbose).await
}

/// Starts the server on a free port, with its data in `data`.
///
/// # Errors
/// If the server does not run. With `verbose`, the text includes the end of the log of NATS.
pub(in crate::commands) async fn start_anywhere(data: PathBuf, verbose: bool) -> anyhow::Result<Server> {
    start_with(Options::default(), data, verbose).await
}

async fn start_with(options: Options, data: PathBuf, verbose: bool) -> anyhow::Result<Server> {
    let binary = Binary::find().await?;
    let options = Options { store: Some(data), outlives_interrupt: true, ..options };
    let server = Server::start(&binary, options).await.map_err(|error| explained(error, verbose))?;
    tracing::info!(url = server.url(), version = %binary.version(), "embedded nats-server");
    Ok(server)
}

/// The port of `url`, which has to be an address of this server.
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

/// The credentials in `url`, which clients of the private server have to show.
fn login(url: &str) -> anyhow::Result<Option<Login>> {
    let servers: Servers = url.parse()?;
    Ok(servers.login()?.map(|login| match login {
        servers::Login::User(user, password) => Login::User(user, password),
        servers::Login::Token(token) => Login::Token(token),
    }))
}

/// The error, with advice on what to do.
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
