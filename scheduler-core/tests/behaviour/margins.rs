//! The stock held back, so that a late call finds what an early one was promised.

use crate::common::{amount, limit, play, resource, span};
use rampmeter_scheduler_core::policy::resource::Resource;
use rampmeter_scheduler_core::policy::spec::{LimitSpec, Margin};

#[test]
fn the_margin_is_what_comes_in_while_a_call_is_late_and_one_more() {
    // Capacity, period in ms, margin.
    let table = [
        (50.0, 10_000, 1.25),
        (200.0, 10_000, 2.0),
        (1000.0, 60_000, 1.833_334),
        (400_000.0, 744 * 3_600_000, 1.007_468),
        (100_000.0, 1_000, 5_001.0),
        // At most a tenth of the capacity.
        (10.0, 1_000, 1.0),
        (5.0, 5_000, 0.5),
        (1000.0, 100, 100.0),
        (0.000_019, 1_000, 0.000_001),
        (0.000_001, 1_000, 0.0),
    ];
    for (capacity, period, margin) in table {
        let limit = LimitSpec { margin: Margin::Auto, ..limit("requests", capacity, span(period)) };
        let limits = Resource::new(&resource(vec![limit])).unwrap();
        assert_eq!(limits.limits()[0].margin(), amount(margin), "{capacity} in {period} ms");
    }
}

#[test]
fn a_full_bucket_holds_all_but_the_margin() {
    let margin = Margin::Fixed(amount(2.5));
    play(
        &resource(vec![LimitSpec { margin, ..limit("requests", 10.0, span(1000)) }]),
        "
        0    levels                              -> requests=7.5
        0    reserve a requests=7                -> a@0
        0    reserve b                           -> b@50
        1000 levels                              -> requests=7.5
        # What fits only without the margin takes a full bucket, and a debt of at most the margin.
        1000 reserve c requests=10               -> c@1000
        1000 levels                              -> requests=-2.5
        ",
    );
}
