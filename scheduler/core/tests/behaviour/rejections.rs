//! Why the upstream rejects calls.

use crate::prelude::*;
use rampmeter_protocol::status::RejectionCause;
use rampmeter_scheduler_core::event::Settle;

/// A refusal because of other accounts.
fn limited_by_others() -> Verdict {
    Verdict::Limited { scope: Scope::Unnamed, retry_after: None, by_other_accounts: true }
}

/// The causes that are counted after a settle of `id` with a 429 and this verdict.
fn causes(world: &mut World, id: &str, verdict: Option<Verdict>) -> Vec<RejectionCause> {
    let observation = verdict.map(said);
    let (id, outcome) = (PermitId::new(id).unwrap(), Outcome::Used(Vec::new()));
    let settle = Settle { to: None, id, outcome, observation, is_throttled: true, call: None };
    world.handle(ms(0), Event::Settle(settle));
    let counters = world.scheduler.counters();
    let found = RejectionCause::ALL.into_iter().filter(|cause| counters.rejections.by(*cause) > 0).collect();
    assert_eq!(
        counters.upstream_429,
        RejectionCause::ALL.map(|cause| counters.rejections.by(cause)).iter().sum::<u64>()
    );
    found
}

#[test]
fn a_rejection_has_the_cause_that_the_answer_and_the_buckets_tell() {
    let spent = Verdict::Exhausted { scope: Scope::Unnamed, reset: None };
    let table = [
        ("a", Some(limited(None)), RejectionCause::Unknown),
        ("a", Some(limited_by_others()), RejectionCause::Upstream),
        ("a", Some(Verdict::Busy), RejectionCause::Upstream),
        ("a", Some(spent), RejectionCause::Quota),
        ("a", Some(Verdict::Passed), RejectionCause::Unknown),
        ("a", None, RejectionCause::Unknown),
        ("stranger", Some(limited(None)), RejectionCause::Unknown),
    ];
    for (id, verdict, expected) in table {
        let mut world = World::new(&ten_per_second());
        world.ask(ms(0), &wish(Mode::Wait, &[("requests", 1.0)]).named("a"));
        assert_eq!(causes(&mut world, id, verdict.clone()), [expected], "{id} {verdict:?}");
    }
}

#[test]
fn a_call_that_cost_more_than_estimated_is_our_own_cause() {
    let mut world = World::new(&ten_per_second());
    for id in ["a", "b"] {
        world.ask(ms(0), &wish(Mode::Wait, &[("requests", 1.0)]).named(id));
    }
    world.settle(ms(0), "a", Outcome::Used(vec![("requests".to_owned(), amount(15.0))]));
    assert_eq!(causes(&mut world, "b", Some(limited(None))), [RejectionCause::Ours]);
}
