//! Limits for random worlds that count something other than tokens, or have keys.

use crate::prelude::*;

/// A seed of its own, so that worlds with token buckets alone do not change.
const OWN: u64 = 0xC0_4E7E_D11E;
/// The label of a fleet's requests besides the client's.
const TEAM: &str = "team";
/// The longest delay of grants and calls if limits have clock windows. Starts stay away from the
/// ends of windows for longer than a grant and a call of this delay take together.
const PUNCTUAL: Span = Span::from_millis(24);
/// How long calendar windows are simulated; a longer world would only show a queue that waits for a
/// day.
const SEEN: Span = Span::from_secs(60);

/// Gives some limits another algorithm, and some a key. Returns the end of the world.
pub(crate) fn vary(seed: u64, resource: &mut ResourceSpec, network: &mut Network, fleets: &mut [Fleet]) -> Time {
    let dice = &mut Rng::new(seed ^ OWN);
    for limit in &mut resource.limits {
        if dice.number(0, 2) == 0 {
            limit.algorithm = algorithm(dice);
            limit.margin = margin(dice, limit);
        }
        if dice.number(0, 3) == 0 {
            limit.applies = Applies { key: key(dice), ..Applies::default() };
        }
    }
    for fleet in fleets {
        let team = [None, Some("red"), Some("blue")][dice.number(0, 2) as usize];
        fleet.labels.extend(team.map(|team| (TEAM.to_owned(), Values::One(team.to_owned()))));
    }
    suit(dice, resource, network);
    let by_calendar =
        |limit: &LimitSpec| matches!(&limit.algorithm, Algorithm::FixedWindow(alignment) if is_calendar(alignment));
    if resource.limits.iter().any(by_calendar) { Time::ORIGIN + SEEN } else { Time::NEVER }
}

fn algorithm(dice: &mut Rng) -> Algorithm {
    match dice.number(0, 8) {
        0 => Algorithm::LeakyBucket,
        1..=3 => Algorithm::FixedWindow(alignment(dice)),
        4 | 5 => Algorithm::SlidingWindow,
        6 | 7 => Algorithm::Concurrency,
        _ => Algorithm::Quota((dice.number(0, 4) > 0).then(|| alignment(dice))),
    }
}

/// Midnight, and the beginning of a month, come within the first minute.
fn alignment(dice: &mut Rng) -> Alignment {
    let zone = TimeZone::fixed(Offset::from_seconds(-(dice.number(2, 40) as i32)).unwrap());
    match dice.number(0, 5) {
        0 | 1 => Alignment::Epoch,
        2 | 3 => Alignment::FirstUse,
        4 => Alignment::Day(zone),
        _ => Alignment::Month(zone),
    }
}

/// No margin if delays do not vary, except for clock windows, whose ends calls must avoid.
fn margin(dice: &mut Rng, limit: &LimitSpec) -> Margin {
    let tenth = limit.capacity.micros() / 10;
    match (dice.number(0, 2), limit.algorithm == Algorithm::LeakyBucket) {
        (0, false) => Margin::Fixed(Amount::from_micros(dice.number(1, tenth)).unwrap()),
        (_, false) if is_by_clock(&limit.algorithm) => Margin::Auto,
        (_, _) => limit.margin,
    }
}

fn key(dice: &mut Rng) -> Vec<String> {
    let labels = [&["client"][..], &[TEAM], &["client", TEAM]][dice.number(0, 2) as usize];
    labels.iter().map(ToString::to_string).collect()
}

/// Adjusts everything else so that limits bind and no request waits for years.
pub(crate) fn suit(dice: &mut Rng, resource: &mut ResourceSpec, network: &mut Network) {
    let limits = &resource.limits;
    if limits.iter().any(|limit| is_by_clock(&limit.algorithm)) && network.grant.least == network.grant.most {
        for delay in [&mut network.grant, &mut network.call] {
            *delay = Delay::fixed(delay.most.min(PUNCTUAL));
        }
    }
    if limits.iter().any(|limit| limit.algorithm == Algorithm::Concurrency) {
        let most = Span::from_millis(dice.number(100, 5_000));
        network.response = Delay { least: Span::from_millis(50), most };
    }
    if limits.iter().any(|limit| is_long_quota(&limit.algorithm)) {
        resource.classes.iter_mut().for_each(|class| class.headroom = 0.0);
    }
}

fn is_by_clock(algorithm: &Algorithm) -> bool {
    match algorithm {
        Algorithm::FixedWindow(alignment) | Algorithm::Quota(Some(alignment)) => *alignment != Alignment::FirstUse,
        Algorithm::TokenBucket
        | Algorithm::LeakyBucket
        | Algorithm::SlidingWindow
        | Algorithm::Concurrency
        | Algorithm::Quota(None) => false,
    }
}

fn is_long_quota(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Quota(alignment) if alignment.as_ref().is_none_or(is_calendar))
}

fn is_calendar(alignment: &Alignment) -> bool {
    matches!(alignment, Alignment::Day(_) | Alignment::Month(_))
}
