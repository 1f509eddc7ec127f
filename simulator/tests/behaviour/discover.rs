//! Limits are discovered by what the upstream answers.

use crate::prelude::*;

const TEN_MINUTES: u64 = 600;
/// The second from which on the limits have to be known.
const KNOWN: u64 = 60;

/// An account without written limits.
fn unwritten(route: Option<&str>, key: &[&str]) -> ResourceSpec {
    ResourceSpec {
        discover: Discover::All,
        discover_route: route.map(str::to_owned),
        discover_key: key.iter().map(|label| (*label).to_owned()).collect(),
        ..ResourceSpec::new(name("api"), Vec::new())
    }
}

fn preset(preset: &str) -> Behaviour {
    Behaviour { preset: Some(Preset::named(preset).unwrap()), ..Behaviour::default() }
}

fn labelled(mut fleet: Fleet, labels: &[(&str, Values)]) -> Fleet {
    fleet.labels.extend(labels.iter().map(|(label, values)| ((*label).to_owned(), values.clone())));
    fleet
}

fn one(value: &str) -> Values {
    Values::One(value.to_owned())
}

fn of(count: u32) -> Values {
    Values::Of { of: NonZeroU32::new(count).unwrap() }
}

fn answering(least: u64, most: u64) -> Network {
    let response = Delay { least: Span::from_millis(least), most: Span::from_millis(most) };
    Network { response, ..Network::default() }
}

fn world(resource: ResourceSpec) -> World {
    World::new(resource, 1).until(secs(TEN_MINUTES))
}

/// What served calls cost in this unit, from some time on.
fn served(outcome: &Outcome, unit: &str, from: Time) -> f64 {
    let calls = outcome.fleets.iter().flat_map(|fleet| &fleet.calls).filter(|call| call.ok && call.at >= from);
    calls.map(|call| call.cost.get(unit).map_or(1.0, |amount| amount.units())).sum()
}

struct Figures {
    outcome: Outcome,
    refused: usize,
    /// The refused share of all calls, in percent.
    refused_share: f64,
}

fn figures(what: &str, world: &World) -> Figures {
    let outcome = world.run().unwrap();
    let refused = outcome.rejected();
    let refused_share = 100.0 * refused as f64 / (outcome.ok() + refused) as f64;
    println!("{what}: {refused} refused ({refused_share:.2} %) beside {} served", outcome.ok());
    Figures { outcome, refused, refused_share }
}

/// The used share of `rate` units a second from second [`KNOWN`] on, in percent.
fn used(what: &str, figures: &Figures, unit: &str, rate: f64) -> f64 {
    let used = 100.0 * served(&figures.outcome, unit, secs(KNOWN)) / (rate * (TEN_MINUTES - KNOWN) as f64);
    println!("{what}: {used:.1} % of {unit} used from {KNOWN} s on");
    used
}

#[test]
fn headers_tell_githubs_hour_and_refusals_its_rate() {
    let readers = labelled(Fleet::new("readers", 200), &[("method", one("GET"))]).costing("points", amount(1.0));
    let writers = labelled(Fleet::new("writers", 4), &[("method", one("POST"))]).costing("points", amount(5.0));
    let writers = Fleet { think: Span::from_secs(20), ..writers };
    let world = world(unwritten(None, &[])).across(answering(200, 800)).against(preset("github"));
    let figures = figures("github", &world.with(readers).with(writers));
    println!("github: {:.1} % of the hour used", figures.outcome.ok() as f64 / 50.0);
    assert!(figures.refused_share <= 1.0 && figures.outcome.ok() >= 4750);
}

#[test]
fn discord_routes_share_the_buckets_that_answers_name() {
    let roles = labelled(Fleet::new("roles", 200), &[("route", one("roles")), ("guild", of(50))]);
    let messages = labelled(Fleet::new("messages", 20), &[("route", one("messages")), ("channel", of(20))]);
    let reactions = labelled(Fleet::new("reactions", 20), &[("route", one("reactions")), ("channel", of(20))]);
    let world = world(unwritten(Some("route"), &["guild", "channel"])).against(preset("discord"));
    let figures = figures("discord", &world.with(roles).with(messages).with(reactions));
    // No header states the limit of fifty a second for all calls.
    let used = used("discord", &figures, "requests", 50.0);
    assert!(figures.refused < 100 && used >= 90.0);
}

#[test]
fn each_openai_model_has_buckets() {
    let cost = |least, most| Draw::Between(amount(least), amount(most));
    let answers =
        labelled(Fleet::new("answers", 100), &[("model", one("large"))]).costing("tokens", cost(100.0, 900.0));
    let titles = labelled(Fleet::new("titles", 50), &[("model", one("small"))]).costing("tokens", cost(50.0, 200.0));
    let world = world(unwritten(None, &["model"])).across(answering(500, 3000)).against(preset("openai"));
    let figures = figures("openai", &world.with(answers).with(titles));
    let used = used("openai", &figures, "tokens", 1000.0);
    assert!(figures.refused_share <= 1.0 && used >= 95.0);
}

