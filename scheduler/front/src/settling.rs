//! Settles of HTTP clients, which are repeated until a scheduler answers or was silent for too long.

use super::front_client::{Exchange, FrontClient};
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::answer::Answer;
use rampmeter_protocol::code::Remedy;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::settle::Settle;
use rampmeter_serve::messages::inbound::Endpoint;
use rampmeter_serve::messages::message_trace::MessageTrace;
use std::time::Duration;

/// How long schedulers may be silent before an error. A successor answers 0.3 s after a kill, 1 s after a hang.
pub(super) const MOST_SILENCE: Duration = Duration::from_secs(1);
/// How long an answer may take before the settles are sent again, which is harmless if they were taken.
const AT_ONCE: Duration = Duration::from_millis(400);
/// The longest pause before a repetition, with jitter to keep clients apart.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Returns the answers to `settles`, in order; `None` for those that no scheduler of `resource` has taken.
pub(super) async fn settle_all(
    front_client: &FrontClient,
    resource: &Name,
    trace: Option<Box<MessageTrace>>,
    settles: &[&Settle<'_>],
) -> Vec<Option<Answer<'static>>> {
    let mut known = vec![None; settles.len()];
    if settles.is_empty() {
        return known;
    }
    let payload = serde_json::to_vec(settles).expect("messages are plain data");
    let exchange = front_client.exchange(resource, trace);
    let answered = async {
        let is_sent = exchange.ask(&Endpoint::Settle, 0, payload.clone()).await;
        repeat(exchange, payload, is_sent, |reply| take(&mut known, reply)).await;
    };
    tokio::time::timeout(MOST_SILENCE, answered).await.ok();
    known
}

/// Sends the settles in `payload` to give unused permits back. A task repeats them for at most [`MOST_SILENCE`].
pub(super) async fn give_back(front_client: FrontClient, resource: Name, payload: Vec<u8>) {
    let exchange = front_client.exchange(&resource, None);
    let is_sent = exchange.ask(&Endpoint::Settle, 0, payload.clone()).await;
    let answered = repeat(exchange, payload, is_sent, |_reply| true);
    tokio::spawn(async { tokio::time::timeout(MOST_SILENCE, answered).await.ok() });
}

/// Repeats settles, which may have been sent once, until `takes` accepts a reply.
async fn repeat(mut exchange: Exchange, payload: Vec<u8>, mut is_sent: bool, mut takes: impl FnMut(&[u8]) -> bool) {
    for attempt in 1.. {
        if is_sent
            && let Ok((_, InboxReply::Answer(reply))) = tokio::time::timeout(AT_ONCE, exchange.next()).await
            && takes(&reply)
        {
            return;
        }
        tokio::time::sleep(LONGEST_PAUSE.mul_f64(rand::random_range(0.1..1.0))).await;
        is_sent = exchange.ask(&Endpoint::Settle, attempt, payload.clone()).await;
    }
}

/// Stores the answers of a reply, and returns whether all settles are answered, as some may have to be repeated.
fn take(known: &mut [Option<Answer<'static>>], reply: &[u8]) -> bool {
    let answers: Vec<Answer<'_>> = serde_json::from_slice(reply).unwrap_or_default();
    if answers.len() != known.len() {
        return false;
    }
    let last = |answer| match answer {
        Answer::Settled { id, extended } => Some(Answer::Settled { id: id.into_owned(), extended }),
        Answer::Refused(refused) if refused.code.remedy() == Remedy::Repeat => None,
        Answer::Refused(refused) => Some(Answer::Refused(refused.into_owned())),
        Answer::Granted(_) | Answer::Queued(_) => None,
    };
    for (known, answer) in known.iter_mut().zip(answers) {
        *known = last(answer).or(known.take());
    }
    known.iter().all(Option::is_some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reply_answers_is_kept() {
        let settled = r#"{"status":"settled","id":"a"}"#;
        let refused = |code: &str| format!(r#"{{"status":"refused","id":"b","code":"{code}","message":"","epoch":1}}"#);
        let mut known = vec![None; 2];
        let mut take = |elements: &[&str]| {
            let are_all = take(&mut known, format!("[{}]", elements.join(",")).as_bytes());
            (are_all, known.iter().flatten().count())
        };
        assert_eq!(take(&[settled]), (false, 0));
        assert_eq!(take(&[settled, &refused("unavailable")]), (false, 1));
        assert_eq!(take(&[&refused("unavailable"), &refused("unknown_permit")]), (true, 2));
        assert_eq!(take(&[settled, &refused("unknown_permit")]), (true, 2));
        assert!(!super::take(&mut [None], settled.as_bytes()));
    }
}
