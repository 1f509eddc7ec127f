//! Options of a connection.

use crate::connection::driver::Driver;
use crate::connection::link::Link;
use crate::connection::transport::{Transport, watched};
use crate::policy::Policies;
use crate::{Client, Error};
use async_nats::ConnectOptions;
use rampmeter_nats::credentials::{with_credentials_file, with_nkey_file};
use rampmeter_nats::entropy::secret;
use rampmeter_nats::key_file::KeyFileError;
use rampmeter_nats::reconnect::reconnecting_soon;
use rampmeter_nats::servers::Servers;
use rampmeter_nats::tls::{Identity, Tls};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::subject::Subjects;
use rampmeter_worker_session::{Session, SessionOptions, Unreachable};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Options of a [`Client`].
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use rampmeter_worker_sdk::Client;
/// let client = Client::builder()
///     .name("tile-worker")
///     .ca_file("nats-ca.pem")
///     .credentials_file("worker.creds")
///     .inbox_prefix("_INBOX_worker")
///     .connect("tls://nats.example.com:4222")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens until `connect`"]
pub struct ClientBuilder {
    options: ConnectOptions,
    tls: Tls,
    user_file: Option<(UserReader, PathBuf)>,
    prefix: Option<String>,
    wait_for_server: bool,
    session: SessionOptions,
    unreachable: Unreachable,
    unreachable_for: Vec<(String, Unreachable)>,
}

type UserReader = fn(ConnectOptions, &Path) -> Result<ConnectOptions, KeyFileError>;

impl Default for ClientBuilder {
    fn default() -> Self {
        let options = ConnectOptions::new().name("rampmeter-worker");
        ClientBuilder {
            options,
            tls: Tls::default(),
            user_file: None,
            prefix: None,
            wait_for_server: false,
            session: SessionOptions { reports_silence: true, ..SessionOptions::default() },
            unreachable: Unreachable::Wait,
            unreachable_for: Vec::new(),
        }
    }
}

impl ClientBuilder {
    /// Sets the NATS client's options; call this first. Ping interval, reconnect delay and event callback are replaced.
    pub fn options(self, options: ConnectOptions) -> Self {
        ClientBuilder { options, ..self }
    }

    /// Sets the connection's name in the server's monitoring.
    pub fn name(self, name: &str) -> Self {
        ClientBuilder { options: self.options.name(name), ..self }
    }

    /// Sets the first token of all subjects to the scheduler's, by default `rampmeter`.
    pub fn prefix(self, prefix: &str) -> Self {
        ClientBuilder { prefix: Some(prefix.to_owned()), ..self }
    }

    /// Sets the prefix of reply subjects to one that this user may subscribe to.
    pub fn inbox_prefix(self, prefix: &str) -> Self {
        ClientBuilder { options: self.options.custom_inbox_prefix(prefix), ..self }
    }

    /// Refuses servers without TLS, as a URL that begins with `tls://` does.
    pub fn require_tls(self) -> Self {
        ClientBuilder { tls: Tls { required: true, ..self.tls }, ..self }
    }

    /// Trusts these authorities (PEM) instead of the system's. Requires TLS; read per connection.
    pub fn ca_file(self, file: impl Into<PathBuf>) -> Self {
        ClientBuilder { tls: Tls { required: true, ca_file: Some(file.into()), ..self.tls }, ..self }
    }

    /// Sets the client certificate and its private key (PEM), which are read for each connection. Requires TLS.
    pub fn client_certificate(self, cert_file: impl Into<PathBuf>, key_file: impl Into<PathBuf>) -> Self {
        let identity = Identity { cert_file: cert_file.into(), key_file: key_file.into() };
        ClientBuilder { tls: Tls { required: true, identity: Some(identity), ..self.tls }, ..self }
    }

    /// Sets the file with this user's JWT and seed, as `nsc` writes it. It is read once.
    pub fn credentials_file(self, file: impl Into<PathBuf>) -> Self {
        ClientBuilder { user_file: Some((with_credentials_file, file.into())), ..self }
    }

    /// Sets the file with the seed of this user's `NKey`. It is read once.
    pub fn nkey_file(self, file: impl Into<PathBuf>) -> Self {
        ClientBuilder { user_file: Some((with_nkey_file, file.into())), ..self }
    }

