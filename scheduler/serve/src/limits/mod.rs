//! Determines the limits in force, from the configuration, the rules in the store, and the provider.
//!
//! # How limits change
//!
//! * All schedulers read and watch one KV value with the rules of all resources, so that one
//!   compare-and-set changes all of them or none. The latest valid edition is in force for every
//!   scheduler. The store keeps the history and a copy of the edition in force, which a restart finds
//!   after any number of invalid editions. No scheduler leads before it has read the rules.
//! * Operators read and write rules through a scheduler, and need no rights in the store.
//! * Rules replace the limits of configuration or provider. Capacities that a provider states override both.
//! * For the core a change is one event. A limit keeps its state if name, unit, algorithm, match, key
//!   and group are unchanged. Checkpoints under the former limits allow nothing any more, so a checkpoint
//!   under the new limits is stored before the next grant.
//! * A checkpoint names its edition. A successor waits for that edition, and maps levels by names of limits.
//! * Only a leader asks a provider, from the first moment of its term. The answer is one more request to the
//!   permit loop. A failure changes only status, metrics and log: the scheduler stays ready with known limits.
//! * A resource without limits in the file waits for its first contract before it stands for
//!   election. It is not announced to other schedulers meanwhile, so no scheduler hands it over.
//!   These limits are not stored: without file and provider a scheduler does not lead.
//! * Every scheduler announces a fingerprint of what it applies. A lasting difference between two of
//!   them is shown in log, readiness, status and metrics, with the names of the limits.

pub mod differences;
pub mod fingerprint;
pub mod limit_sources;
pub mod present_rules;
pub mod provider_view;
pub mod rulebook;
pub mod rules_desk;
