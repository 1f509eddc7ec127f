//! What is compared, as users say it.

/// What is compared.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Options {
    /// How long each of the two phases takes, in seconds.
    #[arg(long, value_name = "S", default_value_t = 25, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub seconds: u64,
    /// How many workers call; beyond 200 all more are bulk.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub workers: u32,
    /// Decides think times, back-off and response times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
