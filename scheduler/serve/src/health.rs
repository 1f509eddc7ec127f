//! Whether this scheduler does its work, resource by resource.

use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::name::Name;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use tokio::sync::watch;

/// The state of a resource at a scheduler, as shown by `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ServingState {
    /// The scheduler does nothing yet.
    Starting,
    /// The scheduler answers requests.
    Leading {
        /// The epoch of its term.
        epoch: Epoch,
        /// A higher epoch that a client has sent lately, although the store confirms this leader.
        #[serde(skip_serializing_if = "Option::is_none")]
        named_epoch: Option<Epoch>,
    },
    /// Another scheduler answers requests; this one takes over if that one is gone.
    Standby,
    /// The scheduler wants to lead and can't.
    Troubled {
        /// The reason.
        reason: String,
    },
    /// The scheduler is giving the resource up.
    Stopping,
}

impl fmt::Display for ServingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServingState::Starting => f.write_str("starting"),
            ServingState::Leading { epoch, named_epoch: None } => write!(f, "leading since epoch {epoch}"),
            ServingState::Leading { epoch, named_epoch: Some(named) } => {
                write!(f, "leading since epoch {epoch}; a client names epoch {named}")
            }
            ServingState::Standby => f.write_str("standing by"),
            ServingState::Troubled { reason } => write!(f, "in trouble: {reason}"),
            ServingState::Stopping => f.write_str("stopping"),
        }
    }
}

/// The duties of all resources.
#[derive(Debug)]
pub struct Health {
    duties: watch::Sender<BTreeMap<Name, ServingState>>,
}

impl Health {
    /// Creates the record with all of `resources` starting.
    pub fn new<'a>(resources: impl IntoIterator<Item = &'a Name>) -> Self {
        let duties = resources.into_iter().map(|name| (name.clone(), ServingState::Starting)).collect();
        Health { duties: watch::Sender::new(duties) }
    }

    /// Notes a change, and logs it.
    pub fn set(&self, resource: &Name, duty: ServingState) {
        self.duties.send_if_modified(|duties| {
            let is_new = duties.get(resource) != Some(&duty);
            if is_new {
                tracing::info!(%resource, "{duty}");
                duties.insert(resource.clone(), duty);
            }
            is_new
        });
    }

    /// Returns what this scheduler does for each resource.
    #[must_use]
    pub fn duties(&self) -> BTreeMap<Name, ServingState> {
        self.duties.borrow().clone()
    }

    /// Returns whether every resource is led, by this scheduler or another.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        are_led(&self.duties.borrow())
    }

    /// Returns when every resource is led, by this scheduler or another.
    pub async fn ready(&self) {
        let led = self.duties.subscribe().wait_for(are_led).await.map(drop);
        led.expect("the sender lives as long as this");
    }
}

fn are_led(duties: &BTreeMap<Name, ServingState>) -> bool {
    duties.values().all(|duty| matches!(duty, ServingState::Leading { .. } | ServingState::Standby))
}
