//! Whether this scheduler does its work, resource by resource.

use rampmeter_protocol::name::Name;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a scheduler does for a resource, as `/readyz` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Duty {
    /// It does nothing yet.
    Starting,
    /// It answers requests.
    Leading {
        /// Since which epoch.
        epoch: u64,
        /// A higher one that a client has named lately. The store says that this scheduler leads.
        #[serde(skip_serializing_if = "Option::is_none")]
        named_epoch: Option<u64>,
    },
    /// Another scheduler answers requests; this one takes over when that one is gone.
    Standby,
    /// It wants to lead and can't.
    Troubled {
        /// Why.
        reason: String,
    },
    /// It gives the resource up.
    Stopping,
}

impl fmt::Display for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Duty::Starting => f.write_str("starting"),
            Duty::Leading { epoch, named_epoch: None } => write!(f, "leading since epoch {epoch}"),
            Duty::Leading { epoch, named_epoch: Some(named) } => {
                write!(f, "leading since epoch {epoch}; a client names epoch {named}")
            }
            Duty::Standby => f.write_str("standing by"),
            Duty::Troubled { reason } => write!(f, "in trouble: {reason}"),
            Duty::Stopping => f.write_str("stopping"),
        }
    }
}

/// The duties of all resources. The lock guards the map, for the time of one look-up.
#[derive(Debug)]
pub struct Health {
    duties: Mutex<BTreeMap<Name, Duty>>,
}

impl Health {
    /// All of `resources` are starting.
    pub fn new<'a>(resources: impl IntoIterator<Item = &'a Name>) -> Self {
        let duties = resources.into_iter().map(|name| (name.clone(), Duty::Starting)).collect();
        Health { duties: Mutex::new(duties) }
    }

    /// Notes a change, and logs it.
    pub fn set(&self, resource: &Name, duty: Duty) {
        let mut duties = self.lock();
        if duties.get(resource) != Some(&duty) {
            tracing::info!(%resource, "{duty}");
            duties.insert(resource.clone(), duty);
        }
    }

    /// All duties now.
    #[must_use]
    pub fn duties(&self) -> BTreeMap<Name, Duty> {
        self.lock().clone()
    }

    /// Whether every resource is led, by this scheduler or another.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.lock().values().all(|duty| matches!(duty, Duty::Leading { .. } | Duty::Standby))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Duty>> {
        self.duties.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
