//! The connection to NATS.

use crate::denials::Denials;
use crate::stop::Stop;
use anyhow::{Context, anyhow, bail};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use futures::StreamExt;
use rampmeter_account::SecretSource;
use rampmeter_config::NatsTable;
use rampmeter_nats::credentials::{with_credentials_file, with_nkey_file};
use rampmeter_nats::servers::Servers;
use rampmeter_nats::tls_fault::tls_fault;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::log_throttle::LogThrottle;
use rampmeter_store::StateKeys;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The oldest server with all the features that Rampmeter needs.
const OLDEST: (i64, i64, i64) = (2, 12, 0);
/// The interval of pings. A dead connection is noticed after two of them.
const PING: Duration = Duration::from_secs(2);
/// Longest pause between attempts to connect again.
const MAX_DELAY: Duration = Duration::from_millis(250);
/// The longest round trip of a message from the scheduler to itself.
const ROUND_TRIP: Duration = Duration::from_secs(1);
/// Messages that may wait for the permit loop: the burst of a fleet whose workers all ask again.
const SUBSCRIPTION_CAPACITY: usize = 1 << 17;

/// Connects under `name` as `nats` says, and again after each loss. `denials` notes operations that the server denies.
///
/// # Errors
/// If the server can't be reached, refuses the login, or is too old.
pub async fn connect(denials: &Denials, nats: &NatsTable, name: &str) -> anyhow::Result<Client> {
    connect_noting(denials, None, nats, name).await
}

/// Connects like [`connect`]. With `stopping`, the end of the connection after a stop is logged as normal.
///
/// # Errors
/// If the server can't be reached, refuses the login, or is too old.
pub async fn connect_noting(
    denials: &Denials,
    stopping: Option<&Stop>,
    nats: &NatsTable,
    name: &str,
) -> anyhow::Result<Client> {
    let advice = match stopping {
        Some(_) => "start one, or use --embedded-nats",
        None => "start one, or name another with --nats",
    };
    let servers = nats.servers()?;
    let (denials, stopping, connection) = (denials.clone(), stopping.cloned(), Arc::<str>::from(name));
    let (clock, throttle) = (Clock::start(), Mutex::new(LogThrottle::default()));
    let options = options(nats, &servers, name)?.event_callback(move |event| {
        denials.note(&event);
        let is_told = flood_of(&event).is_none_or(|kind| {
            let mut throttle = throttle.lock().unwrap_or_else(PoisonError::into_inner);
            throttle.admit(clock.now(), kind).is_some()
        });
        let stopping = stopping.as_ref().is_some_and(|stopping| *stopping.borrow());
        let connection = Arc::clone(&connection);
        async move {
            if is_told {
                log(event, stopping, connection);
            }
        }
    });
    let client =
        options.connect(servers.addresses().as_slice()).await.map_err(|error| explained(error, &servers, advice))?;
    let version = client.server_info().version;
    if !client.is_server_compatible(OLDEST.0, OLDEST.1, OLDEST.2) {
        bail!("the NATS server at {servers} has version {version}; Rampmeter needs {}.{} or newer", OLDEST.0, OLDEST.1);
    }
    Ok(client)
}

fn explained(error: ConnectError, servers: &Servers, advice: &str) -> anyhow::Error {
    if let Some(fault) = tls_fault(&error) {
        return anyhow!("no encrypted connection to the NATS server at {servers}: {fault}");
    }
    let what = match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            format!("the NATS server at {servers} does not take this user and password, or these credentials")
        }
        ConnectErrorKind::ServerParse
        | ConnectErrorKind::Dns
        | ConnectErrorKind::TimedOut
        | ConnectErrorKind::Tls
        | ConnectErrorKind::Io
        | ConnectErrorKind::MaxReconnects => {
            format!("no NATS server answers at {servers}; {advice}")
        }
    };
    anyhow::Error::new(error).context(what)
}

/// Returns once the server has received all that was sent here; a flush would return once the client's buffer is empty.
///
/// # Errors
/// If there is no connection.
pub async fn round_trip(client: &Client) -> anyhow::Result<()> {
    let inbox = client.new_inbox();
    let mut echo = client.subscribe(inbox.clone()).await?;
    client.publish(inbox, "".into()).await?;
    let back = tokio::time::timeout(ROUND_TRIP, echo.next()).await.context("NATS does not answer")?;
    back.context("the connection to NATS is closed").map(drop)
}

