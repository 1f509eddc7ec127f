//! `rampmeter upstream`

use super::signal::asked_to_stop;
use rampmeter_upstream::{Config, Policy, ResponseTime, Upstream};
use std::net::SocketAddr;
use std::time::Duration;

/// What `upstream` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A limit, such as `requests=50/10s` or `processing-units=1000/PT1M`; give several.
    #[arg(long = "limit", value_name = "UNIT=CAPACITY/PERIOD", default_values = ["requests=50/10s", "processing-units=200/10s"])]
    limits: Vec<Policy>,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9490")]
    listen: SocketAddr,
    /// How long an accepted call takes, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    response_ms: u64,
    /// How much longer it may take at random, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    jitter_ms: u64,
    /// The seed of that.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Serves until a signal, then says what it saw.
///
/// # Errors
/// If the address is taken.
#[expect(clippy::print_stdout, reason = "what the command is for")]
pub async fn run(args: Args) -> anyhow::Result<()> {
    let fixed = ResponseTime::fixed(Duration::from_millis(args.response_ms));
    let response_time = fixed.with_jitter(Duration::from_millis(args.jitter_ms), args.seed);
    let limits: Vec<String> = args.limits.iter().map(ToString::to_string).collect();
    let upstream = Upstream::start(Config::new(args.limits).listen(args.listen).response_time(response_time)).await?;
    println!("{} enforces {}", upstream.url(), limits.join(", "));
    println!("try: curl -i '{}/process?processing-units=2.5'   counts: {}/stats", upstream.url(), upstream.url());
    asked_to_stop().await?;
    let total = upstream.stats().total;
    println!("{} calls: {} ok, {} × 429, {} malformed", total.sent(), total.ok, total.rate_limited, total.bad);
    upstream.stop().await;
    Ok(())
}
