//! The options of the demo.

/// The options of both phases.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Options {
    /// The length of each of the two phases, in seconds.
    #[arg(long, value_name = "S", default_value_t = 25, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub seconds: u64,
    /// The number of workers; all beyond 200 are bulk.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub workers: u32,
    /// The seed of pauses, back-off and response times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
