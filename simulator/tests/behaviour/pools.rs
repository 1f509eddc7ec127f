//! Pools of accounts in random worlds.

use crate::prelude::*;
use crate::random_worlds;
use rampmeter_policy::spec::{AccountSpec, Weight};
use rampmeter_protocol::labels::ACCOUNT;
use rampmeter_protocol::name::Name;
use rampmeter_simulator::incident::Incident;
use rampmeter_simulator::upstream::Outage;

/// A seed of its own, so that worlds without pools do not change.
const OWN: u64 = 0x0ACC_0047;

/// A pool's upstream, and what befalls its accounts.
#[derive(Default)]
pub(crate) struct Pool {
    upstream: Option<Behaviour>,
    drains: Vec<(Time, Incident)>,
    /// The account that may get a 429: it has an outage, or is smaller than the file says.
    pub(crate) troubled: Option<usize>,
}

/// Gives a quarter of all worlds a pool of accounts.
pub(crate) fn vary(seed: u64, resource: &mut ResourceSpec, fleets: &mut [Fleet]) -> Pool {
    let dice = &mut Rng::new(seed ^ OWN);
    if dice.number(0, 3) > 0 {
        return Pool::default();
    }
    resource.accounts = accounts(dice, &resource.classes);
    for (number, limit) in resource.limits.iter_mut().enumerate() {
        if number == 0 || dice.number(0, 2) > 0 {
            limit.per_account = true;
            limit.applies = Applies::default();
        }
    }
    fleets.iter_mut().for_each(|fleet| name_account(dice, resource, fleet));
    let mut pool = Pool::default();
    match dice.number(0, 7) {
        0 => drop(grow(dice, resource)),
        1 => {
            // A rejected call fills leaky buckets, also those of all accounts.
            let before = resource.clone();
            let is_leaky = |limit: &LimitSpec| limit.algorithm == Algorithm::LeakyBucket && !limit.per_account;
            if !resource.limits.iter().any(is_leaky) {
                pool.troubled = Some(grow(dice, resource));
                pool.upstream = Some(enforcing(&before));
            }
        }
        2 => {
            let mut real = resource.clone();
            grow(dice, &mut real);
            pool.upstream = Some(enforcing(&real));
        }
        3 | 4 => {
            let account = any(dice, resource);
            let is_revoked = dice.number(0, 1) == 0;
            pool.troubled = Some(account).filter(|_| !is_revoked);
            let retry_after = [RetryAfter::Milliseconds, RetryAfter::Missing][dice.number(0, 1) as usize];
            let outages = vec![outage(dice, resource.accounts[account].name.clone(), is_revoked)];
            pool.upstream = Some(Behaviour { outages, retry_after, ..Behaviour::default() });
        }
        _ => {}
    }
    if dice.number(0, 2) == 0 {
        let account = resource.accounts[any(dice, resource)].name.clone();
        let (at, span) = (dice.number(0, 10_000), dice.number(10, 10_000));
        pool.drains = vec![(Time::ORIGIN + Span::from_millis(at), Incident::Drain(account, Span::from_millis(span)))];
    }
    pool
}

impl Pool {
    /// Puts the pool into a world that has its resource.
    pub(crate) fn in_world(&self, world: World) -> World {
        let world = self.upstream.iter().cloned().fold(world, World::against);
        self.drains.iter().cloned().fold(world, |world, (at, drain)| world.with_incident(at, drain))
    }

    /// Judges a world in which an account may get a 429, by the rules for all the others.
    pub(crate) fn judge(&self, world: &World, outcome: &Outcome, with_turns: bool) -> Result<(), Violation> {
        if with_turns {
            judge_grants(world, outcome)?;
        }
        let mut without = outcome.clone();
        for fleet in &mut without.fleets {
            fleet.calls.retain(|call| call.ok || call.account != self.troubled);
        }
        judge_calls(world, &without)
    }
}

fn any(dice: &mut Rng, resource: &ResourceSpec) -> usize {
    dice.number(0, resource.accounts.len() as u64 - 1) as usize
}

/// Two to four accounts, of which the first serves all classes.
fn accounts(dice: &mut Rng, classes: &[ClassSpec]) -> Vec<AccountSpec> {
    let mut account = |number: u64| {
        let classes = classes.iter().filter(|_| number > 0 && dice.number(0, 3) == 0);
        AccountSpec {
            classes: classes.map(|class| class.name.clone()).collect(),
            weight: Weight::new(dice.number(1, 40) as f64 / 10.0).unwrap(),
            ..AccountSpec::new(name(&format!("{ACCOUNT}-{number}")))
        }
    };
    let accounts = [0, 1, 2, 3].map(&mut account);
    accounts[..dice.number(2, 4) as usize].to_vec()
}

