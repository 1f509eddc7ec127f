//! A worker's report on the upstream counts for the limits of its own call. On one client's report,
//! calls pause for a minute at most.

#![expect(clippy::print_stdout, reason = "figures, shown with --nocapture")]

use crate::prelude::*;

scripts! {
    after_a_minute_one_probe_call_decides_on_a_longer_pause(ten_per_second()): "
        0       wait a                               -> a@0
        0       wait late                            -> late@0
        0       answered a 429 after=3600000 others  -> a:settled
        0       why next                             -> requests:frozen+60000
        0       wait b                               ->
        0       wait c                               ->
        # A call that started before says the same, and is not the probe.
        100     answered late 429 after=3600000 others -> late:settled
        100     why next                             -> requests:frozen+60000
        60100                                        -> b@60100
        60100   answered b 429 after=3540000 others  -> b:settled
        60100   why next                             -> requests:frozen+3540000
        3600100                                      -> c@3600100
    "

    a_probe_call_decides_on_the_pause_of_its_key(
        resource(vec![by("guild", limit("requests", 10.0, span(1000)))])
    ): "
        0      wait a guild:x                       -> a@0
        0      wait c guild:y                       -> c@0
        0      answered a 429 after=3600000 others  -> a:settled
        0      answered c 429 after=3600000 others  -> c:settled
        0      wait b guild:x                       ->
        60000                                       -> b@60000
        60000  answered b 429 after=3540000 others  -> b:settled
        60000  reserve e guild:x                    -> e@3600000
        60000  reserve f guild:y                    -> f@60000
    "

    /// Otherwise a long pause would become a debt that the refill pays for an hour.
    a_level_is_corrected_by_as_much_of_a_pause_as_is_believed(ten_per_second()): "
        0      wait a                        -> a@0
        0      answered a 429 after=3600000  -> a:settled
        0      levels                        -> requests=-599
    "

    a_served_probe_refutes_a_claim(ten_per_second()): "
        0      wait a                               -> a@0
        0      answered a 429 after=3600000 others  -> a:settled
        0      wait b                               ->
        60000                                       -> b@60000
        60000  answered b 200                       -> b:settled
        60000  wait c                               -> c@60000
        60000  answered c 429 after=3600000 others  -> c:settled
        60000  why next                             -> requests:frozen+60000
    "

    an_answer_speaks_of_the_limits_that_its_call_was_charged_to(two_limits()): "
        0  wait a                               -> a@0
        0  wait b                               -> b@0
        # No level of another limit, and no pause of it.
        0  answered a 200 limit=units left=3    -> a:settled
        0  levels                               -> requests=8 units=100
        0  answered b 429 limit=units after=5000 others  -> b:settled
        0  reserve c requests=0 units=1         -> c@0
        0  reserve d                            -> d@0
    "

    without_a_quota_a_limit_is_paused_for_a_minute(two_limits()): "
        0  wait a                         -> a@0
        0  answered a 403 after=99999999  -> a:settled
        0  reserve b                      -> b@60000
    "

    /// The call takes from the limit of requests as well.
    only_a_quota_is_spent(with_quota()): "
        0  wait a units=1                 -> a@0
        0  answered a 403 after=99999999  -> a:settled
        0  reserve b units=1              -> b:quota_spent+60000
        0  reserve c                      -> c@0
    "

    a_probe_call_decides_whether_a_quota_is_spent(with_quota()): "
        0      wait a units=1                    -> a@0
        0      answered a 403 after=99999999     -> a:settled
        60000  wait b units=1                    -> b@60000
        # One probe goes first.
        60000  wait c units=1                    ->
        60000  answered b 403 after=99939999     -> b:settled c:quota_spent+99939999
    "

    an_operator_ends_what_the_upstream_is_said_to_demand(with_quota()): "
        0  wait a units=1                     -> a@0
        0  wait b                             -> b@0
        0  answered a 403 after=99999999      -> a:settled
        0  answered b 429 after=3600000 others  -> b:settled
        0  reserve d                          -> d@60000
        0  unused d                           -> d:settled
        0  thaw requests                      ->
        0  reserve e                          -> e@0
        0  reserve f units=1                  -> f:quota_spent+60000
        0  thaw all                           ->
        0  reserve g units=1                  -> g@0
    "

    a_thaw_lets_waiting_requests_start_even_those_of_keys(
        [ten_per_second(), resource(vec![by("guild", limit("requests", 10.0, span(1000)))])]
    ): "
        0   wait a guild:x                     -> a@0
        0   answered a 429 after=30000 others  -> a:settled
        0   wait b guild:x                     ->
        0   wait c guild:x                     ->
        10  thaw requests                      -> b@10 c@10
    "

    an_operator_takes_the_stock_of_any_limit(with_quota()): "
        0    empty units            ->
        0    levels                 -> requests=10 units=0
        0    allow a units=1        -> a:quota_spent
        0    allow b                -> b@0
        0    empty requests         ->
        0    reserve c              -> c@100
    "
}

