//! An HTTP service that enforces rate limits as real APIs do, to run a scheduler against.
//!
//! It shares no code, arithmetic or clock with the scheduler, and so can judge it: a 429 means that a call came early.
//!
//! The pure half of the package takes time as an argument, a [`Duration`](std::time::Duration) since an
//! origin that the caller chooses. An [`Account`] charges the [`Cost`] of a call to all of its [`Policy`]s or
//! to none. A policy is a token bucket with the quirks of real ones, a window or a leaky bucket. A [`Rule`]
//! restricts a policy to some calls, or counts each key separately. An [`Api`] is an account whose responses
//! describe it by a [`Preset`]: for GitHub, Discord, OpenAI, Anthropic, Shopify and the IETF's draft, each a
//! small file such as `presets/github.toml`. The other half, [`Upstream`], serves one over HTTP:
//!
//! | request | answer |
//! |---|---|
//! | `GET` or `POST /process` | 200 after the response time, a refusal at once (429, or as the preset says), 400 for a malformed cost; with the headers of a [`Dialect`] |
//! | `GET /stats` | counts and levels as JSON |
//!
//! A call states its cost per unit in the query (`?processing-units=2.5`) or a header (`x-cost-processing-units: 2.5`).
//! The other query parameters are labels, such as `?route=roles&guild=7`, and so is `method`.
//!
//! ```
//! use rampmeter_upstream::{Config, Upstream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policies = vec!["requests=50/10s".parse()?, "processing-units=200/10s".parse()?];
//! let upstream = Upstream::start(Config::new(policies)).await?;
//! let answer = reqwest::get(format!("{}/process?processing-units=2.5", upstream.url())).await?;
//! assert_eq!(answer.status(), 200);
//! assert_eq!(answer.headers()["x-processingunits-spent"], "2.5");
//! assert_eq!(upstream.stats().total.ok, 1);
//! upstream.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Absent on purpose: charging by outcome (every admitted call is charged), refunds, monthly 403s,
//! access tokens, TLS, and any state that outlives the process.

mod account;
mod api;
mod arrival;
mod config;
mod counter;
mod counting;
mod http;
mod invalid_calls;
mod parsed;
mod policy;
mod preset;
mod refusal;
mod rule;
mod statistics;
mod upstream;

pub use account::{Account, Refused};
pub use api::{Api, Reply};
pub use arrival::Arrival;
pub use config::Config;
pub use counting::rejection::Rejection;
pub use http::response_time::ResponseTime;
pub use policy::Policy;
pub use policy::amount::{Amount, AmountError};
pub use policy::cost::Cost;
pub use policy::error::PolicyError;
pub use policy::unit::{MAX_UNIT_BYTES, Unit, UnitError};
pub use preset::Preset;
pub use preset::dialect::Dialect;
pub use preset::file::PresetError;
pub use preset::retry_after::RetryAfter;
pub use rule::Rule;
pub use statistics::admission::Admission;
pub use statistics::stats::{PolicyStats, Stats};
pub use statistics::tally::Tally;
pub use statistics::utilisation::Utilisation;
pub use upstream::{StartError, Upstream};
