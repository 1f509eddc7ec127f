//! Limits as workers meet them, over real NATS and HTTP.

mod blame;
mod claims;
mod dialects;
mod discover;
mod fair_queue;
mod feedback;
mod freezes;
mod keys;
mod readings;
mod uncounted;
