//! Discovers limits that the configuration lacks from responses. Pure: events and times go in, limits come out.
//!
//! | limits | discovered from |
//! |---|---|
//! | with capacity and period | headers that describe buckets: `headers` |
//! | a rate | rejected calls, by additive increase and multiplicative decrease: `rate_search` |
//! | a cap on calls in flight | rejected calls, and calls that take longer: `in_flight_cap` |
//!
//! Discovered limits are in force like configured ones, and come after them. A limit from headers begins with
//! the stated amount. The rate and the cap are [steered](rampmeter_policy::spec::Learn::Steered): their
//! capacities in force change without a change of limits.
//!
//! [`Discovery`] stands between the driver of a scheduler and its core:
//!
//! ```
//! use rampmeter_discovery::Discovery;
//! use rampmeter_protocol::{epoch::Epoch, name::Name, time::{Span, Time}};
//! use rampmeter_scheduler_core::event::Event;
//! use rampmeter_scheduler_core::scheduler::Scheduler;
//! use rampmeter_policy::Resource;
//! use rampmeter_policy::spec::{Discover, ResourceSpec};
//!
//! let spec = ResourceSpec { discover: Discover::All, ..ResourceSpec::new(Name::new("api")?, Vec::new()) };
//! let written = Resource::new(&spec)?;
//! let mut discovery = Discovery::begin(&written, Time::ORIGIN, &[]);
//! let mut core: Scheduler<()> = Scheduler::new(discovery.extended(written), Epoch::FIRST, Time::ORIGIN);
//! discovery.handle(&mut core, Time::ORIGIN + Span::from_secs(1), Event::Wake);
//! let rate = discovery.limits_in_force(core.resource()).remove(0);
//! assert_eq!((&*rate.name, rate.capacity.units(), rate.period), ("learned-rate", 2.0, Span::from_secs(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod discovered_limit;
mod discovery;
mod headers;
mod in_flight_cap;
mod rate_search;

pub use discovered_limit::{DiscoveredSnapshot, Evidence};
pub use discovery::Discovery;
