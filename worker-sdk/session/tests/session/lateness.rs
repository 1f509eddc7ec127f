//! Bounds on the asks of a session.

use crate::prelude::*;

scripts! {
    asks_are_bounded_and_one_more_says_so: r#"
        0 connect
        0 most-asks 2
        0 ask 1-3 wait
        > 0 too many asks 3: 2
        > 0 ask 0: [1, 2]
        1 answer 0 {"status":"granted","id":$1,"delay_ms":0,"epoch":3}
        > 1 granted 1 starts 1ms
        2 ask 4 wait
        > 2 ask 1: 4 epoch=3
    "#
}

/// Reaches `MAX_ASKS`, the bound of a session whose driver sets no other.
#[test]
fn a_quarter_of_a_million_asks_are_pending_at_most() {
    const BOUND: u64 = 262_144;
    let mut session = Session::new(7);
    let mut ask = |number| {
        let (resource, request) = (ResourceNumber(0), Box::new(PermitRequest::default()));
        let asked = Event::Asked { ask: AskNumber(number), resource, request, deadline: Time::NEVER };
        session.handle(Time::ORIGIN, asked);
        session.poll(Time::ORIGIN)
    };
    assert!((0..BOUND).all(|number| ask(number).is_none()));
    let Some(Command::Complete { ask: refused, result }) = ask(BOUND) else { panic!("one more is refused") };
    assert_eq!((refused, result.unwrap_err()), (AskNumber(BOUND), Denial::TooManyAsks { bound: 262_144 }));
}
