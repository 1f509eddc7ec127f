//! What answers tell of windows, quotas and the buckets of keys: how much is left, and when a
//! window ends.

use crate::prelude::*;

/// Ten in each window, in milliseconds.
fn ten_in(algorithm: Algorithm, period: u64) -> LimitSpec {
    counted(algorithm, limit("requests", 10.0, span(period)))
}

fn fixed(period: u64) -> ResourceSpec {
    resource(vec![ten_in(Algorithm::FixedWindow(Alignment::Epoch), period)])
}

fn by_guild(limit: LimitSpec) -> ResourceSpec {
    resource(vec![by("guild", limit)])
}

scripts! {
    a_window_ends_when_the_upstream_says_so(fixed(60_000)): "
        10000  reserve a                            -> a@10000
        # Written between 10 000 and 10 100: the window ends within 100 ms before 30 000.
        10100  answered a 200 left=9 reset=19900    -> a:settled
        10100  levels                               -> requests=9
        10100  reserve b requests=9                 -> b@10100
        10100  reserve c requests=10                -> c@30000
        10100  reserve d                            -> d@90000
    "

    no_call_starts_while_either_window_may_count_it(fixed(60_000)): "
        10000  reserve a                                    -> a@10000
        10100  answered a 200 left=9 reset=19000 grain=1000 -> a:settled
        # It ends between 28 000 and 30 100.
        27999  reserve b                                    -> b@27999
        28000  reserve c                                    -> c@30100
        28000  levels                                       -> requests=-1
        30100  levels                                       -> requests=9
    "

    answers_that_agree_narrow_the_end_down(fixed(60_000)): "
        10000  reserve a                                     -> a@10000
        10100  answered a 200 left=9 reset=19000 grain=1000  -> a:settled
        10900  reserve b                                     -> b@10900
        # Between 28 900 and 30 900: together with the first answer until 30 100.
        10900  answered b 200 left=8 reset=19000 grain=1000  -> b:settled
        11600  reserve c                                     -> c@11600
        # Between 29 600 and 31 600.
        11600  answered c 200 left=7 reset=19000 grain=1000  -> c:settled
        29000  reserve d                                     -> d@29000
        29600  reserve e                                     -> e@30100
    "

    usage_by_others_stays_when_the_end_is_known_better(fixed(60_000)): "
        10000  reserve a                                     -> a@10000
        10100  answered a 200 left=5 reset=19000 grain=1000  -> a:settled
        10100  levels                                        -> requests=5
        11100  reserve b                                     -> b@11100
        # It may have been answered before other calls came. It ends at 29 600.
        11100  answered b 200 left=8 reset=18500             -> b:settled
        11100  reserve c requests=4                          -> c@11100
        11100  reserve d                                     -> d@29600
    "

    a_promise_counts_in_the_window_of_its_start(fixed(60_000)): "
        0    reserve a requests=10              -> a@0
        0    reserve b requests=10              -> b@60000
        100  answered a 200 left=0 reset=30000  -> a:settled
        # The window from 30 s on has the promise for 60 s.
        100  reserve c                          -> c@90100
        100  unused b                           -> b:settled
        100  reserve d requests=10              -> d@30100
    "

    a_call_is_in_a_window_that_has_begun_before_it(fixed(60_000)): "
        10000  reserve a requests=6                          -> a@10000
        # It ends after 69 000. It had begun at 10 100, so it ends by 70 100.
        10100  answered a 200 left=4 reset=60000 grain=1000  -> a:settled
        10100  reserve b requests=5                          -> b@70100
        10100  reserve c requests=4                          -> c@10100
    "

    a_promise_close_to_the_end_of_a_window_counts_in_the_next_one_too(
        resource(vec![ten_in(Algorithm::FixedWindow(Alignment::Epoch), 60_000), limit("units", 10.0, span(60_000))])
    ): "
        0    reserve a requests=8                                       -> a@0
        0    reserve b requests=1 units=10                              -> b@0
        0    reserve c requests=1 units=5                               -> c@30000
        # A window ends between 29 800 and 30 100.
        100  answered a 200 unit=requests left=1 reset=29900 grain=100  -> a:settled
        100  reserve d requests=10                                      -> d@90100
        100  unused c                                                   -> c:settled
        100  reserve e requests=9                                       -> e@30100
    "

    usage_of_a_former_window_ends_with_it(fixed(60_000)): "
        0      reserve a requests=4               -> a@0
        40000  reserve b requests=5               -> b@40000
        # The upstream's window began at 30 s: only the second call is in it.
        40000  answered b 200 left=5 reset=50000  -> b:settled
        40000  levels                             -> requests=5
        40000  reserve c requests=5               -> c@40000
        40000  reserve d                          -> d@90000
    "

    usage_by_others_is_missing_until_the_window_ends(fixed(1000)): "
        100   reserve a              -> a@100
        100   reserve b              -> b@100
        120   reserve c              -> c@120
        # Two calls of ours were there before the answer, the third may have come later.
        150   answered a 200 left=4  -> a:settled
        150   levels                 -> requests=3
        # A call that came later sees one less.
        160   answered c 200 left=3  -> c:settled
        160   levels                 -> requests=3
        160   reserve d requests=4   -> d@1000
        1000  levels                 -> requests=6
    "

    a_call_that_had_not_arrived_yet_teaches_nothing(fixed(1000)): "
        100  reserve a              -> a@100
        100  reserve b              -> b@100
        100  reserve c              -> c@100
        150  answered a 200 left=9  -> a:settled
        150  levels                 -> requests=7
        # Nor does an answer that says more than there can be.
        150  answered b 200 left=50 -> b:settled
        150  levels                 -> requests=7
    "

    an_answer_about_an_ended_window_teaches_nothing_about_the_next(fixed(1000)): "
        900   reserve a               -> a@900
        1050  answered a 200 left=0   -> a:settled
        1050  levels                  -> requests=10
    "

    a_higher_remaining_amount_is_believed_slowly(fixed(60_000)): "
        1000   reserve a               -> a@1000
        1000   answered a 200 left=2   -> a:settled
        1000   levels                  -> requests=2
        13000  reserve b               -> b@13000
        13000  answered b 200 left=8   -> b:settled
        # A twentieth of what comes in within 13 s.
        13000  levels                  -> requests=1.108333
    "

    others_use_sliding_windows_and_windows_from_the_first_call_on(
        [Algorithm::SlidingWindow, Algorithm::FixedWindow(Alignment::FirstUse)].map(ten)
    ): "
        100   reserve a               -> a@100
        300   reserve b               -> b@300
        350   answered b 200 left=5   -> b:settled
        350   levels                  -> requests=5
        # The own call leaves the window; what others used may be as young as the answer.
        1100  levels                  -> requests=6
        1500  levels                  -> requests=10
    "

    each_policy_of_an_answer_is_believed(
        resource(
            [("hour", 1000.0, 3_600_000), ("minute", 100.0, 60_000)]
                .map(|(named, capacity, period)| LimitSpec {
                    name: name(named),
                    capacity: amount(capacity),
                    ..ten_in(Algorithm::FixedWindow(Alignment::Epoch), period)
                })
                .to_vec()
        )
    ): "
        0  reserve a                                          -> a@0
        0  answered a 200 left=50 of=100 left=900 of=1000     -> a:settled
        0  levels                                             -> hour=900 minute=50
        0  reserve b                                          -> b@0
        # Both capacities are half as large.
        0  answered b 200 left=400 of=500 left=20 of=50       -> b:settled
        0  levels                                             -> hour=400 minute=20
        0  reserve c                                          -> c@0
        # Which one it speaks of is not known.
        0  answered c 200 left=1 of=70                        -> c:settled
        0  levels                                             -> hour=399 minute=19
        0  reserve d                                          -> d@0
        0  answered d 200 limit=hour left=100                 -> d:settled
        0  levels                                             -> hour=100 minute=18
    "

    a_window_from_the_first_call_on_returns_what_others_used_at_its_end(
        resource(vec![ten_in(Algorithm::FixedWindow(Alignment::FirstUse), 10_000)])
    ): "
        1000  reserve a                           -> a@1000
        1000  answered a 200 left=5 reset=1500    -> a:settled
        2499  levels                              -> requests=5
        2500  levels                              -> requests=9
    "

    a_key_has_windows_and_strangers_of_its_own(by_guild(ten_in(Algorithm::FixedWindow(Alignment::Epoch), 60_000))): "
        10000  reserve a guild:x                               -> a@10000
        10000  answered a 200 left=4 of=10 reset=20000         -> a:settled
        10000  reserve b guild:x requests=4                    -> b@10000
        10000  reserve c guild:x                               -> c@30000
        # Another key is as it was.
        10000  reserve d guild:y requests=10                   -> d@10000
        10000  reserve e guild:y                               -> e@60000
    "

    the_bucket_of_a_key_has_what_the_upstream_says(by_guild(limit("requests", 10.0, span(10_000)))): "
        0     reserve a guild:x               -> a@0
        # In 100 ms a tenth of a token came in.
        100   answered a 200 left=4           -> a:settled
        100   reserve b guild:x requests=5    -> b@1000
        1000  reserve c guild:x               -> c@2000
        # The level after that call is known, whatever has started since.
        2000  reserve d guild:x               -> d@3000
        2500  answered c 200 left=0           -> c:settled
        2500  reserve e guild:x               -> e@4000
        2500  reserve f guild:y requests=10   -> f@2500
    "

    a_quota_has_what_the_upstream_says(
        resource(vec![counted(Algorithm::Quota(None), limit("units", 100.0, span(1000)))])
    ): "
        0  reserve a units=10     -> a@0
        0  reserve b units=10     -> b@0
        0  answered a 200 left=30      -> a:settled
        0  answered b 200 left=30      -> b:settled
        0  levels                      -> units=30
        0  wait c units=31             -> c:quota_spent
    "

    an_answer_takes_the_rest_of_a_quota_for_a_minute(
        resource(vec![counted(Algorithm::Quota(None), limit("requests", 100.0, span(1000)))])
    ): "
        0      reserve a              -> a@0
        0      reserve b              -> b@0
        0      answered a 200 left=0       -> a:settled
        0      wait c                 -> c:quota_spent
        59999  levels                      -> requests=0
        60000  levels                      -> requests=98
        # One call asks the upstream again, and the others wait for its answer.
        60000  wait d                 -> d@60000
        60000  wait e                 ->
        60100  answered d 200 left=97      -> d:settled e@60100
    "

    one_answer_moves_no_window(fixed(60_000)): "
        0      reserve a requests=5           -> a@0
        0      answered a 200 left=5 reset=30000   -> a:settled
        0      reserve b                      -> b@0
        # The window seems to end at once. It does not: an answer has said otherwise just now.
        0      answered b 200 left=9 reset=10      -> b:settled
        10     levels                              -> requests=4
    "

    windows_that_end_elsewhere_are_known_exactly_soon_after_the_origin_of_time(fixed(60_000)): "
        0      reserve a                           -> a@0
        0      answered a 200 left=9 reset=10000   -> a:settled
        61000  reserve b                           -> b@61000
        61000  reserve c                           -> c@61000
        61000  reserve d requests=5                -> d@61000
        # The window began at 50 000.
        61000  answered b 200 left=3 reset=49000   -> b:settled
        61000  answered c 200 left=3 reset=49000   -> c:settled
        61000  answered d 200 left=3 reset=49000   -> d:settled
        61000  reserve e requests=4                -> e@110000
    "

    an_answer_of_a_shorter_limit_holds_calls_until_that_is_reset(
        resource(vec![counted(Algorithm::FixedWindow(Alignment::Epoch), limit("requests", 1000.0, span(86_400_000)))])
    ): "
        0      reserve a                                   -> a@0
        0      answered a 200 left=0 of=60 reset=30000     -> a:settled
        0      why next                                    -> requests:stock+86400000
        0      wait b                                      ->
        # The upstream counts anew; one call asks what it says then.
        30000                                              -> b@30000
        30000  answered b 200 left=59 of=60 reset=60000    -> b:settled
        30000  levels                                      -> requests=59
    "

    /// Two answers tell the end of a window more exactly than the interval that cuts windows.
    usage_of_a_window_stays_in_it_when_a_successor_goes_on(fixed(60_000)): "
        10000  reserve a                                    -> a@10000
        10100  answered a 200 left=9 reset=19000 grain=1000 -> a:settled
        11000  reserve b                                    -> b@11000
        11100  answered b 200 left=8 reset=17800 grain=1000 -> b:settled
        12000  restart                                      ->
        12000  levels                                       -> requests=8
        12000  reserve c requests=10                        -> c@30100
    "
}