#[test]
fn each_kind_of_anthropic_token_has_a_bucket() {
    let prompts = Fleet::new("prompts", 60).costing("input-tokens", Draw::Between(amount(100.0), amount(1500.0)));
    let prompts = prompts.costing("output-tokens", Draw::Between(amount(20.0), amount(200.0)));
    let world = world(unwritten(None, &[])).across(answering(1000, 5000)).against(preset("anthropic"));
    let figures = figures("anthropic", &world.with(prompts));
    let inputs = used("anthropic", &figures, "input-tokens", 500.0);
    let requests = used("anthropic", &figures, "requests", 50.0 / 60.0);
    assert!(figures.refused_share <= 1.0 && inputs.max(requests) >= 95.0);
}

#[test]
fn every_policy_in_the_ietfs_fields_is_a_limit() {
    let tenants = labelled(Fleet::new("tenants", 100), &[("tenant", of(10))]);
    let world = world(unwritten(None, &["tenant"])).against(preset("ietf"));
    let figures = figures("ietf", &world.with(tenants));
    let used = used("ietf", &figures, "requests", 100.0 / 60.0);
    assert!(figures.refused_share <= 1.0 && used >= 95.0);
}

#[test]
fn shopify_points_are_found() {
    let queries = Fleet::new("queries", 100).costing("points", Draw::Between(amount(2.0), amount(60.0)));
    let figures = figures("shopify", &world(unwritten(None, &[])).against(preset("shopify")).with(queries));
    let used = used("shopify", &figures, "points", 50.0);
    assert!(figures.refused_share <= 1.0 && used >= 95.0);
}

#[test]
fn a_rate_is_found_if_answers_tell_no_limit() {
    for (policy, rate, retry_after) in [
        ("requests=1000/1m", 1000.0 / 60.0, RetryAfter::Milliseconds),
        ("requests=1000/1m", 1000.0 / 60.0, RetryAfter::Missing),
        ("requests=50/10s;sliding-window", 5.0, RetryAfter::Seconds),
        ("requests=300/10s;fixed-window", 30.0, RetryAfter::Missing),
    ] {
        let behaviour = Behaviour { policies: vec![policy.parse().unwrap()], retry_after, ..Behaviour::default() };
        let what = format!("{policy}, {retry_after:?}");
        let figures = figures(&what, &world(unwritten(None, &[])).against(behaviour).with(Fleet::new("workers", 100)));
        let used = used(&what, &figures, "requests", rate);
        assert!(figures.refused_share <= 1.0 && used >= 90.0, "{what}");
    }
}

/// An upstream that serves ten calls of two seconds at the same time, and fifty in ten seconds.
fn capped(strategy: Strategy) -> World {
    let limits = vec![limit("requests", 50.0, Span::from_secs(10))];
    let resource = ResourceSpec { discover: Discover::InFlight, ..ResourceSpec::new(name("api"), limits) };
    let behaviour = Behaviour {
        policies: vec!["requests=50/10s".parse().unwrap()],
        concurrency: NonZeroUsize::new(10),
        ..Behaviour::default()
    };
    world(resource).across(answering(1900, 2100)).against(behaviour).with(Fleet::new("workers", 200)).by(strategy)
}

/// Ten calls of two seconds are five a second; the network takes some of that.
#[test]
fn a_cap_on_calls_in_flight_is_found_and_held() {
    for (strategy, least) in [(Strategy::LateBinding, 2700), (Strategy::Reserve, 2000)] {
        let figures = figures(&strategy.to_string(), &capped(strategy));
        let late = figures.outcome.fleets[0].calls.iter().filter(|call| call.at >= secs(KNOWN) && !call.ok).count();
        println!("{strategy}: {late} refused from {KNOWN} s on");
        assert!(figures.outcome.ok() >= least && late * 100 <= figures.outcome.ok(), "{strategy}");
    }
}

/// The configuration names keys, but the upstream counts all calls together.
#[test]
fn a_rate_that_keys_share_is_found() {
    for (tenants, policy, rate) in [(10, "requests=6000/1m", 100.0), (100, "requests=1000/1m", 1000.0 / 60.0)] {
        let what = format!("{tenants} tenants share {policy}");
        let behaviour = Behaviour { policies: vec![policy.parse().unwrap()], ..Behaviour::default() };
        let workers = labelled(Fleet::new("workers", tenants as usize * 20), &[("tenant", of(tenants))]);
        let figures = figures(&what, &world(unwritten(None, &["tenant"])).against(behaviour).with(workers));
        let used = used(&what, &figures, "requests", rate);
        assert!(figures.refused_share <= 5.0 && used >= 95.0, "{what}");
    }
}