    /// Puts the class of each request into its subject, `rampmeter.permit-<class>.<resource>`, for users that may
    /// request only some classes. A request without a class still goes to `rampmeter.permit.<resource>`. The NATS
    /// server may deny a class to the user: such requests get no answer, but a log line.
    pub fn class_in_subject(self) -> Self {
        ClientBuilder { session: SessionOptions { one_class_per_message: true, ..self.session }, ..self }
    }

    /// Waits for a server that is not available yet instead of failing, as suits daemons: the first request waits.
    pub fn wait_for_server(self) -> Self {
        ClientBuilder { wait_for_server: true, ..self }
    }

    /// Does not renew leases of calls in flight; [`Call::extend`](crate::Call::extend) does. By default the client
    /// renews a lease three times before it ends, until the permit or its call is dropped: a call that hangs keeps its
    /// place forever. Without renewal the place is free when the lease ends, even if the call still runs.
    pub fn without_renewal(self) -> Self {
        ClientBuilder { session: SessionOptions { renews: false, ..self.session }, ..self }
    }

    /// Sets how many requests may wait for permits at once, over all resources; 262 144 by default.
    /// Further ones fail with [`ErrorKind::TooManyAsks`](crate::error::ErrorKind::TooManyAsks).
    pub fn max_asks(self, max_asks: usize) -> Self {
        ClientBuilder { session: SessionOptions { most_asks: max_asks, ..self.session }, ..self }
    }

    /// Sets what happens while no scheduler of a resource answers; by default its requests wait.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), rampmeter_worker_sdk::Error> {
    /// use rampmeter_worker_sdk::policy::{Patience, SafeRate, Unreachable};
    /// use rampmeter_worker_sdk::Client;
    /// use std::time::Duration;
    /// let after = Patience::default();
    /// let rate = SafeRate::new(6, Duration::from_secs(60))?;
    /// let client = Client::builder()
    ///     .unreachable(Unreachable::Fail { after })
    ///     .unreachable_for("sentinel-hub", Unreachable::SafeRate { after, rate })
    ///     .connect("nats://127.0.0.1:4222")
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unreachable(self, policy: Unreachable) -> Self {
        ClientBuilder { unreachable: policy, ..self }
    }

    /// Overrides [`unreachable`](ClientBuilder::unreachable) for a resource with its own safe rate.
    pub fn unreachable_for(mut self, resource: &str, policy: Unreachable) -> Self {
        self.unreachable_for.push((resource.to_owned(), policy));
        self
    }

    /// Connects to the server at `url`, or to any of [several](Servers), separated by commas.
    ///
    /// # Errors
    /// If `url`, a resource's name or the prefix is invalid, a file with keys or credentials cannot be used, or
    /// no server answers at `url`, it refuses, or it cannot be trusted. No error shows a password or a key.
    pub async fn connect(mut self, url: impl AsRef<str>) -> Result<Client, Error> {
        let servers: Servers = url.as_ref().parse().map_err(Error::invalid)?;
        let (chosen, subjects) = (self.session, self.subjects()?);
        let policies = Policies::new(self.unreachable, std::mem::take(&mut self.unreachable_for))?;
        // Each message belongs to a waiting caller or to a granted permit. The channel is therefore
        // no longer than the program has tasks, and `max_asks` bounds what the driver has taken.
        let (sender, messages) = mpsc::unbounded_channel();
        let options = servers.authenticated(watched(self.tuned()?, sender.downgrade())).map_err(Error::invalid)?;
        let transport = Transport::connect(options, &servers, subjects).await;
        let transport = transport.map_err(|error| Error::connect(&servers, error))?;
        let clock = Clock::start();
        let mut session = Session::new(secret());
        session.options = chosen;
        let counters = Arc::default();
        tokio::spawn(Driver::new(clock, session, transport, policies, Arc::clone(&counters)).run(messages));
        Ok(Client::new(Link::new(clock, sender, counters)))
    }

    fn subjects(&self) -> Result<Subjects, Error> {
        let Some(prefix) = &self.prefix else { return Ok(Subjects::default()) };
        Subjects::new(prefix).map_err(|error| Error::invalid(format!("prefix {prefix:?}: {error}")))
    }

    fn tuned(self) -> Result<ConnectOptions, KeyFileError> {
        let tuned = self.tls.applied(reconnecting_soon(self.options))?;
        let tuned = match &self.user_file {
            Some((login, file)) => login(tuned, file)?,
            None => tuned,
        };
        Ok(if self.wait_for_server { tuned.retry_on_initial_connect() } else { tuned })
    }
}