fn options(nats: &NatsTable, servers: &Servers, name: &str) -> anyhow::Result<ConnectOptions> {
    let options = login(nats, servers)?;
    Ok(options
        .name(name)
        .ping_interval(PING)
        .connection_timeout(Duration::from_secs(5))
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .skip_subject_validation(true)
        .reconnect_delay_callback(|attempt| delay(attempt, rand::random_range(0.5..1.0))))
}

/// Returns the options of a connection by the settings in `nats`: encryption, login and inboxes.
///
/// # Errors
/// If a file with keys or credentials cannot be used.
pub fn login(nats: &NatsTable, servers: &Servers) -> anyhow::Result<ConnectOptions> {
    let options = nats.tls.applied(ConnectOptions::new()).context("the TLS files of the NATS connection")?;
    let options = match (&nats.credentials_file, &nats.nkey_file) {
        (Some(_), Some(_)) => bail!("a NATS user has credentials or an NKey: name one file, not both"),
        (Some(file), None) => with_credentials_file(options, Path::new(file)).context("the credentials for NATS")?,
        (None, Some(file)) => with_nkey_file(options, Path::new(file)).context("the NKey for NATS")?,
        (None, None) => options,
    };
    Ok(servers.authenticated(options)?.custom_inbox_prefix(&nats.inbox_prefix))
}

/// Warns of files with secrets that every user of this machine may read.
pub fn warn_of_open_files(nats: &NatsTable) {
    let key_file = nats.tls.identity.as_ref().map(|identity| &identity.key_file);
    let files = [&nats.credentials_file, &nats.nkey_file].into_iter().flatten().map(PathBuf::from);
    for place in files
        .chain(key_file.cloned())
        .chain(nats.state_key_file.clone())
        .map(SecretSource::File)
        .filter(SecretSource::is_open_to_all)
    {
        tracing::warn!("every user of this machine may read {place}; run `chmod o-r` on it");
    }
}

/// Reads the keys that sign the state, if a file with them is configured.
///
/// # Errors
/// If the file can't be used.
pub fn state_keys(nats: &NatsTable) -> anyhow::Result<StateKeys> {
    let keys = nats.state_key_file.as_deref().map(StateKeys::from_file);
    Ok(keys.transpose().context("`nats.state_key_file`")?.unwrap_or_default())
}

/// Returns the pause before an attempt, which doubles up to [`MAX_DELAY`], with `jitter` to spread schedulers.
fn delay(attempt: usize, jitter: f64) -> Duration {
    let doubled = Duration::from_millis(5) * (1 << attempt.min(10));
    doubled.min(MAX_DELAY).mul_f64(jitter)
}

/// Returns the kind of an event that clients can cause without bound, such as by sending more than is
/// read or by asking for answers at an inbox that this process may not write to.
fn flood_of(event: &Event) -> Option<&'static str> {
    match event {
        Event::SlowConsumer(_) => Some("slow consumer"),
        Event::ServerError(ServerError::Other(text)) if denies_answer(text) => Some("denied inbox"),
        Event::Connected
        | Event::Disconnected
        | Event::Closed
        | Event::LameDuckMode
        | Event::Draining
        | Event::ServerError(_)
        | Event::ClientError(_) => None,
    }
}

/// Returns whether the server has denied the publication of an answer, rather than of a stored value.
fn denies_answer(text: &str) -> bool {
    text.contains("Publish to \"") && !text.contains("Publish to \"$")
}

fn log(event: Event, stopping: bool, connection: Arc<str>) {
    match event {
        Event::Connected => tracing::info!(%connection, "connected to NATS"),
        Event::Disconnected | Event::ServerError(_) | Event::ClientError(_) if stopping => {
            tracing::debug!(%event, %connection, "NATS, at the end of this process");
        }
        Event::Disconnected => tracing::warn!(%connection, "disconnected from NATS"),
        Event::Closed => tracing::debug!(%connection, "closed the connection to NATS"),
        Event::LameDuckMode
        | Event::Draining
        | Event::SlowConsumer(_)
        | Event::ServerError(_)
        | Event::ClientError(_) => tracing::warn!(%event, %connection, "NATS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `connection::MAX_DELAY`.
    #[test]
    fn pauses_between_attempts_double_up_to_the_longest() {
        let delays = [0, 1, 5, 6, 100, usize::MAX].map(|attempt| delay(attempt, 1.0).as_millis());
        assert_eq!(delays, [5, 10, 160, 250, 250, 250]);
    }
}
