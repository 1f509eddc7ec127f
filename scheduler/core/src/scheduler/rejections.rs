//! Why the upstream rejects calls, as far as the buckets tell.

use crate::adaptation::{Attribution, ObservedCall, Scope, Verdict};
use crate::arithmetic::Credit;
use crate::ids::LimitId;
use crate::ledger::Ledger;
use crate::policy::Resource;
use rampmeter_protocol::status::RejectionCause;

/// Why the upstream answered a call with 429. Must be called before the buckets learn from the
/// answer.
pub(crate) fn rejection_cause(resource: &Resource, ledger: &Ledger, call: ObservedCall<'_>) -> RejectionCause {
    match &call.observation.verdict {
        Verdict::Passed => RejectionCause::Unknown,
        Verdict::Busy | Verdict::Limited { by_other_accounts: true, .. } => RejectionCause::Upstream,
        Verdict::Exhausted { .. } => RejectionCause::Quota,
        Verdict::Crowded => cause_by_levels(resource, ledger, call, &Scope::Unnamed),
        Verdict::Limited { scope, by_other_accounts: false, .. } => cause_by_levels(resource, ledger, call, scope),
    }
}

fn cause_by_levels(resource: &Resource, ledger: &Ledger, call: ObservedCall<'_>, scope: &Scope) -> RejectionCause {
    let blamed = Attribution::new(resource, call.bill).blamed(scope);
    let is_ours = blamed.iter().any(|limit| has_too_little(ledger, call, *limit));
    if is_ours { RejectionCause::Ours } else { RejectionCause::Strangers }
}

/// Whether the bucket that the call is charged to had too little for it, as far as is known.
fn has_too_little(ledger: &Ledger, call: ObservedCall<'_>, limit: LimitId) -> bool {
    let ObservedCall { now, bill, .. } = call;
    match bill.key_charge(limit) {
        None => ledger.adaptive(limit).refill_left(call.at(), bill.get(limit)) < 0,
        Some(_) => {
            let only = bill.only(limit);
            let mut levels = ledger.read_each(now, &only, |bucket, limit| bucket.level(limit, now));
            levels.any(|level| level < Credit::ZERO)
        }
    }
}
