//! A request to the upstream, perhaps sent several times.

use crate::credential::AppliedCredential;
use crate::pool::request_body::{RequestBody, Sending};
use http::{HeaderMap, HeaderName, Method, Request, Uri};

/// Headers by which an upstream recognizes a repeated request, whatever its method.
const IDEMPOTENCY_KEYS: [HeaderName; 2] =
    [HeaderName::from_static("idempotency-key"), HeaderName::from_static("x-idempotency-key")];

#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) target: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: RequestBody,
}

impl Outgoing {
    pub(crate) fn request(&self, credential: Option<&AppliedCredential<'_>>) -> Request<Sending> {
        let mut request = Request::new(self.body.send());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        if let Some(credential) = credential {
            credential.put_into(request.headers_mut());
        }
        request
    }

    /// Whether to resend it though the upstream may have received it (RFC 9110, 9.2.2).
    pub(crate) fn is_repeatable(&self) -> bool {
        let is_known_again = IDEMPOTENCY_KEYS.iter().any(|name| self.headers.contains_key(name));
        (self.method.is_idempotent() || is_known_again) && self.body.can_be_sent()
    }
}
