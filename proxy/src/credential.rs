//! The secret that the proxy shows to the upstream in place of its clients.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// A header that the proxy sets. Its `Debug` output shows no secret.
#[derive(Clone)]
pub struct Credential {
    header: HeaderName,
    source: Arc<dyn CredentialSource>,
}

/// The value of the header, or nothing. The source has logged why there is none.
pub type CredentialValue<'a> = Pin<Box<dyn Future<Output = Option<HeaderValue>> + Send + 'a>>;

/// Where the value of the header comes from.
pub trait CredentialSource: Send + Sync {
    /// The present value. It may have to be fetched.
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
    /// A credential that shows the secret of `source` in this header.
    #[must_use]
    pub fn new(header: HeaderName, source: Arc<dyn CredentialSource>) -> Self {
        Credential { header, source }
    }

    /// The credential for the next request; `None` if there is none at present.
    pub(crate) async fn applied(&self) -> Option<AppliedCredential<'_>> {
        let mut value = self.source.value().await?;
        value.set_sensitive(true);
        Some(AppliedCredential { credential: self, value })
    }
}

impl AppliedCredential<'_> {
    /// Puts the credential in place of what the client has sent.
    pub(crate) fn put_into(&self, headers: &mut HeaderMap) {
        headers.insert(self.credential.header.clone(), self.value.clone());
    }

    /// Reports that the upstream does not accept the credential.
    pub(crate) fn refused(&self) {
        self.credential.source.refused(&self.value);
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("header", &self.header).finish_non_exhaustive()
    }
}
