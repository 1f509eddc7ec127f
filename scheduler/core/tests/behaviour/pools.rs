//! Several accounts serve the requests of one queue.

use crate::prelude::*;
use proptest::prelude::*;
use rampmeter_policy::spec::{AccountSpec, MAX_ACCOUNTS, Pattern, Weight};

/// `spec` with these accounts, each of which has every limit.
fn pooled(mut spec: ResourceSpec, accounts: &[&str]) -> ResourceSpec {
    spec.accounts = accounts.iter().map(|account| AccountSpec::new(name(account))).collect();
    spec.limits.iter_mut().for_each(|limit| limit.per_account = true);
    spec
}

fn pool() -> ResourceSpec {
    pooled(ten_per_second(), &["x", "y"])
}

/// A pool whose accounts together have a limit of 12 in ten seconds.
fn under_a_shared_limit() -> ResourceSpec {
    let mut spec = pool();
    spec.limits.push(LimitSpec { name: name("all"), ..limit("requests", 12.0, span(10_000)) });
    spec
}

/// A pool whose account `y` serves bulk alone, and counts three times.
fn with_a_bulk_account() -> ResourceSpec {
    let mut spec = with_bulk(pool(), 0.0);
    spec.accounts[1].classes = vec![name("bulk")];
    spec.accounts[1].weight = Weight::new(3.0).unwrap();
    spec
}

/// A pool with a class `bulk` that starves after 200 ms.
fn starving() -> ResourceSpec {
    let mut spec = with_bulk(pool(), 0.0);
    spec.classes[1].max_starvation = Some(span(200));
    spec
}

/// A pool whose account `x` has a smaller limit of its own.
fn with_a_small_account() -> ResourceSpec {
    let mut spec = pool();
    spec.limits[0].applies.group = Some(name("size"));
    let matching = [("account".to_owned(), Pattern::Exact("x".to_owned()))].into();
    let applies = Applies { matching, group: Some(name("size")), ..Applies::default() };
    spec.limits.insert(0, LimitSpec { name: name("few"), applies, ..limit("requests", 5.0, span(1000)) });
    spec
}

/// The pool with five requests a second at each account.
fn fewer() -> ResourceSpec {
    let mut spec = pool();
    spec.limits[0].capacity = amount(5.0);
    spec
}