/// Epochs that clients name take no stock, and neither does a higher epoch in the store. Only a
/// store without a record shows that limits with short periods may have been used.
#[test]
fn another_epoch_takes_no_stock_and_another_store_that_of_short_limits() {
    for (event, levels) in [
        (Event::HigherEpochNamed, "requests=10 units=100"),
        (Event::EpochConfirmed(Epoch::new(9)), "requests=10 units=100"),
        (Event::StoreReplaced { epoch: Epoch::new(9) }, "requests=0 units=100"),
    ] {
        let mut world = World::new(&with_quota());
        let epoch = if matches!(event, Event::HigherEpochNamed) { 1 } else { 9 };
        world.handle(Time::ORIGIN, event);
        assert_eq!(world.scheduler.epoch(), Epoch::new(epoch));
        play_on(world, &format!("0 levels -> {levels}"));
    }
}

/// An honest client always calls. Another client calls once a second and says that it was rejected.
#[test]
fn a_worker_that_lies_slows_the_others_down_to_the_floor_and_stops_them_for_a_minute() {
    // The pause of the lie, the floor, and the shares of the honest client's calls.
    for (lie, floor, shares) in [
        (Some(100), 0.1, 0.09..=0.2),
        (Some(100), 0.5, 0.4..=0.6),
        (None, 0.1, 0.0..=0.5),
        (Some(3_600_000), 0.1, 0.0..=0.05),
    ] {
        let limit = LimitSpec { learn: Learn::Above(floor), ..limit("requests", 10.0, span(1000)) };
        let mut world = World::new(&resource(vec![limit]));
        let (mut served, mut learned) = (0, 1.0_f64);
        for tenth in 0..6_000 {
            let now = Time::ORIGIN + span(100 * tenth);
            world.run_until(now);
            let (liar, honest) = (format!("liar-{tenth}"), format!("honest-{tenth}"));
            if tenth % 10 == 0 {
                settle_now(&mut world, now, &liar, limited(lie));
            }
            served += u32::from(settle_now(&mut world, now, &honest, Verdict::Passed));
            learned = learned.min(rate(&mut world, now));
        }
        let share = f64::from(served) / 6_000.0;
        println!("lies of {lie:?} ms: {share:.3} of the calls, a rate of {learned:.2}");
        assert!(shares.contains(&share), "{lie:?}: {share}");
        assert!(learned >= 0.99 * floor, "{lie:?}: {learned} is below the floor");
        // What is left, and what is paused, is known to a successor; a lesson is learned again.
        let mut successor = play_on(world, "600000 restart ->");
        assert_eq!(rate(&mut successor, ms(600_000)), 1.0, "{lie:?}");
    }
}

/// The rate in use, as a share of the written one.
fn rate(world: &mut World, now: Time) -> f64 {
    world.scheduler.limit_status(now)[0].learned.map_or(1.0, |learned| learned.rate)
}

/// Calls if that is possible now, and settles. Returns whether there was a call.
fn settle_now(world: &mut World, now: Time, id: &str, verdict: Verdict) -> bool {
    let asked = wish(Mode::Allow, &[]).named(id);
    let request = world.ask(now, &asked);
    let granted = world.start(request).is_some();
    if granted {
        world.settle_answered(now, id, said(verdict));
    }
    granted
}