#[test]
fn the_next_answer_renews_what_others_use_unless_it_tells_much_less() {
    for (left, level) in [("2", "2"), ("8", "8")] {
        play(
            &fixed(600_000),
            &format!(
                "
                0       reserve a                   -> a@0
                0       answered a 200 left=3       -> a:settled
                30000   reserve b                   -> b@30000
                30000   answered b 200 left={left}  -> b:settled
                60000   levels                      -> requests={level}
                90000   levels                      -> requests=8
                "
            ),
        );
    }
}

#[test]
fn three_answers_in_a_row_contradict_when_windows_end() {
    let twice = "
        0      reserve a                            -> a@0
        0      answered a 200 left=9 reset=30000    -> a:settled
        70000  reserve b                            -> b@70000
        70000  reserve c                            -> c@70000
        70000  reserve d                            -> d@70000
        70000  reserve e                            -> e@70000
        70000  reserve f                            -> f@70000
        70000  answered b 200 left=7 reset=50000    -> b:settled
        70000  answered c 200 left=7 reset=50000    -> c:settled
        ";
    // An answer that agrees with what is known refutes both.
    let refuted = "
        70000  answered d 200 left=7 reset=20000    -> d:settled
        70000  answered e 200 left=5 reset=50000    -> e:settled
        70000  reserve g requests=5                 -> g@70000
        70000  reserve h                            -> h@90000
        ";
    // In the same period, nothing moves them once more.
    let repeated = "
        70000  answered d 200 left=5 reset=50000    -> d:settled
        70000  reserve g requests=2                 -> g@70000
        70000  answered e 200 left=3 reset=20000    -> e:settled
        70000  answered f 200 left=3 reset=20000    -> f:settled
        70000  answered g 200 left=3 reset=20000    -> g:settled
        70000  reserve h requests=3                 -> h@70000
        70000  reserve i                            -> i@120000
        ";
    for after in [refuted, repeated] {
        play(&fixed(60_000), &format!("{twice}{after}"));
    }
}

