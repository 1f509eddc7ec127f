//! Limits that are discovered, and how they count in the real core.

#![expect(clippy::unwrap_used, reason = "a test stops where its setting fails, helpers included")]

mod discover;
mod world;
