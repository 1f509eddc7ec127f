//! Requests that give a body in place of a cost.

use crate::prelude::*;
use rampmeter_protocol::price::Price;

const RESOURCE: ResourceNumber = ResourceNumber(0);

fn connected() -> Session {
    let mut session = Session::new(7);
    session.handle(Time::ORIGIN, Event::Connected);
    session
}

fn ask(session: &mut Session, number: u64, is_priced: bool) {
    let price = Price::new("sentinel-hub", "process", r#"{"input":{}}"#).expect("JSON");
    let request = Box::new(PermitRequest { price: is_priced.then(|| Box::new(price)), ..PermitRequest::default() });
    let ask = AskNumber(number);
    session.handle(Time::ORIGIN, Event::Asked { ask, resource: RESOURCE, request, deadline: Time::NEVER });
}

/// How many requests each message has.
fn messages(session: &mut Session) -> Vec<usize> {
    let sent = std::iter::from_fn(|| session.poll(Time::ORIGIN));
    sent.map(|command| {
        let Command::Ask { payload, .. } = command else { panic!("{command:?}") };
        elements(&payload).len()
    })
    .collect()
}

/// A scheduler prices sixteen bodies of a message, and a body may be as long as a message.
#[test]
fn a_body_travels_alone() {
    let mut session = connected();
    [true, false, true, false, false]
        .into_iter()
        .zip(1..)
        .for_each(|(priced, ask_no)| ask(&mut session, ask_no, priced));
    assert_eq!(messages(&mut session), [1, 3, 1]);
    session.handle(Time::ORIGIN, Event::Undelivered { batch: BatchNumber(0) });
    session.handle(Time::ORIGIN, Event::Undelivered { batch: BatchNumber(1) });
    let later = session.next_wakeup().expect("they are sent again");
    let sent: Vec<_> = std::iter::from_fn(|| session.poll(later)).collect();
    assert_eq!(sent.len(), 2, "{sent:?}");
}

/// A successor counts the call in flight by this cost.
#[test]
fn a_renewal_names_the_cost_that_the_scheduler_has_computed() {
    let mut session = connected();
    ask(&mut session, 1, true);
    let Some(Command::Ask { batch, .. }) = session.poll(Time::ORIGIN) else { panic!("it asks") };
    let cost = json!({"processing-units": 2.5});
    let id = session.id(AskNumber(1));
    let granted =
        json!({"status": "granted", "id": id.as_str(), "delay_ms": 0, "lease_ms": 300, "cost": cost, "epoch": 1});
    session.handle(Time::ORIGIN, Event::Answered { batch, payload: granted.to_string().as_bytes() });
    assert!(matches!(session.poll(Time::ORIGIN), Some(Command::Complete { result: Ok(_), .. })));
    let Some(Command::Renew { payload, .. }) = session.poll(Time::ORIGIN + Span::from_millis(101)) else {
        panic!("it renews the lease")
    };
    assert_eq!(elements(&payload)[0]["asked"], json!({"cost": cost}));
}
