//! The credential that the proxy sends to the upstream in place of its clients'.

use http::{HeaderMap, HeaderName, HeaderValue};
use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// A header that the proxy sets. Its `Debug` output hides the secret.
#[derive(Clone)]
pub struct Credential {
    header: HeaderName,
    source: Arc<dyn CredentialSource>,
}

/// The header's value, or `None`, for which the source has logged the reason.
pub type CredentialValue<'a> = Pin<Box<dyn Future<Output = Option<HeaderValue>> + Send + 'a>>;

/// The source of the header's value.
pub trait CredentialSource: Send + Sync {
    /// Returns the current value, which may have to be fetched.
    fn value(&self) -> CredentialValue<'_>;

    /// Notes that the upstream has answered 401 to a request with `value`.
    fn refused(&self, value: &HeaderValue);
}

/// There is no credential at present for a call that needs one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoCredential;

/// How long the proxy leaves an account out whose credential the upstream has refused.
const REFUSED_FOR: Span = Span::from_secs(60);

/// The credentials of a proxy: of each account, and of all other calls.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    common: Option<Credential>,
    by_account: BTreeMap<String, Credential>,
    /// Accounts that the upstream has answered 401, until when they are left out.
    refused: Arc<Mutex<BTreeMap<String, Time>>>,
}

impl Credentials {
    /// Creates them: the one for each account, and the one for all other calls.
    #[must_use]
    pub fn new(common: Option<Credential>, by_account: BTreeMap<String, Credential>) -> Self {
        Credentials { common, by_account, refused: Arc::default() }
    }

    /// Returns the credential for a call of this account. Without any, clients send their own.
    pub(crate) async fn applied(&self, account: Option<&str>) -> Result<Option<AppliedCredential<'_>>, NoCredential> {
        let own = account.and_then(|account| self.by_account.get(account)).or(self.common.as_ref());
        match own {
            Some(own) => own.applied().await.map(Some).ok_or(NoCredential),
            None if self.by_account.is_empty() => Ok(None),
            None => Err(NoCredential),
        }
    }

    /// Notes that the upstream refused an account's credential. Returns whether another account's is not refused.
    pub(crate) fn refuse(&self, account: &str, now: Time) -> bool {
        if !self.by_account.contains_key(account) {
            return false;
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.insert(account.to_owned(), now + REFUSED_FOR);
        refused.len() < self.by_account.len()
    }

    /// Returns the accounts to leave out now, unless that would be all of them.
    pub(crate) fn left_out(&self, now: Time) -> Vec<String> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|_, until| *until > now);
        if refused.len() < self.by_account.len() { refused.keys().cloned().collect() } else { Vec::new() }
    }
}

/// A credential as one request carries it.
#[derive(Clone)]
pub(crate) struct AppliedCredential<'a> {
    credential: &'a Credential,
    value: HeaderValue,
}

impl Credential {
    /// Creates a credential that sends the secret of `source` in this header.
    #[must_use]
    pub fn new(header: HeaderName, source: Arc<dyn CredentialSource>) -> Self {
        Credential { header, source }
    }

    /// Returns the credential for the next request; `None` if there is none at present.
    pub(crate) async fn applied(&self) -> Option<AppliedCredential<'_>> {
        let mut value = self.source.value().await?;
        value.set_sensitive(true);
        Some(AppliedCredential { credential: self, value })
    }
}

impl AppliedCredential<'_> {
    /// Replaces what the client has sent by the credential.
    pub(crate) fn put_into(&self, headers: &mut HeaderMap) {
        headers.insert(self.credential.header.clone(), self.value.clone());
    }

    pub(crate) fn refused(&self) {
        self.credential.source.refused(&self.value);
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("header", &self.header).finish_non_exhaustive()
    }
}
