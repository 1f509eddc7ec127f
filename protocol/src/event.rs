//! What a scheduler tells everybody.

use serde::{Deserialize, Serialize};

/// An event on `rampmeter.event.<resource>`. Clients pass over events that they do not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A scheduler took the resource over: whoever waits asks again, with the same id.
    Leader {
        /// Its epoch.
        epoch: u64,
        /// The scheduler.
        leader: String,
    },
    /// Limits have other values from now on.
    Limits {
        /// Their names.
        limits: Vec<String>,
    },
    /// Starts that fall into the next `for_ms` are void.
    Freeze {
        /// Names of the limits that are frozen.
        limits: Vec<String>,
        /// For how long.
        for_ms: f64,
    },
    /// A freeze is over.
    Thaw {
        /// Names of the limits that flow again.
        limits: Vec<String>,
    },
    /// An event of a later protocol.
    #[serde(other)]
    Other,
}
