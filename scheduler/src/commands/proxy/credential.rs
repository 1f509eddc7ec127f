//! The source of a proxy's credential: a secret, a token endpoint, or the scheduler.

use axum::http::HeaderValue;
use rampmeter_account::{OAuth, SecretSource};
use rampmeter_config::{CredentialFrom, CredentialSettings, CredentialsSettings};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_proxy::credential::{Credential, CredentialSource, CredentialValue, Credentials};
use rampmeter_worker_sdk::Resource;
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use tokio::sync::Mutex;

/// How long a secret is used before it is read again, so that a replacement needs no restart.
const READ_AGAIN: Span = Span::from_secs(1);
/// Pause after a failure, so that waiting requests do not ask a token endpoint one by one.
const PAUSE: Span = Span::from_secs(1);
/// A younger token is kept even if the upstream refuses it, because a new one would be refused too.
const MIN_AGE: Span = Span::from_secs(10);

/// Opens the credentials of a proxy, which is a client of `resource`. Fails if a secret can't be read.
pub(super) fn open(settings: CredentialsSettings, resource: &Resource) -> anyhow::Result<Credentials> {
    let one = |settings| open_one(settings, resource.clone(), Clock::start());
    let by_account = settings.by_account.into_iter().map(|(account, own)| Ok((account, one(own)?)));
    Ok(Credentials::new(settings.common.map(one).transpose()?, by_account.collect::<anyhow::Result<_>>()?))
}

fn open_one(settings: CredentialSettings, resource: Resource, clock: Clock) -> anyhow::Result<Credential> {
    let CredentialSettings { header, scheme, from, .. } = settings;
    let from = match from {
        CredentialFrom::Secret(place) => {
            place.read().map_err(anyhow::Error::msg)?;
            SecretOrigin::Secret(place)
        }
        CredentialFrom::OAuth { credentials, timeout } => {
            SecretOrigin::OAuth(Box::new(OAuth::open(credentials, timeout, clock)?))
        }
        CredentialFrom::Scheduler => SecretOrigin::Scheduler(resource),
    };
    let kept = Mutex::new(Kept { from, current: Current::None });
    Ok(Credential::new(header, Arc::new(KeptSecret { scheme, clock, kept })))
}

/// A secret that one request fetches for all.
struct KeptSecret {
    /// The word before the secret.
    scheme: Option<String>,
    clock: Clock,
    /// Locked while the secret is fetched, so that it is fetched once.
    kept: Mutex<Kept>,
}

struct Kept {
    from: SecretOrigin,
    current: Current,
}

enum SecretOrigin {
    Secret(SecretSource),
    OAuth(Box<OAuth>),
    Scheduler(Resource),
}

enum Current {
    None,
    Value {
        value: HeaderValue,
        since: Time,
        until: Time,
    },
    /// No secret is fetched until this time.
    Failed(Time),
}

impl SecretOrigin {
    /// Returns the secret, and the time until which it is used.
    async fn fetch(&mut self, now: Time) -> Result<(SecretString, Time), String> {
        match self {
            SecretOrigin::Secret(place) => Ok((place.read()?, now + READ_AGAIN)),
            SecretOrigin::OAuth(oauth) => {
                let token = oauth.token().await.map_err(|error| error.to_string())?;
                Ok((token.secret(), token.refresh_at))
            }
            SecretOrigin::Scheduler(resource) => {
                let token = resource.access_token().await.map_err(|error| error.to_string())?;
                Ok((token.secret().into(), now + Span::from_millis(token.valid_ms.max(0.0) as u64)))
            }
        }
    }
}

impl KeptSecret {
    async fn present(&self) -> Option<HeaderValue> {
        let mut kept = self.kept.lock().await;
        let now = self.clock.now();
        match &kept.current {
            Current::Value { value, until, .. } if now < *until => return Some(value.clone()),
            Current::Failed(until) if now < *until => return None,
            Current::Value { .. } | Current::Failed(_) | Current::None => {}
        }
        let fetched = kept.from.fetch(now).await.and_then(|(secret, until)| Ok((self.value_of(&secret)?, until)));
        let (current, value) = match fetched {
            Ok((value, until)) => (Current::Value { value: value.clone(), since: now, until }, Some(value)),
            Err(why) => {
                tracing::warn!(why, "a proxy has no credential for its upstream");
                (Current::Failed(self.clock.now() + PAUSE), None)
            }
        };
        kept.current = current;
        value
    }

    fn value_of(&self, secret: &SecretString) -> Result<HeaderValue, String> {
        let secret = secret.expose_secret();
        let text = match &self.scheme {
            Some(scheme) => format!("{scheme} {secret}"),
            None => secret.to_owned(),
        };
        let mut value = HeaderValue::try_from(text).map_err(|_| "the secret does not fit into a header")?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl CredentialSource for KeptSecret {
    fn value(&self) -> CredentialValue<'_> {
        Box::pin(self.present())
    }

    /// Discards a refused token, so that the next request fetches another. Does nothing during a fetch.
    fn refused(&self, refused: &HeaderValue) {
        let Ok(mut kept) = self.kept.try_lock() else { return };
        let Current::Value { value, since, .. } = &kept.current else { return };
        if value != refused || self.clock.now().since(*since) < MIN_AGE {
            return;
        }
        kept.current = Current::None;
        match &mut kept.from {
            SecretOrigin::OAuth(oauth) => oauth.forget(),
            SecretOrigin::Secret(_) | SecretOrigin::Scheduler(_) => {}
        }
    }
}
