//! The credential that the proxy sends to the upstream in place of its clients'.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

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
