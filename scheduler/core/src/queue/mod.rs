//! The order of waiting requests: by class, fairly by client, and apart for each key.

mod class_queue;
mod clients;
mod fair_order;
mod key_queue;
mod queues;
mod recent_service;

pub(crate) use class_queue::{ClassPosition, ClassQueue, Service, StartReason, Waiting};
pub(crate) use fair_order::{Arrival, Needs};
pub(crate) use key_queue::{KeyQueue, QueueDemand};
pub(crate) use queues::{Queues, UPDATE_INTERVAL, backlog};
pub(crate) use recent_service::{RecentService, ServiceCount};
