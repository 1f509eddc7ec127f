//! `rampmeter upstream`

use super::output;
use super::signal::asked_to_stop;
use clap::ValueEnum;
use rampmeter_upstream::{Config, Dialect, Policy, ResponseTime, RetryAfter, Upstream};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

/// What `upstream` takes.
#[derive(Debug, clap::Args)]
pub struct UpstreamArgs {
    /// A limit, such as `requests=50/10s` or `processing-units=1000/PT1M;tick=1s`; may be repeated.
    ///
    /// By default, a limit is a token bucket that starts full and refills evenly. Options follow
    /// the period, each after a `;`. `burst=40` holds less than the capacity, and `start=0` starts
    /// with that level. `tick=1s` refills in ticks, and `whole` drops fractions of a unit at every
    /// refill. `fixed-window` (the capacity in each period from the start), `sliding-window` (in
    /// any period) and `leaky-bucket` (rejected calls count too) are other algorithms.
    #[arg(long = "limit", value_name = "UNIT=CAPACITY/PERIOD[;OPTION]...", default_values = ["requests=50/10s", "processing-units=200/10s"])]
    limits: Vec<Policy>,
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9490")]
    listen: SocketAddr,
    /// The most calls in flight; without it, any number. A call beyond it gets a 429 without
    /// `Retry-After`.
    #[arg(long, value_name = "N")]
    concurrency: Option<NonZeroUsize>,
    /// The headers in which an answer tells what a call took and what is left.
    #[arg(long, value_enum, value_name = "DIALECT", default_value_t)]
    dialect: DialectName,
    /// How a 429 states the wait in `Retry-After`, in place of the dialect's form.
    #[arg(long, value_enum, value_name = "FORM")]
    retry_after: Option<RetryAfterForm>,
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

/// The headers of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DialectName {
    /// The cost of a call; waits in milliseconds.
    #[default]
    SentinelHub,
    /// `RateLimit-Policy` and `RateLimit`, with every limit; waits in seconds.
    Ietf,
    /// `x-ratelimit-{limit,remaining,reset}-UNIT`; waits in seconds.
    Openai,
}

/// How a 429 states the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RetryAfterForm {
    /// In milliseconds, as Sentinel Hub does.
    Ms,
    /// In whole seconds, rounded up, as in HTTP.
    Seconds,
    /// Not at all.
    None,
}

/// Serves until a signal, then prints its counts.
///
/// # Errors
/// If the address is taken.
pub async fn run(args: UpstreamArgs) -> anyhow::Result<()> {
    let limits = args.limits();
    let upstream = Upstream::start(args.config()).await?;
    output::line(format_args!("{} enforces {}", upstream.url(), limits.join(", ")))?;
    let url = upstream.url();
    output::line(format_args!("try: curl -i '{url}/process?processing-units=2.5'   counts: {url}/stats"))?;
    asked_to_stop().await?;
    let total = upstream.stats().total;
    let (sent, bad) = (total.sent(), total.bad);
    upstream.stop().await;
    output::line(format_args!("{sent} calls: {} ok, {} × 429, {bad} malformed", total.ok, total.rate_limited))
}

impl UpstreamArgs {
    /// The limits that are enforced, as text for people.
    fn limits(&self) -> Vec<String> {
        let policies = self.limits.iter().map(ToString::to_string);
        policies.chain(self.concurrency.map(|limit| format!("{limit} at the same time"))).collect()
    }

    fn config(self) -> Config {
        let fixed = ResponseTime::fixed(Duration::from_millis(self.response_ms));
        let response_time = fixed.with_jitter(Duration::from_millis(self.jitter_ms), self.seed);
        let config = Config::new(self.limits).listen(self.listen).response_time(response_time);
        let config = config.dialect(self.dialect.into());
        let config = self.retry_after.into_iter().fold(config, |config, form| config.retry_after(form.into()));
        self.concurrency.into_iter().fold(config, Config::concurrency)
    }
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::SentinelHub => Self::SentinelHub,
            DialectName::Ietf => Self::Ietf,
            DialectName::Openai => Self::Openai,
        }
    }
}

impl From<RetryAfterForm> for RetryAfter {
    fn from(form: RetryAfterForm) -> Self {
        match form {
            RetryAfterForm::Ms => Self::Milliseconds,
            RetryAfterForm::Seconds => Self::Seconds,
            RetryAfterForm::None => Self::Missing,
        }
    }
}
