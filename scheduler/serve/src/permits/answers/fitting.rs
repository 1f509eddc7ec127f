//! Shortens answers that are larger than a message may be.

use bytes::Bytes;
use rampmeter_protocol::answer::{Answer, Refused};
use rampmeter_protocol::code::Code;
use rampmeter_protocol::text::Text;
use serde::Deserialize;
use serde_json::value::RawValue;

const TOO_LARGE: &str = "the answer is larger than NATS takes: send fewer elements in one message";

/// The only field of an answer that is kept in the refusal that replaces it.
#[derive(Default, Deserialize)]
struct OnlyId<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
}

/// Makes an answer fit into a message of `most` bytes. In an array, refusals replace the elements that exceed
/// their share. Their permits, if any, stay charged, as if the answer were lost.
pub(super) fn fitting(answer: Bytes, most: usize) -> Bytes {
    if answer.len() <= most {
        return answer;
    }
    let elements = serde_json::from_slice::<Vec<&RawValue>>(&answer).unwrap_or_default();
    let share = most / elements.len().max(1);
    let fit = |element: &&RawValue| match element.get() {
        short if short.len() < share => short.to_owned(),
        long => refusal(serde_json::from_str(long).unwrap_or_default()),
    };
    let array = format!("[{}]", elements.iter().map(fit).collect::<Vec<_>>().join(","));
    let is_array = !elements.is_empty() && array.len() <= most;
    if is_array { array.into() } else { refusal(OnlyId::default()).into() }
}

fn refusal(OnlyId { id }: OnlyId<'_>) -> String {
    let mut text = Vec::new();
    let refused = Answer::Refused(Refused { id, ..Refused::new(Code::InvalidRequest, TOO_LARGE) });
    refused.write(&mut text).expect("answers are plain data");
    String::from_utf8(text).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of texts in an array of answers, the bound, and which answers are kept; `None` if none is.
    type Row = (&'static [usize], usize, Option<&'static [bool]>);

    #[test]
    fn elements_beyond_their_share_become_refusals() {
        let refused = refusal(OnlyId { id: Some("0".into()) }).len();
        #[rustfmt::skip]
        let table: [Row; 4] = [
            (&[10, 10],         1000,               Some(&[true, true])),
            (&[10, 2000, 10],   1000,               Some(&[true, false, true])),
            (&[9000; 3],        3 * refused + 4,    Some(&[false; 3])),
            (&[9000; 3],        3 * refused + 3,    None),
        ];
        for (lengths, most, expected) in table {
            let element = |(id, length): (usize, &usize)| format!(r#"{{"id":"{id}","x":"{}"}}"#, "x".repeat(*length));
            let answer = format!("[{}]", lengths.iter().enumerate().map(element).collect::<Vec<_>>().join(","));
            let sent = fitting(answer.into(), most);
            assert!(sent.len() <= most, "{sent:?}");
            let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
            let all = sent.as_array().map(|all| all.iter().map(|one| one["code"].is_null()).collect::<Vec<_>>());
            assert_eq!(all.as_deref(), expected, "{sent}");
            let ids = sent.as_array().into_iter().flatten().map(|one| one["id"].as_str().unwrap());
            assert!(ids.eq(["0", "1", "2"].into_iter().take(all.map_or(0, |all| all.len()))), "{sent}");
        }
    }
}
