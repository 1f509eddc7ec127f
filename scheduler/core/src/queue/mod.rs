//! The order of waiting requests: by class, fairly by client, and apart for each key.

mod admission_cap;
mod class_queue;
mod clients;
mod fair_order;
mod key_queue;
mod key_queues;
mod queue_position;
mod queue_updates;
mod queues;
mod recent_service;
mod virtual_clock;
mod waiting_request;

pub(crate) use class_queue::{ClassQueue, Service, StartReason};
pub(crate) use fair_order::Arrival;
pub(crate) use key_queue::{KeyQueue, QueueDemand};
pub(crate) use queue_updates::INTERVAL as UPDATE_INTERVAL;
pub(crate) use queues::Queues;
pub(crate) use recent_service::{GrantedService, RecentService, ServiceCount};
pub(crate) use waiting_request::{ClassPosition, Waiting};
