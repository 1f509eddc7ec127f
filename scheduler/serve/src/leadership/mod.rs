//! Decides which scheduler leads a resource, and passes state from one leader to the next.
//!
//! Only the compare-and-set on a resource's state record decides which scheduler leads. Everything else
//! here decides which scheduler tries, and when.
//!
//! # How it works
//!
//! * **Failover.** A standby probes the leader's private subject every 80 ms. *No responders* means that the
//!   leader is gone, a silence of 0.7 s that it hangs or is stopped. A leader that answers but renews no
//!   checkpoint for 12 s cannot reach the store. A released record is taken at once, first by whom it names.
//! * **Doubt.** A leader may have been replaced if its process stood still for 0.3 s, also in a sleep of
//!   the machine. It answers nothing until the store has taken another checkpoint. If another scheduler
//!   leads, it steps down silently. Otherwise it tells the requests that came in meanwhile to ask again.
//! * **Hearsay.** A client may name a higher epoch. The leader goes on, since its grants are within stored
//!   checkpoints, and writes the next checkpoint at once. If the store takes it, this scheduler leads,
//!   and its epoch rises above all that a leader can have had, once in a term.
//! * **Balance.** Schedulers find each other by the discovery of NATS. One that leads two resources more
//!   than another hands one over. One that leads more waits longer for a vacant resource.
//! * **Listening.** A leader that finds nothing in the store listens for 0.27 s before it grants. It first
//!   announces itself without an epoch, so that workers of a former term ask again within a quarter of a
//!   second, with the epoch that they know. Such an epoch shows that there was another store: limits of less
//!   than ten minutes start empty. The leader reveals its own epoch later: one learned from it shows nothing.
//! * **A store that went back.** Each process remembers what it has seen. If the store then shows an older
//!   epoch, revision or checkpoint, the memory counts and the store does not. Without a memory, buckets
//!   start empty. After a damaged record, the debts of the record before it count, but no stock.
//! * **A server that restarted.** A record names the server that held the store when it was written. A
//!   server has a new id after each start; a private server keeps its name over a clean stop if nothing
//!   has touched its data since. The record may be old if a single server restarted and no process has
//!   watched the store since before. Limits of less than ten minutes then start empty, in an epoch above
//!   all known ones. A cluster has no such id, and needs none while one server keeps its data.
//! * **A lost connection.** A revision may occur twice after a power loss. After a lost connection the
//!   record is therefore read again, and must carry the nonce of this term.
//! * **A silent store.** In a cluster of NATS servers, a record lists the standbys; a single server would
//!   take their connections with it. A checkpoint that the store does not take within 0.1 s goes to all of
//!   them, and counts once each holds it, until 40 s after the last record. A successor first seals the
//!   memory of one standby in the record, which then holds nothing more for the former leader, and goes on
//!   from the latest checkpoint that it or the store has. If none answers, it waits until the record is
//!   45 s old, and buckets start empty. Without standbys, the leader grants what its last record covers.
//! * **A deleted bucket.** A leader never creates it again; `rampmeter state init` does.

pub mod last_seen;
mod limit_forecasts;
pub mod peer_discovery;
pub(crate) mod predecessor_state;
pub(crate) mod provider_watch;
mod quota_alerts;
pub mod resource_leader;
pub(crate) mod resource_state;
pub(crate) mod resource_task;
pub(crate) mod standby;
pub(crate) mod state_writer;
pub(crate) mod store_clock;
pub(crate) mod token_endpoint;
pub(crate) mod token_permits;
pub(crate) mod usage_book;
pub(crate) mod usage_keeper;
