//! Events that a scheduler announces to all clients.

use crate::epoch::Epoch;
use crate::name::Name;
use serde::{Deserialize, Serialize};

/// A message on `rampmeter.event.<resource>`. Clients ignore unknown events and fields, and events
/// of a lower epoch than one that they have seen, whose scheduler no longer leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum News {
    /// A scheduler took over the resource. Clients repeat their waiting requests under their ids.
    Leader {
        /// That scheduler's epoch.
        epoch: Epoch,
        /// The name of that scheduler process.
        leader: String,
    },
    /// Limits have changed.
    Limits {
        /// The limits with their new values.
        limits: Vec<LimitNews>,
        /// The leader's epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    },
    /// A freeze begins and voids the promised starts of the next `for_ms`.
    Freeze {
        /// The frozen limits.
        limits: Vec<Name>,
        /// The frozen buckets, as limits with any keys; if empty, as from earlier schedulers, all buckets of `limits`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        buckets: Vec<(Name, Option<String>)>,
        /// How long the freeze lasts.
        for_ms: f64,
        /// The leader's epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    },
    /// An operator ended freezes. Freezes that end by themselves are not announced.
    Thaw {
        /// The limits that are no longer frozen.
        limits: Vec<Name>,
        /// The leader's epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    },
    /// An event of a later version of the protocol.
    #[serde(other)]
    Other,
}

/// A limit that has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitNews {
    /// The name, unique in the resource.
    pub name: Name,
    /// Capacity of a full bucket at the upstream.
    pub capacity: f64,
    /// Time in which an empty bucket fills.
    pub period_ms: f64,
}

impl News {
    /// Returns the sender's epoch, if the event contains it.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            News::Leader { epoch, .. } => Some(*epoch),
            News::Limits { epoch, .. } | News::Freeze { epoch, .. } | News::Thaw { epoch, .. } => *epoch,
            News::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// The golden text of each event.
    fn golden() -> [(News, &'static str); 5] {
        let limit = LimitNews { name: name("per-minute"), capacity: 600.0, period_ms: 60_000.0 };
        [
            (
                News::Leader { epoch: Epoch::new(7), leader: "scheduler-a".to_owned() },
                r#"{"event":"leader","epoch":7,"leader":"scheduler-a"}"#,
            ),
            (
                News::Limits { limits: vec![limit], epoch: Some(Epoch::new(7)) },
                r#"{"event":"limits","limits":[{"name":"per-minute","capacity":600.0,"period_ms":60000.0}],"epoch":7}"#,
            ),
            (
                News::Freeze {
                    limits: vec![name("per-minute"), name("per-guild")],
                    buckets: vec![(name("per-minute"), None), (name("per-guild"), Some("x".to_owned()))],
                    for_ms: 3000.0,
                    epoch: Some(Epoch::new(7)),
                },
                r#"{"event":"freeze","limits":["per-minute","per-guild"],"buckets":[["per-minute",null],["per-guild","x"]],"for_ms":3000.0,"epoch":7}"#,
            ),
            (
                News::Freeze { limits: vec![name("per-minute")], buckets: Vec::new(), for_ms: 0.5, epoch: None },
                r#"{"event":"freeze","limits":["per-minute"],"for_ms":0.5}"#,
            ),
            (
                News::Thaw { limits: vec![name("per-minute")], epoch: Some(Epoch::new(7)) },
                r#"{"event":"thaw","limits":["per-minute"],"epoch":7}"#,
            ),
        ]
    }

    #[test]
    fn events_are_written_and_read_as_ever() {
        for (event, text) in golden() {
            assert_eq!(serde_json::to_string(&event).unwrap(), text);
            assert_eq!(serde_json::from_str::<News>(text).unwrap(), event, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_passed_over() {
        #[rustfmt::skip]
        let table = [
            (r#"{"event":"freeze","limits":["a"],"for_ms":3000,"why":"429"}"#,  News::Freeze { limits: vec![name("a")], buckets: Vec::new(), for_ms: 3000.0, epoch: None }),
            (r#"{"event":"eclipse","of":"the sun","epoch":3}"#,                 News::Other),
        ];
        for (text, event) in table {
            assert_eq!(serde_json::from_str::<News>(text).unwrap(), event, "{text}");
        }
        for wrong in [r#"{"event":"freeze","limits":["a"]}"#, r#"{"limits":["a"]}"#, "[]", "7"] {
            assert!(serde_json::from_str::<News>(wrong).is_err(), "{wrong}");
        }
    }
}