scripts! {
    /// The word of one user counts a minute, and twice as long each time that it is repeated.
    one_user_alone_stops_no_limit_for_long(ten_per_second()): "
        0       wait a user=x                        -> a@0
        0       wait late user=x                     -> late@0
        0       answered a 429 after=3600000 others  -> a:settled
        0       answered late 429 after=3600000 others -> late:settled
        0       wait b user=x                        ->
        60000                                        -> b@60000
        60000   answered b 429 after=3600000 others  -> b:settled
        60000   wait c user=x                        ->
        60000   why next                             -> requests:frozen+120000
        180000                                       -> c@180000
        180000  answered c 429 after=3600000 others  -> c:settled
        180000  wait d user=y                        ->
        180000  why next                             -> requests:frozen+240000
        420000                                       -> d@420000
        420000  answered d 200                       -> d:settled
        420000  wait e user=x                        -> e@420000
        420000  answered e 429 after=3600000 others  -> e:settled
        420000  reserve f user=x                     -> f@480000
    "

    /// What another user said is confirmed, and no more than that.
    a_probe_of_another_user_confirms_what_was_said(ten_per_second()): "
        0       wait a user=x                        -> a@0
        0       answered a 429 after=600000 others   -> a:settled
        0       wait b user=y                        ->
        60000                                        -> b@60000
        60000   answered b 429 after=3600000 others  -> b:settled
        60000   reserve c user=x                     -> c@600000
        600000  answered c 429 after=99999999 others -> c:settled
        600000  reserve d user=z                     -> d@3660000
    "

    one_user_alone_spends_no_quota_for_long(with_quota()): "
        0      wait a units=1 user=x             -> a@0
        0      answered a 403 after=99999999     -> a:settled
        60000  wait b units=1 user=x             -> b@60000
        60000  answered b 403 after=99939999     -> b:settled
        60000  reserve c units=1 user=y          -> c:quota_spent+120000
        180000 wait d units=1 user=y             -> d@180000
        180000 answered d 403 after=99999999     -> d:settled
        180000 reserve e units=1 user=x          -> e:quota_spent+99819999
    "

    /// The other calls of a burst are answered late. They started before the pause, and probe nothing.
    only_a_rejected_probe_doubles_a_pause(ten_per_second()): "
        0     reserve a       -> a@0
        0     reserve b       -> b@0
        0     reserve c       -> c@0
        100   answered a 429  -> a:settled
        1150  answered b 429  -> b:settled
        1150  why next        -> requests:frozen+1000
        1150  wait d          ->
        2150                  -> d@2150
        2160  answered c 429  -> c:settled
        2160  why next        -> requests:frozen+1000
        2170  answered d 429  -> d:settled
        3160  wait e          -> e@3160
        3170  answered e 429  -> e:settled
        3170  why next        -> requests:frozen+2000
    "

    a_late_answer_shortens_no_confirmed_time_of_a_spent_quota(with_quota()): "
        0      wait a units=1                 -> a@0
        0      wait b units=1                 -> b@0
        0      answered a 403 after=3600000   -> a:settled
        60000  wait c units=1                 -> c@60000
        60000  answered c 403 after=3540000   -> c:settled
        60001  answered b 403 after=3539999   -> b:settled
        60001  reserve d units=1              -> d:quota_spent+3539999
    "
}

/// A hundred units a day, and requests by the second.
fn by_the_day() -> ResourceSpec {
    let algorithm = Algorithm::Quota(Some(Alignment::Epoch));
    let quota = counted(algorithm, limit("units", 100.0, span(86_400_000)));
    resource(vec![limit("requests", 10.0, span(1000)), quota])
}

scripts! {
    /// The quota ends at 86 400 s. Nobody waits for that, and one probe call asks after a minute.
    a_quota_that_is_said_to_be_spent_is_reset_by_its_calendar(by_the_day()): "
        1000     wait a units=1                    -> a@1000
        1000     answered a 403                    -> a:settled
        1000     wait b units=1                    -> b:quota_spent+86399000
        61000    wait c units=1                    -> c@61000
        61000    wait d units=1                    ->
        61000    answered c 403                    -> c:settled d:quota_spent+86339000
        # The upstream told no reset: it is asked once an hour.
        3661000  wait e units=1                    -> e@3661000
        3661000  answered e 200                    -> e:settled
        3661000  wait f units=1                    -> f@3661000
        # What it tells counts, if that is before midnight.
        3661000  answered f 403 after=7200000      -> f:settled
        3661000  wait g units=1                    -> g:quota_spent+7200000
        3721000  wait h units=1                    -> h@3721000
        3721000  answered h 403 after=999999999    -> h:settled
        3721000  wait i units=1                    -> i:quota_spent+999999999
    "
}
