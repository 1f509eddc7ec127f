//! The stock held back, so that a late call finds as much as it was promised.

use crate::prelude::*;

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

scripts! {
    a_full_bucket_holds_all_but_the_margin(
        resource(vec![LimitSpec { margin: Margin::Fixed(amount(2.5)), ..limit("requests", 10.0, span(1000)) }])
    ): "
        0    levels                              -> requests=7.5
        0    reserve a requests=7                -> a@0
        0    reserve b                           -> b@50
        1000 levels                              -> requests=7.5
        # What fits only without the margin takes a full bucket, and a debt of at most the margin.
        1000 reserve c requests=10               -> c@1000
        1000 levels                              -> requests=-2.5
    "
}

/// When the second of two requests for everything starts, under a jitter of this many milliseconds.
fn second_start(algorithm: Algorithm, jitter: u64) -> Span {
    let all = wish(Mode::Reserve, &[("requests", 100.0)]);
    let (margin, jitter) = (Margin::Auto, span(jitter));
    let mut world =
        World::new(&resource(vec![LimitSpec { margin, jitter, algorithm, ..limit("requests", 100.0, span(1000)) }]));
    let [_, second] = [0, 1].map(|_| world.ask(ms(500), &all));
    world.start(second).unwrap().since(ms(500))
}

#[test]
fn a_jitter_sets_the_margin_and_how_long_calls_count() {
    // The jitter, the margin at 1000 a second, and the starts under sliding and fixed windows.
    let table = [(0, 1.0, 1000, 550), (1, 2.0, 1001, 550), (50, 51.0, 1050, 550), (80, 81.0, 1080, 580)];
    // At most a tenth of the capacity, and of the window.
    for (jitter, margin, sliding, fixed) in table.into_iter().chain([(400, 100.0, 1100, 600)]) {
        let limit = LimitSpec { margin: Margin::Auto, jitter: span(jitter), ..limit("requests", 1000.0, span(1000)) };
        let limits = Resource::new(&resource(vec![limit])).unwrap();
        assert_eq!(limits.limits()[0].margin(), amount(margin), "{jitter} ms");
        assert_eq!(second_start(Algorithm::SlidingWindow, jitter), span(sliding), "{jitter} ms");
        assert_eq!(second_start(Algorithm::FixedWindow(Alignment::Epoch), jitter), span(fixed), "{jitter} ms");
    }
}