/// Lets the requests of some fleets name an account that serves their class.
fn name_account(dice: &mut Rng, resource: &ResourceSpec, fleet: &mut Fleet) {
    let serves = |account: &&AccountSpec| {
        account.classes.is_empty() || account.classes.iter().any(|class| Some(&**class) == fleet.class.as_deref())
    };
    let serving: Vec<&AccountSpec> = resource.accounts.iter().filter(serves).collect();
    let one = &serving[dice.number(0, serving.len() as u64 - 1) as usize].name;
    let label = match dice.number(0, 7) {
        0 => Values::One(one.to_string()),
        1 if serving.len() == resource.accounts.len() => {
            Values::Of { of: NonZeroU32::new(serving.len() as u32).unwrap() }
        }
        _ => return,
    };
    fleet.labels.insert(ACCOUNT.to_owned(), label);
}

/// Gives an account more of a limit than the others have.
fn grow(dice: &mut Rng, resource: &mut ResourceSpec) -> usize {
    let account = any(dice, resource);
    let common = &mut resource.limits[0];
    common.applies.group = Some(name("size"));
    let matching = [(ACCOUNT.to_owned(), Pattern::Exact(resource.accounts[account].name.to_string()))].into();
    let capacity = Amount::from_micros(common.capacity.micros() / 10 * dice.number(11, 30)).unwrap();
    let applies = Applies { matching, ..common.applies.clone() };
    let own = LimitSpec { name: name("larger"), capacity, applies, per_account: false, ..common.clone() };
    resource.limits.insert(0, own);
    account
}

fn enforcing(real: &ResourceSpec) -> Behaviour {
    Behaviour { preset: Some(Behaviour::default().preset(real).unwrap()), ..Behaviour::default() }
}

fn outage(dice: &mut Rng, account: Name, is_revoked: bool) -> Outage {
    let from = Time::ORIGIN + Span::from_millis(dice.number(0, 10_000));
    Outage { account, from, until: from + Span::from_millis(dice.number(100, 20_000)), is_revoked }
}

/// Worlds of which only those with a pool are looked at.
const SEEDS: Range<u64> = 9_000..10_000;

fn fault(seed: u64) -> Option<String> {
    let is_pool = !random_worlds::world(seed).resource.accounts.is_empty();
    is_pool.then(|| random_worlds::fault(seed)).flatten()
}

#[test]
fn no_world_with_a_pool_shows_a_violation() {
    random_worlds::look_at("pools", SEEDS, fault);
}

/// Ten a second for each of two accounts, the second of which serves bulk alone.
fn small(label: Option<&str>) -> World {
    let second = AccountSpec { classes: vec![name("bulk")], ..AccountSpec::new(name("account-1")) };
    let resource = ResourceSpec {
        classes: vec![ClassSpec::new(name("urgent")), ClassSpec::new(name("bulk"))],
        accounts: vec![AccountSpec::new(name("account-0")), second],
        ..shared(vec![LimitSpec { per_account: true, ..limit("requests", 10.0, Span::from_secs(1)) }])
    };
    let urgent = Fleet { calls: Some(4), ..Fleet::new("urgent", 2) }.of_class("urgent");
    let labels = label.map(|account| (ACCOUNT.to_owned(), Values::One(account.to_owned())));
    let bulk = Fleet { calls: Some(5), labels: labels.into_iter().collect(), ..Fleet::new("bulk", 10) };
    World::new(resource, 2).with(urgent).with(bulk.of_class("bulk"))
}

/// The first request that was granted to the second account.
fn of_second(outcome: &mut Outcome) -> &mut Request {
    let is_of_second = |request: &&mut Request| request.granted.unwrap().account == Some(1);
    outcome.requests.iter_mut().find(is_of_second).unwrap()
}

#[test]
fn a_call_of_a_wrong_account_is_found() {
    let right = small(None).run().unwrap();
    judge(&small(None), &right).unwrap();
    let found = |world: &World, tamper: &dyn Fn(&mut Outcome)| {
        let mut outcome = right.clone();
        tamper(&mut outcome);
        judge(world, &outcome).map_or_else(|found| found.to_string(), |()| String::new())
    };
    let drained = small(None).with_incident(Time::ORIGIN, Incident::Drain(name("account-1"), Span::from_secs(60)));
    let urgent = right.requests.iter().map(|request| request.class).min().unwrap();
    let all_at_first = |outcome: &mut Outcome| {
        outcome.fleets.iter_mut().flat_map(|fleet| &mut fleet.calls).for_each(|call| call.account = Some(0));
    };
    let by_other = |outcome: &mut Outcome| {
        let calls = &mut outcome.fleets[1].calls;
        calls.truncate(1);
        calls[0].account = calls[0].account.map(|account| 1 - account);
    };
    type Case<'a> = (World, &'a dyn Fn(&mut Outcome), &'static str);
    #[rustfmt::skip]
    let table: [Case<'_>; 6] = [
        (small(None),              &all_at_first,                                          "limit `requests-of-account-0`: calls take"),
        (small(None),              &by_other,                                              "but was granted another"),
        (small(None),              &|outcome| of_second(outcome).class = urgent,           "which does not serve its class"),
        (small(None),              &|outcome| of_second(outcome).not = vec![name("account-1")], "which the request excludes"),
        (small(Some("account-0")), &|_| (),                                                "though the request names another"),
        (drained,                  &|_| (),                                                "which is drained"),
    ];
    for (world, tamper, violation) in table {
        let found = found(&world, tamper);
        assert!(found.contains(violation), "{found}, not {violation}");
    }
}

