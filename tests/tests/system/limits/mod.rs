//! Limits as workers meet them, over real NATS and HTTP.

mod budgets;
mod claims;
mod dialects;
mod discover;
mod fair_queue;
mod freezes;
mod keys;
mod pauses;
mod pools;
mod readings;
mod uncounted;
