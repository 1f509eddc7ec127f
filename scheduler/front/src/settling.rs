//! Settles of HTTP clients, which are repeated until a scheduler has answered.

use super::conversation::MOST_SILENCE;
use super::front_client::FrontClient;
use rampmeter_nats::inbox::InboxReply;
use rampmeter_protocol::answer::Answer;
use rampmeter_protocol::code::Remedy;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::settle::Settle;
use rampmeter_serve::messages::inbound::Endpoint;
use rampmeter_serve::messages::message_trace::MessageTrace;
use std::time::Duration;

/// How long the answer may take before the settles are sent again, which changes nothing if they
/// were taken.
const AT_ONCE: Duration = Duration::from_millis(400);
/// The longest pause before a repetition. Jitter keeps clients apart.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The answers to `settles`, in their order; `None` if no scheduler of `resource` answers.
pub(super) async fn settle_all(
    front_client: &FrontClient,
    resource: &Name,
    trace: Option<Box<MessageTrace>>,
    settles: &[&Settle<'_>],
) -> Option<Vec<Answer<'static>>> {
    if settles.is_empty() {
        return Some(Vec::new());
    }
    let payload = serde_json::to_vec(settles).expect("messages are plain data");
    let mut exchange = front_client.exchange(resource, trace);
    let answered = async {
        let mut attempts = 0;
        loop {
            if exchange.ask(&Endpoint::Settle, attempts, payload.clone()).await
                && let Ok((_, InboxReply::Answer(reply))) = tokio::time::timeout(AT_ONCE, exchange.next()).await
                && let Some(answers) = answers(&reply, settles.len())
            {
                return answers;
            }
            attempts += 1;
            tokio::time::sleep(LONGEST_PAUSE.mul_f64(rand::random_range(0.1..1.0))).await;
        }
    };
    tokio::time::timeout(MOST_SILENCE, answered).await.ok()
}

/// The answers to so many settles; nothing if the scheduler may not answer now.
fn answers(reply: &[u8], count: usize) -> Option<Vec<Answer<'static>>> {
    let answers: Vec<Answer<'_>> = serde_json::from_slice(reply).ok()?;
    let last = |answer| match answer {
        Answer::Settled { id, extended } => Some(Answer::Settled { id: id.into_owned(), extended }),
        Answer::Refused(refused) if refused.code.remedy() == Remedy::Repeat => None,
        Answer::Refused(refused) => Some(Answer::Refused(refused.into_owned())),
        Answer::Granted(_) | Answer::Queued(_) => None,
    };
    answers.into_iter().map(last).collect::<Option<Vec<_>>>().filter(|answers| answers.len() == count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_counts_if_it_answers_every_settle() {
        let settled = r#"{"status":"settled","id":"a"}"#;
        let refused = |code: &str| format!(r#"{{"status":"refused","id":"b","code":"{code}","message":"","epoch":1}}"#);
        let count = |elements: &[&str]| answers(format!("[{}]", elements.join(",")).as_bytes(), 2).map(|all| all.len());
        assert_eq!(count(&[settled, &refused("unknown_permit")]), Some(2));
        assert_eq!(count(&[settled, &refused("unavailable")]), None);
        assert_eq!(count(&[settled]), None);
        assert_eq!(answers(settled.as_bytes(), 1), None);
    }
}
