//! `rampmeter upstream`

use super::process::signal::asked_to_stop;
use super::{init, output, simulate};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use rampmeter_upstream::{Config, Dialect, Policy, Preset, PresetError, ResponseTime, RetryAfter, Rule, Upstream};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

/// What `upstream` takes.
#[derive(Debug, clap::Args)]
pub struct UpstreamArgs {
    /// A limit, such as `requests=50/10s` or `processing-units=1000/PT1M;tick=1s`; may be repeated.
    ///
    /// By default, a limit is a token bucket that starts full and refills evenly. Options follow the period, each after
    /// a `;`. `burst=40` holds less than the capacity, and `start=0` starts with that level. `tick=1s` refills in
    /// ticks, and `whole` drops fractions of a unit at every refill. `fixed-window` (the capacity in each period from
    /// the start), `sliding-window` (in any period) and `leaky-bucket` (rejected calls count too) are other algorithms.
    /// `phase=20s` has fixed windows begin so long after multiples of the period; in `first-use` windows, the first
    /// call after a window begins the next.
    #[arg(long = "limit", conflicts_with = "preset", value_name = "UNIT=CAPACITY/PERIOD[;OPTION]...", default_values = ["requests=50/10s", "processing-units=200/10s"])]
    limits: Vec<Policy>,
    /// A known upstream: its limits and its answers. The name of one that ships, or a file whose name ends in `.toml`.
    ///
    /// There are ietf and all services of `rampmeter init`. A call is any path below `/process`,
    /// and tells its labels in the query, as in `/process?route=roles&guild=7`.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9490")]
    listen: SocketAddr,
    /// The most calls in flight; without it, any number. A call beyond it gets a 429 without `Retry-After`.
    #[arg(long, value_name = "N")]
    concurrency: Option<NonZeroUsize>,
    /// The headers in which an answer tells what a call took and what is left; by default those of
    /// Sentinel Hub, or of the preset.
    #[arg(long, value_name = "DIALECT", value_parser = PossibleValuesParser::new(Dialect::names()).try_map(|name| name.parse::<Dialect>()))]
    dialect: Option<Dialect>,
    /// How a refusal states the wait in `Retry-After`, in place of the dialect's form: in
    /// milliseconds, as Sentinel Hub does, in whole seconds, as HTTP has it, or not at all.
    #[arg(long, value_name = "FORM", value_parser = PossibleValuesParser::new(["ms", "seconds", "none"]).try_map(|name| name.parse::<RetryAfter>()))]
    retry_after: Option<RetryAfter>,
    /// The response time of an accepted call, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    response_ms: u64,
    /// The longest random addition to the response time, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    jitter_ms: u64,
    /// The seed of the random additions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Serves until a signal, then prints its counts.
///
/// # Errors
/// If the address is taken.
pub async fn run(args: UpstreamArgs) -> anyhow::Result<()> {
    let preset = args.known()?;
    let limits = limits(&preset).join(", ");
    let call = if args.preset.is_some() { "process" } else { "process?processing-units=2.5" };
    let upstream = Upstream::start(args.config(preset)).await?;
    output::line(format_args!("{} enforces {limits}", upstream.url()))?;
    let url = upstream.url();
    output::line(format_args!("try: curl -i '{url}/{call}'   counts: {url}/stats"))?;
    asked_to_stop().await?;
    let total = upstream.stats().total;
    let (sent, bad) = (total.sent(), total.bad);
    upstream.stop().await;
    output::line(format_args!("{sent} calls: {} ok, {} refused, {bad} malformed", total.ok, total.rate_limited))
}

impl UpstreamArgs {
    /// Returns the complete description of the upstream.
    fn known(&self) -> anyhow::Result<Preset> {
        let mut preset = match &self.preset {
            Some(name) => match Preset::open(name, Path::new("")) {
                Err(PresetError::Unknown { .. }) => simulate::upstream(&init::scenario_of(name)?)?,
                opened => opened?,
            },
            None => Preset::new(self.limits.iter().cloned().map(Rule::new).collect()),
        };
        preset.dialect = self.dialect.unwrap_or(preset.dialect);
        preset.concurrency = self.concurrency.or(preset.concurrency);
        Ok(self.retry_after.into_iter().fold(preset, Preset::with_retry_after))
    }

    fn config(self, preset: Preset) -> Config {
        let fixed = ResponseTime::fixed(Duration::from_millis(self.response_ms));
        let response_time = fixed.with_jitter(Duration::from_millis(self.jitter_ms), self.seed);
        Config { listen: self.listen, response_time, ..Config::of(preset) }
    }
}

fn limits(preset: &Preset) -> Vec<String> {
    let policies = preset.rules.iter().map(|rule| rule.policy.to_string());
    policies.chain(preset.concurrency.map(|limit| format!("{limit} at the same time"))).collect()
}
