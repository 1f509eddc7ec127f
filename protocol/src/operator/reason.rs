//! The reasons why requests wait, and the bucket that delays one.

use serde::{Deserialize, Serialize};

/// The bucket that delays a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The bucket's key, if the limit has a bucket for each key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What can be spent now; negative if starts were promised from future stock.
    pub level: f64,
    /// Time until calls can take from it again.
    pub next_free_ms: f64,
    /// What the request's class has to leave in the bucket for more urgent classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<f64>,
    /// Stock held back for others who use the limit, as much as they used before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<f64>,
    /// Time until the bucket could pay if no other request came first; absent if never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pays_in_ms: Option<f64>,
    /// Time until the pause that the upstream or an operator demanded is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_ms: Option<f64>,
    /// Expected time until the oldest call in flight ends, by the durations of recent calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_free_ms: Option<f64>,
}

/// Why a limit is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCause {
    /// The upstream demanded the pause.
    Upstream,
    /// An operator ordered it.
    Operator,
    /// The upstream reported that the quota is spent. The pause lasts until the limit is next free.
    Quota,
    /// A cause of a later version of the protocol.
    #[serde(other)]
    Other,
}

crate::named! {
    /// Why a request waits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Reason {
        /// The limit has less left than the request takes.
        Stock = "stock",
        /// What the limit has left is kept for more urgent classes.
        Headroom = "headroom",
        /// Calls in flight occupy all places.
        InFlight = "in_flight",
        /// The quota is used up until its reset.
        QuotaSpent = "quota_spent",
        /// A pause demanded by the upstream or an operator is not over.
        Frozen = "frozen",
        /// The pause is over, and a single call tests whether the upstream serves again.
        Probe = "probe",
        /// The request's client has had its share, so later requests of other clients go first.
        Share = "share",
        /// The limit could pay for the request, but other requests go first.
        Turn = "turn",
        /// The state of the upstream's bucket is not known yet, so only a few calls may start.
        Unproven = "unproven",
        /// The scheduler is waiting for the store or for NATS.
        Store = "store",
        ;
        /// A reason of a later version of the protocol.
        #[serde(other)]
        Other = "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_written_as_its_name_and_later_ones_are_read() {
        for reason in Reason::ALL {
            let text = format!("\"{}\"", reason.as_str());
            assert_eq!(serde_json::to_string(&reason).unwrap(), text);
            assert_eq!(serde_json::from_str::<Reason>(&text).unwrap(), reason);
        }
        assert_eq!(serde_json::from_str::<Reason>("\"of_later\"").unwrap(), Reason::Other);
    }

    #[test]
    fn a_holder_of_the_first_version_is_read() {
        let golden = r#"{"level":1.5,"next_free_ms":0.0}"#;
        let holder: Holder = serde_json::from_str(golden).unwrap();
        assert_eq!((holder.leaves, holder.pays_in_ms, holder.likely_free_ms), (None, None, None));
        assert_eq!(serde_json::to_string(&holder).unwrap(), golden);
    }
}
