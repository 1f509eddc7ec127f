//! Settles that no scheduler has confirmed are sent again, under the same ids.

use crate::network::elements;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_worker_session::{BatchNumber, Command, Event, ResourceNumber, Session};

const RESOURCE: ResourceNumber = ResourceNumber(0);
const NOW: Time = Time::ORIGIN;
/// Longer than any back-off.
const LATER: Span = Span::from_secs(1);

fn connected() -> Session {
    let mut session = Session::new(7);
    session.handle(NOW, Event::Connected);
    session
}

/// Settles permits with these numbers, and returns the message.
fn settle(session: &mut Session, numbers: &[u128]) -> BatchNumber {
    for number in numbers {
        let settle = Box::new(Settle::used(PermitId::secret(*number)));
        session.handle(NOW, Event::Settled { resource: RESOURCE, settle });
    }
    sent(session, NOW, numbers).expect("a message with settles")
}

/// The message that the session sends at `now`, if it has settles; they are of these numbers.
fn sent(session: &mut Session, now: Time, numbers: &[u128]) -> Option<BatchNumber> {
    let Some(Command::Settle { batch, payload, .. }) = session.poll(now) else { return None };
    let ids: Vec<_> =
        elements(&payload).iter().map(|settle| settle["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(ids, numbers.iter().map(|number| PermitId::secret(*number).to_string()).collect::<Vec<_>>());
    Some(batch)
}

fn new_leader(session: &mut Session, epoch: u64) {
    let payload = format!(r#"{{"event":"leader","epoch":{epoch},"leader":"b"}}"#);
    session.handle(NOW, Event::News { resource: RESOURCE, payload: payload.as_bytes(), unix_ms: 1_000_000 });
}

#[test]
fn what_reached_no_scheduler_is_sent_again_after_a_pause() {
    let mut session = connected();
    let batch = settle(&mut session, &[1, 2]);
    session.handle(NOW, Event::Undelivered { batch });
    assert_eq!(session.poll(NOW), None);
    assert!(session.next_wakeup().is_some_and(|at| at <= NOW + LATER));
    let again = sent(&mut session, NOW + LATER, &[1, 2]).expect("the same message");
    assert_ne!(again, batch);
    session.handle(NOW, Event::Undelivered { batch });
    assert_eq!(sent(&mut session, NOW + LATER, &[]), None, "a later message has them");
}

#[test]
fn what_is_not_confirmed_is_sent_again_to_the_next_leader() {
    let mut session = connected();
    let confirmed = settle(&mut session, &[1]);
    settle(&mut session, &[2]);
    session.handle(NOW, Event::Answered { batch: confirmed, payload: b"" });
    new_leader(&mut session, 5);
    let again = sent(&mut session, NOW + LATER, &[2]).expect("the same message");
    session.handle(NOW, Event::Answered { batch: again, payload: b"" });
    new_leader(&mut session, 6);
    assert_eq!(sent(&mut session, NOW + LATER, &[]), None);
}
