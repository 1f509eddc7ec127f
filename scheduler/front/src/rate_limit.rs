//! The IETF's header fields on rate limits (draft-ietf-httpapi-ratelimit-headers).

use super::front_client::FrontClient;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::rate_limit::{exhausted, remaining};
use rampmeter_protocol::status::{LimitStatus, Status};
use rampmeter_protocol::time::{Span, Time};
use rampmeter_serve::messages::inbound::Endpoint;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// How long a status is valid before it is requested again, since limits change by hand or by contract.
const FRESH: Span = Span::from_secs(10);
/// How long a status may take. A leader answers at once.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// Bound on the sent limits. More would not fit into the headers that proxies accept from an upstream.
const MAX_POLICIES: usize = 8;

/// The known limits of a resource. Only the first requests wait for them, so that all answers include them.
#[derive(Debug)]
pub(super) struct Policies {
    /// Locked by the request that asks on behalf of all.
    first: tokio::sync::Mutex<()>,
    front_client: FrontClient,
    resource: Name,
    /// Locked for one copy.
    known: Arc<Mutex<KnownPolicies>>,
}

#[derive(Debug, Default)]
struct KnownPolicies {
    /// Whether a leader has ever sent the limits.
    is_known: bool,
    policies: Option<HeaderValue>,
    asked: Option<Time>,
}

impl Policies {
    pub(super) fn new(front_client: FrontClient, resource: Name) -> Self {
        Policies { first: tokio::sync::Mutex::default(), front_client, resource, known: Arc::default() }
    }

    /// Returns once the limits are known, or cannot be.
    pub(super) async fn first_known(&self) {
        if !self.is_unknown() {
            return;
        }
        let _asks = self.first.lock().await;
        if self.is_unknown() {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).asked = Some(self.front_client.clock.now());
            refresh(self.front_client.clone(), self.resource.clone(), self.known.clone()).await;
        }
    }

    /// Returns whether the limits are unknown, and no leader was asked for them in the last ten seconds.
    fn is_unknown(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        !known.is_known && known.asked.is_none_or(|asked| self.front_client.clock.now().since(asked) >= FRESH)
    }

    pub(super) fn fields(&self, answer: &Answer<'_>) -> HeaderMap {
        let limits = match answer {
            Answer::Granted(granted) => remaining(&granted.left),
            Answer::Refused(refused) => in_the_way(refused),
            Answer::Queued(_) | Answer::Settled { .. } => None,
        };
        let limits = limits.and_then(|limits| HeaderValue::try_from(limits).ok());
        let policies = self.current().map(|policies| (RATE_LIMIT_POLICY, policies));
        policies.into_iter().chain(limits.map(|limits| (RATE_LIMIT, limits))).collect()
    }

    fn current(&self) -> Option<HeaderValue> {
        let now = self.front_client.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.asked.is_none_or(|asked| now.since(asked) >= FRESH) {
            known.asked = Some(now);
            tokio::spawn(refresh(self.front_client.clone(), self.resource.clone(), self.known.clone()));
        }
        known.policies.clone()
    }
}

/// Requests the limits. A failure leaves the known ones as they are.
async fn refresh(front_client: FrontClient, resource: Name, known: Arc<Mutex<KnownPolicies>>) {
    let reply = front_client.ask_once(&resource, &Endpoint::Status, Vec::new(), STATUS_TIMEOUT).await;
    if let Some(InboxReply::Answer(payload)) = reply
        && let Ok(status) = serde_json::from_slice::<Status>(&payload)
    {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        (known.is_known, known.policies) = (true, policies(&status.limits));
    }
}

/// Formats limits that count requests, like `"requests-per-minute";q=1000;w=60`. Names need no escapes.
fn policies(limits: &[LimitStatus]) -> Option<HeaderValue> {
    let counted = limits.iter().filter(|limit| &*limit.unit == REQUESTS).take(MAX_POLICIES);
    let policy = |limit: &LimitStatus| {
        let (quota, window) = (limit.capacity.floor(), (limit.period_ms / 1000.0).ceil());
        format!("\"{}\";q={quota};w={window}", limit.name)
    };
    let policies: Vec<String> = counted.map(policy).collect();
    (!policies.is_empty()).then(|| HeaderValue::try_from(policies.join(", ")).ok()).flatten()
}

/// Returns the field that reports the limit of a refusal as used up, if `retry_after` is known.
fn in_the_way(refused: &Refused<'_>) -> Option<String> {
    let limit = Name::new(refused.limited_by.as_ref()?).ok()?;
    Some(exhausted(&limit, Some(refused.retry_after()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reaches `rate_limit::MAX_POLICIES`.
    #[test]
    fn a_header_names_eight_limits() {
        let limit = serde_json::json!({
            "name": "each", "unit": "requests", "algorithm": "token-bucket", "capacity": 10.0, "period_ms": 1000.0,
            "margin": 0.0, "level": 10.0, "next_free_ms": 0.0, "keys": 0, "frozen_ms": 0.0
        });
        let limits: Vec<LimitStatus> = vec![serde_json::from_value(limit).unwrap(); MAX_POLICIES + 1];
        let header = policies(&limits).unwrap();
        assert_eq!(header.to_str().unwrap().split(", ").collect::<Vec<_>>(), [r#""each";q=10;w=1"#; 8]);
    }
}