#[test]
fn a_successor_knows_when_windows_end_and_learns_what_others_use() {
    let script = "
        10000  reserve a KEY                        -> a@10000
        10000  answered a 200 left=4 reset=20000    -> a:settled
        11000  restart                              ->
        11000  levels                               -> requests=9
        11000  reserve b KEY                        -> b@11000
        11000  answered b 200 left=3 reset=19000    -> b:settled
        11000  levels                               -> requests=3
        11000  reserve c requests=4 KEY             -> c@30000
        ";
    for (spec, key) in [(fixed(60_000), ""), (by_guild(fixed(60_000).limits.remove(0)), "guild:x")] {
        play(&spec, &script.replace("KEY", key));
    }
}

#[test]
fn usage_by_others_is_held_back_in_the_next_window() {
    let mut world = play(
        &fixed(60_000),
        "
        10000  reserve a                            -> a@10000
        # Others have used five.
        10000  answered a 200 left=4 reset=20000    -> a:settled
        30000  reserve b requests=5                 -> b@30000
        30000  reserve x                            -> x@42000.000012
        30000  reserve y                            -> y@54000.000023
        30000  unused x                             -> x:settled
        30000  unused y                             -> y:settled
        # They have not come yet.
        30000  answered b 200 left=5 reset=60000    -> b:settled
        ",
    );
    let reported = world.scheduler.limit_status(ms(30_000))[0].reported.unwrap();
    assert_eq!((reported.others, reported.held_back), (0.0, 5.0));
    play_on(
        world,
        "
        30000  levels                               -> requests=5
        30000  reserve c                            -> c@42000.000012
        30000  reserve d requests=4                 -> d@90000
        90000  levels                               -> requests=6
        90000  reserve e                            -> e@90000
        ",
    );
}