/// Reaches `spec::MAX_ACCOUNTS`.
#[test]
fn a_pool_has_a_bounded_number_of_accounts() {
    let names: Vec<String> = (0..=MAX_ACCOUNTS).map(|number| format!("a{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(Resource::faults(&pooled(ten_per_second(), &names[..MAX_ACCOUNTS])), []);
    let faults = Resource::faults(&pooled(ten_per_second(), &names));
    assert_eq!(faults[0].to_string(), "a resource has at most 16 accounts, not 17");
    let keyed = pooled(resource(vec![by("account", limit("requests", 10.0, span(1000)))]), &["x"]);
    assert!(Resource::faults(&keyed)[0].to_string().starts_with("accounts are no key"));
}

/// Each account has ten a second for each model.
fn by_model() -> ResourceSpec {
    pooled(resource(vec![by("model", limit("requests", 10.0, span(1000)))]), &["x", "y"])
}

scripts! {
    the_account_with_the_most_stock_goes_first_and_equal_ones_take_turns(pool()): "
        0    reserve a requests=6  -> a@0/x
        0    reserve b requests=3  -> b@0/y
        0    reserve c requests=3  -> c@0/y
        # Four are left of each.
        0    reserve d requests=1  -> d@0/x
        0    reserve e requests=1  -> e@0/y
    "

    of_equal_accounts_the_one_that_was_chosen_before_the_others_goes_first(pool()): "
        0    reserve a account:y requests=10 -> a@0/y
        0    reserve b account:x requests=10 -> b@0/x
        500  reserve c requests=5            -> c@500/y
        500  reserve d requests=5            -> d@500/x
        1000 reserve e requests=5            -> e@1000/y
    "

    an_account_is_chosen_by_the_key_of_the_request(by_model()): "
        0    reserve a model:m requests=8    -> a@0/x
        0    reserve b model:m requests=8    -> b@0/y
        0    reserve c model:n requests=8    -> c@0/x
        # Two are left of each, and y was chosen less recently than x.
        0    reserve d model:m requests=2    -> d@0/y
        0    reserve e model:m requests=2    -> e@0/x
        0    reserve f model:n requests=9    -> f@0/y
    "

    a_request_with_a_key_gets_its_account_at_its_arrival(by_model()): "
        0    wait a model:m requests=10      -> a@0/x
        0    wait b model:m requests=10      -> b@0/y
        # One waits for each account, and the third behind the shorter queue.
        0    wait c model:m requests=4       ->
        0    wait d model:m requests=2       ->
        0    wait e model:m requests=2       ->
        0    wait f model:n                  -> f@0/x
        150                                  -> d@200/y
        350                                  -> c@400/x e@400/y
        # A drained account keeps those that were bound to it.
        400  reserve g model:n not=x         -> g@400/y
    "

    the_earliest_start_decides(pool()): "
        0    reserve a requests=10 -> a@0/x
        0    reserve b requests=8  -> b@0/y
        0    reserve c requests=4  -> c@200/y
        0    reserve d requests=4  -> d@400/x
    "

    a_request_may_name_its_account_or_exclude_some(pool()): "
        0    reserve a account:x requests=10 -> a@0/x
        0    reserve b account:x             -> b@100/x
        0    reserve c                       -> c@0/y
        0    reserve d not=y                 -> d@200/x
        0    reserve e not=x not=y           -> e:invalid_request
        0    reserve f account:z             -> f:invalid_request
    "

    waiting_requests_keep_their_order_over_all_accounts(pool()): "
        0    wait a requests=10 -> a@0/x
        0    wait b requests=10 -> b@0/y
        0    wait c requests=2  ->
        0    wait d requests=1  ->
        0    wait e requests=2  ->
        # The first request waits at one account, the second at the other.
        50                      -> d@100/y
        150                     -> c@200/x
        250                     -> e@300/y
    "

    a_pause_stops_one_account_alone(pool()): "
        0    wait a                    -> a@0/x
        0    answered a 429 after=5000 -> a:settled
        0    wait b requests=10        -> b@0/y
        0    wait c requests=5         ->
        450                            -> c@500/y
        500  wait d account:x within=9000 ->
        500  why d                     -> requests-of-x:frozen+4500
        5000                           -> d@5000/x
    "

    a_call_that_costs_nothing_avoids_an_account_that_rests(pool()): "
        0    freeze requests-of-x 60000         ->
        0    reserve a requests=0               -> a@0/y
        0    reserve b requests=0               -> b@0/y
        0    reserve c account:x requests=0     -> c@0/x
    "

    a_refusal_that_names_the_limit_is_of_the_account(pool()): "
        0    wait a                                   -> a@0/x
        0    answered a 429 limit=requests after=5000 -> a:settled
        0    reserve b account:y                      -> b@0/y
        0    reserve c account:x                      -> c@5000/x
    "

    a_refusal_that_names_one_limit_pauses_that_one_alone(pooled(two_limits(), &["x", "y"])): "
        0    wait a account:x units=1                 -> a@0/x
        0    answered a 429 limit=units after=1500    -> a:settled
        0    reserve b account:x                      -> b@0/x
        0    reserve c account:x units=1              -> c@1500/x
    "

    a_name_means_the_limit_that_an_account_has_in_place_of_the_common_one(with_a_small_account()): "
        0    wait a account:x                           -> a@0/x
        0    answered a 429 limit=requests after=1500   -> a:settled
        0    reserve b account:y                        -> b@0/y
        0    reserve c account:x                        -> c@1500/x
    "

    a_window_is_used_up_at_each_account(pooled(ten(Algorithm::FixedWindow(Alignment::Epoch)), &["x", "y"])): "
        100  wait a requests=5  -> a@100/x
        100  wait b requests=5  -> b@100/y
        100  wait c requests=8  ->
        100  wait d requests=8  ->
        100  wait e requests=3  -> e@100/x
        950                     -> c@1000/y d@1000/x
    "

    limits_above_the_accounts_count_for_all(under_a_shared_limit()): "
        0    wait a requests=8  -> a@0/x
        0    wait b requests=4  -> b@0/y
        0    wait c requests=3  ->
        0    why c              -> all:stock+2500
        2450                    -> c@2500/x
    "

    accounts_may_serve_some_classes_and_count_for_more(with_a_bulk_account()): "
        0    reserve a class=bulk requests=3   -> a@0/y
        0    reserve b class=bulk requests=2   -> b@0/y
        0    reserve c class=bulk requests=3   -> c@0/y
        0    reserve d class=bulk requests=2   -> d@0/x
        0    reserve e class=urgent requests=8 -> e@0/x
        0    reserve f class=urgent requests=1 -> f@100/x
        0    reserve g account:y               -> g:invalid_request
    "

    an_urgent_request_goes_first_at_each_account(with_bulk(pool(), 0.0)): "
        0    wait a requests=10           -> a@0/x
        0    wait b requests=10           -> b@0/y
        0    wait c class=bulk requests=1 ->
        0    wait d class=bulk requests=1 ->
        0    wait e requests=2            ->
        50                                -> c@100/y
        150                               -> e@200/x d@200/y
    "

    a_request_that_may_go_behind_held_ones_is_not_refused_for_a_paused_account(pool()): "
        0    wait a account:y           -> a@0/y
        0    freeze requests-of-x 60000 ->
        0    wait b requests=10         ->
        0    wait c within=500          ->
        50                              -> b@100/y
        150                             -> c@200/y
    "

    a_request_that_no_account_can_ever_pay_is_refused(pool()): "
        0    reserve a requests=11 -> a:never_fits
    "

    a_spent_quota_moves_all_requests_to_the_other_accounts(pooled(with_quota(), &["x", "y"])): "
        0    wait a units=1            -> a@0/x
        0    answered a 403 unit=units -> a:settled
        0    wait b units=100          -> b@0/y
        0    wait c units=1            -> c:quota_spent+60000
    "

    an_account_that_is_spent_for_a_while_is_not_chosen(pooled(with_quota(), &["x", "y"])): "
        0    wait a account:x units=1             -> a@0/x
        0    wait b account:y units=50            -> b@0/y
        0    answered a 403 unit=units after=30000 -> a:settled
        0    wait c units=10                      -> c@0/y
    "

    a_starving_request_goes_first_at_its_account(starving()): "
        0    wait a requests=10            -> a@0/x
        0    wait b requests=10            -> b@0/y
        0    wait c class=bulk requests=3  ->
        0    wait d requests=6             ->
        0    wait e requests=6             ->
        # Promoted, it takes what comes first, and the urgent ones go behind it.
        250                                -> c@300/x
        550                                -> d@600/y
        850                                -> e@900/x
    "

    a_successor_with_a_store_covers_a_large_request_of_a_pool(World::fenced(&pool(), Time::ORIGIN)): "
        0    checkpoint         ->
        10   wait a requests=9  ->
        20   checkpoint         -> a@20/x
        30   wait b requests=9  ->
        40   checkpoint         -> b@40/y
    "

    another_account_does_not_end_the_starvation_at_this_one(starving()): "
        0    wait a account:x requests=10 -> a@0/x
        10   wait c class=bulk account:x requests=1 ->
        10   wait d account:x requests=10 ->
        150  wait e class=bulk requests=1 -> e@150/y
        # It is promoted 200 ms after it came.
        210                               -> c@210/x
    "

    new_limits_charge_waiting_requests_at_each_account(pool(), "fewer": fewer()): "
        0    wait a requests=10   -> a@0/x
        0    wait b requests=10   -> b@0/y
        0    wait c not=x         ->
        0    limits fewer         ->
        150                       -> c@200/y
    "

    a_successor_knows_the_account_of_a_permit(pool()): "
        0    reserve a requests=10 -> a@0/x
        0    reserve b requests=10 -> b@0/y
        0    reserve c             -> c@100/x
        0    reserve d             -> d@100/y
        10   restart               ->
        10   reserve c             -> c@100/x
        10   reserve d             -> d@100/y
    "
}

/// Requests for a pool: the pause before each, its units, and whether it waits or reserves.
#[derive(Clone, Debug)]
struct Crowd {
    accounts: usize,
    /// Of each account, and of all together: the capacity, and the nanoseconds for a token.
    own: (u64, u64),
    shared: (u64, u64),
    requests: Vec<(u64, u64, bool)>,
}

fn crowd(waits: bool) -> impl Strategy<Value = Crowd> {
    let size = || (1..12_u64, 1..9_u64);
    (2..5_usize, size(), size()).prop_flat_map(move |(accounts, own, shared)| {
        let most = own.0.min(shared.0);
        let request = (0..15_u64, 1..=most, if waits { any::<bool>().boxed() } else { Just(false).boxed() });
        prop::collection::vec(request, 1..40).prop_map(move |requests| Crowd { accounts, own, shared, requests })
    })
}

impl Crowd {
    fn limits(&self) -> [LimitSpec; 2] {
        let of = |called: &str, (capacity, nanos): (u64, u64)| LimitSpec {
            name: name(called),
            ..limit("requests", capacity as f64, Span::from_nanos(capacity * nanos))
        };
        [of("own", self.own), of("shared", self.shared)]
    }

    fn spec(&self) -> ResourceSpec {
        let [own, shared] = self.limits();
        let mut spec = resource(vec![LimitSpec { per_account: true, ..own }, shared]);
        spec.accounts = (0..self.accounts).map(|number| AccountSpec::new(name(&format!("a{number}")))).collect();
        ResourceSpec { horizon: Span::from_nanos(3), ..spec }
    }
}

/// The starts that a crowd was promised, by account.
type Promised = Vec<Vec<(Time, Amount)>>;

/// Whether the judge finds enough at each account, and for all together.
fn fits(crowd: &Crowd, promised: &Promised) -> bool {
    let [own, shared] = crowd.limits();
    promised.iter().all(|calls| Judge::new(&own).lowest(calls) >= 0)
        && Judge::new(&shared).lowest(&promised.concat()) >= 0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// A reservation gets the first instant at which some account could make its call.
    #[test]
    fn no_reservation_of_a_pool_starts_earlier_or_later_than_it_could(crowd in crowd(false)) {
        let mut world = World::new(&crowd.spec());
        let (mut now, mut promised) = (Time::ORIGIN, vec![Vec::new(); crowd.accounts]);
        for (pause, units, _) in &crowd.requests {
            now += Span::from_nanos(*pause);
            world.run_until(now);
            let call = |at| (at, amount(*units as f64));
            let request = world.ask(now, &wish(Mode::Reserve, &[("requests", *units as f64)]));
            let with = |account: usize, at: Time| {
                let mut after = promised.clone();
                after[account].push(call(at));
                after
            };
            let instants = (now.nanos()..).map(Time::from_nanos);
            let first = { instants }.find(|at| (0..crowd.accounts).any(|account| fits(&crowd, &with(account, *at))));
            let account: usize = world.accounts[&request][1..].parse().unwrap();
            prop_assert_eq!(world.start(request), first, "asked at {} for {}", now, units);
            promised = with(account, first.unwrap());
            prop_assert!(fits(&crowd, &promised), "account {} has no room", account);
        }
    }

    /// Whoever waits is served, and no account is ever overdrawn, nor all together.
    #[test]
    fn every_request_of_a_pool_is_served_and_no_account_overdrawn(crowd in crowd(true)) {
        let mut world = World::new(&crowd.spec());
        let (mut now, mut asked) = (Time::ORIGIN, Vec::new());
        for (pause, units, waits) in &crowd.requests {
            now += Span::from_nanos(*pause);
            world.run_until(now);
            let mode = if *waits { Mode::Wait } else { Mode::Reserve };
            asked.push((world.ask(now, &wish(mode, &[("requests", *units as f64)])), amount(*units as f64)));
        }
        world.run_until(now + Span::from_nanos(100_000));
        let mut promised: Promised = vec![Vec::new(); crowd.accounts];
        for (request, units) in asked {
            let account: usize = world.accounts[&request][1..].parse().unwrap();
            promised[account].push((world.start(request).expect("it is served"), units));
        }
        prop_assert!(fits(&crowd, &promised), "{:?}", promised);
    }
}