#[test]
fn calls_of_a_revoked_account_go_to_the_other() {
    let until = secs(60);
    let outages = vec![Outage { account: name("account-1"), from: Time::ORIGIN, until, is_revoked: true }];
    let world = small(None).against(Behaviour { outages, ..Behaviour::default() });
    let outcome = world.run().unwrap();
    judge(&world, &outcome).unwrap();
    assert!(outcome.fleets[1].unauthorized > 0 && outcome.finished() < Span::from_secs(20));
    assert!(outcome.fleets[1].calls.iter().all(|call| call.account == Some(0)));
}

const TEN_MINUTES: u64 = 600;

/// Limits for urgent work and for bulk.
fn of_two_classes(limits: Vec<LimitSpec>, accounts: &[&str]) -> ResourceSpec {
    let classes = [ClassSpec::new(name("urgent")), ClassSpec { headroom: 0.1, ..ClassSpec::new(name("bulk")) }];
    let accounts = accounts.iter().map(|account| AccountSpec::new(name(account))).collect();
    ResourceSpec { accounts, classes: classes.to_vec(), ..ResourceSpec::new(name("api"), limits) }
}

/// 200 workers: urgent work arrives at random, and bulk takes all that is left.
fn two_hundred(resource: ResourceSpec, seconds: u64) -> World {
    let until = secs(seconds);
    let urgent = Fleet { arrivals: Arrivals::Poisson { per_second: 5.0 }, until, ..Fleet::new("urgent", 20) };
    let bulk = Fleet { until, ..Fleet::new("bulk", 180) };
    World::new(resource, 1).until(until).with(urgent.of_class("urgent")).with(bulk.of_class("bulk"))
}

fn at_account(account: &str, limit: LimitSpec) -> LimitSpec {
    let matching = [(ACCOUNT.to_owned(), Pattern::Exact(account.to_owned()))].into();
    let name = name(&format!("{}-at-{account}", limit.name));
    LimitSpec { name, applies: Applies { matching, ..Applies::default() }, ..limit }
}

/// The waits of urgent calls, ascending.
fn urgent_waits(outcome: &Outcome) -> Vec<Span> {
    let mut waits: Vec<Span> = outcome.fleets[0].calls.iter().filter(|call| call.ok).map(|call| call.wait).collect();
    waits.sort();
    waits
}

/// An account pauses for half a minute, one is revoked for a minute, one is five times smaller than
/// the file says, and one has spent its quota after a while. Only the first three can reject calls: a
/// few, until their state is known.
#[test]
fn accounts_in_trouble_are_made_up_for_by_the_others() {
    let rate =
        |account: &str, per_second: f64| at_account(account, limit("requests", 10.0 * per_second, Span::from_secs(10)));
    let quota = LimitSpec {
        name: name("quota"),
        algorithm: Algorithm::Quota(None),
        ..limit("requests", 1_500.0, Span::from_secs(10))
    };
    let with = |smallest: f64| {
        let of_spent = [rate("spent", 10.0), at_account("spent", quota.clone())];
        [rate("large", 30.0), rate("middle", 20.0), rate("small", smallest)].into_iter().chain(of_spent).collect()
    };
    let resource = |smallest| of_two_classes(with(smallest), &["large", "middle", "small", "spent"]);
    let outage = |account: &str, from, until, is_revoked| Outage { account: name(account), from, until, is_revoked };
    let outages = vec![outage("large", secs(120), secs(150), false), outage("middle", secs(300), secs(360), true)];
    let upstream = Behaviour { outages, ..enforcing(&resource(2.0)) };
    let outcome = two_hundred(resource(10.0), TEN_MINUTES).against(upstream).run().unwrap();
    let calls: Vec<&Call> =
        outcome.fleets.iter().flat_map(|fleet| &fleet.calls).filter(|call| call.at < secs(TEN_MINUTES)).collect();
    let rejected = calls.iter().filter(|call| !call.ok).count();
    let served = calls.len() - rejected;
    let seconds = TEN_MINUTES as f64;
    let available = 30.0 * (seconds - 30.0) + 20.0 * (seconds - 60.0) + 2.0 * seconds + 1_500.0;
    let used = 100.0 * served as f64 / available;
    let one = of_two_classes(vec![limit("requests", 520.0, Span::from_secs(10))], &[]);
    let single = two_hundred(one, 100).run().unwrap();
    let [urgent, of_one] = [&outcome, &single].map(|outcome| {
        let waits = urgent_waits(outcome);
        waits[waits.len() * 99 / 100]
    });
    println!("{served} served, {used:.1} % of what is available; {rejected} rejected, {:?}", outcome.causes);
    println!("the wait of urgent calls: p99 {urgent}, with one account as large {of_one}");
    assert!(used >= 97.0 && rejected * 200 < served, "{used} and {rejected}");
    assert!(urgent <= of_one + Span::from_millis(100), "{urgent} and {of_one}");
}
