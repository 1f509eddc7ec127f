//! After any faults of a network that has healed, every ask has ended exactly once. No call was
//! made with a permit that was given back.

use crate::network::{Chaos, World};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_ask_ends_exactly_once(seed: u64, loss in 0u64..60, copies in 0u64..40, slowness_ms in 0u64..8000) {
        let mut world = World::new(seed, Chaos { loss_percent: loss, copy_percent: copies, slowness_ms });
        world.run();
        world.judge();
    }
}
