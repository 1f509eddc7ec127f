//! Worlds in virtual time around the real scheduler core.
//!
//! A [`World`](world::World) is a resource, [`Fleet`](workers::fleet::Fleet)s of workers, a
//! [`Network`](network::Network) and an [upstream](upstream::Behaviour). Workers speak the protocol by the SDK's
//! own sessions. The upstream is that of `rampmeter-upstream`, which shares no code with the core, and enforces
//! the same limits or deliberately others, so that each 429 of an exact upstream reveals a fault of the core.
//! Other [strategies](strategy::Strategy) can run in that world, which a seed determines to the nanosecond.
//!
//! ```
//! use rampmeter_protocol::{amount::Amount, name::Name, time::Span};
//! use rampmeter_policy::spec::{LimitSpec, ResourceSpec};
//! use rampmeter_simulator::{fleet::Fleet, world::World};
//!
//! let name = |name| Name::new(name).unwrap();
//! let limit = LimitSpec::new(name("per-second"), name("requests"), Amount::new(10.0)?, Span::from_secs(1));
//! let resource = ResourceSpec::new(name("api"), vec![limit]);
//! let fleet = Fleet { calls: Some(2), ..Fleet::new("workers", 20) };
//! let outcome = World::new(resource, 1).with(fleet).run()?;
//! assert_eq!((outcome.ok(), outcome.rejected()), (40, 0));
//! // Ten at once, thirty more at ten per second, and the margin.
//! assert!(outcome.finished().millis() < 3_300.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`judge`](judge::judge) checks the outcome, a [`Report`](report::Report) summarizes it, and a
//! [picture](picture::svg) shows it. [Incidents](incident::Incident) befall the scheduler.
//!
//! Absent on purpose: schedulers that compete for the lead, which tests try with real processes,
//! calls that are lost on their way to the upstream, and workers that lie.

mod event_queue;
pub mod incident;
pub mod judge;
pub mod network;
pub mod outcome;
mod results;
pub mod rng;
mod run;
mod simulated_scheduler;
mod simulated_store;
pub mod upstream;
mod workers;
pub mod world;
pub mod world_error;
mod world_event;

pub use results::{picture, report};
pub use workers::{cost, fleet, strategy};