/// The amount is from before b, or from after it.
#[test]
fn own_calls_on_their_way_are_not_expected_as_usage_by_others() {
    play(
        &fixed(60_000),
        "
        10000  reserve first                        -> first@10000
        10000  answered first 200 left=9            -> first:settled
        11000  reserve a                            -> a@11000
        11050  reserve b requests=4                 -> b@11050
        11100  answered a 200 left=4                -> a:settled
        60000  reserve c requests=6                 -> c@60000
        60000  reserve d requests=4                 -> d@60000
        ",
    );
}

#[test]
fn a_limit_that_never_learns_holds_nothing_back() {
    let never = LimitSpec { learn: Learn::Never, ..ten_in(Algorithm::FixedWindow(Alignment::Epoch), 60_000) };
    let days = ten_in(Algorithm::FixedWindow(Alignment::Epoch), 86_400_000);
    for (spec, next) in [(never, 60_000), (days, 86_400_000)] {
        let script = "
            0      reserve a                            -> a@0
            0      answered a 200 left=4                -> a:settled
            NEXT   reserve b requests=10                -> b@NEXT
            ";
        play(&resource(vec![spec]), &script.replace("NEXT", &next.to_string()));
    }
}

/// The record is from 11 000 ms. Its reader knows only that it was written before 11 500 ms.
#[test]
fn a_successor_knows_the_end_of_a_window_as_exactly_as_the_time_of_the_record() {
    let mut world = play(
        &fixed(60_000),
        "
        10000  reserve a                            -> a@10000
        10100  answered a 200 left=4 reset=19900    -> a:settled
        ",
    );
    let left = world.scheduler.snapshot(ms(11_000), usize::MAX);
    play_on(
        World::restored(&fixed(60_000), ms(11_500), ms(11_500), &left),
        "
        11500  levels                               -> requests=9
        29399  reserve b                            -> b@29399
        29400  reserve c                            -> c@30500
        29400  reserve d requests=9                 -> d@30500
        ",
    );
}

#[test]
fn after_a_crash_windows_end_when_the_upstream_said_so() {
    let world = play(
        &fixed(60_000),
        "
        10000  reserve a                            -> a@10000
        10000  answered a 200 left=4 reset=20000    -> a:settled
        ",
    );
    let state = world.scheduler.fenced().checkpoint(ms(10_000)).unwrap().state;
    play_on(
        World::restored(&fixed(60_000), ms(10_000), ms(10_000), &state),
        "
        29999  reserve b requests=10                -> b@30000
        30000  levels                               -> requests=0
        ",
    );
}
