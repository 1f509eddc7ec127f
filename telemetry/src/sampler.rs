//! Decides which spans are recorded.

use rampmeter_protocol::trace_context::TraceContext;

/// Follows the decision of a request's sender. Without one, records a share of the requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    /// A draw below this number is recorded; all 2^64 draws are equally likely.
    below: u64,
}

impl Sampler {
    /// Creates a sampler that records this share, from 0 to 1, of the traces that begin here.
    pub(crate) fn new(ratio: f64) -> Self {
        Sampler { below: (ratio.clamp(0.0, 1.0) * u64::MAX as f64) as u64 }
    }

    /// Returns whether a span with this parent is recorded. `draw` returns a random number.
    pub(crate) fn records(self, parent: Option<TraceContext>, draw: impl FnOnce() -> u64) -> bool {
        parent.map_or_else(|| self.below > 0 && draw() <= self.below, |parent| parent.is_sampled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_decides_if_there_is_one() {
        for sampled in [true, false] {
            let parent = TraceContext::new([1; 16], [2; 8], sampled);
            for ratio in [0.0, 1.0] {
                assert_eq!(Sampler::new(ratio).records(parent, || panic!("the sender has decided")), sampled);
            }
        }
    }

    #[test]
    fn a_part_of_the_traces_that_begin_here_is_recorded() {
        let records = |ratio: f64, drawn: u64| Sampler::new(ratio).records(None, || drawn);
        assert!(!records(0.0, 0) && records(1.0, u64::MAX));
        assert!(records(0.01, u64::MAX / 101) && !records(0.01, u64::MAX / 99));
    }
}
