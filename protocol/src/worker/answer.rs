//! The answers of a scheduler, and the only code that writes and reads them. A new field is also one of `Flat`.

use crate::code::Code;
use crate::cost::Cost;
use crate::epoch::Epoch;
use crate::left::Left;
use crate::millis::Millis;
use crate::text::Text;
use crate::time::Span;
use serde::{Deserialize, Serialize};
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::io::{self, Write};

/// Serde writes whole numbers below this digit by digit and larger ones with an exponent.
const EXPONENT_FROM: u64 = 10_000_000_000_000_000;

/// The answer to a request for a permit. A client ignores fields that it does not know.
///
/// ```
/// use rampmeter_protocol::answer::{Answer, Granted};
/// use rampmeter_protocol::epoch::Epoch;
///
/// let epoch = Epoch::new(7);
/// let granted = Granted { id: "a".into(), delay_ms: 250.0, epoch, ..Granted::default() };
/// let mut text = Vec::new();
/// Answer::Granted(granted).write(&mut text).unwrap();
/// assert_eq!(text, br#"{"status":"granted","id":"a","delay_ms":250.0,"epoch":7}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", from = "Flat<'_>", bound(deserialize = "'de: 'a"))]
pub enum Answer<'a> {
    /// A permit: start the call after the delay.
    Granted(Granted<'a>),
    /// The request waits, and another answer will follow.
    Queued(Queued<'a>),
    /// There is no permit.
    Refused(Refused<'a>),
    /// The settle was accepted.
    Settled {
        /// The permit.
        id: Text<'a>,
        /// Whether the call goes on, as the settle said with `extend`, and is to be settled later.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        extended: bool,
    },
}

/// A permit for a call that may start `delay_ms` after this answer is received.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Granted<'a> {
    /// The permit.
    pub id: Text<'a>,
    /// The delay before the start.
    pub delay_ms: f64,
    /// How long after its start the permit stays valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_ms: Option<f64>,
    /// How long the call holds its place in limits of calls in flight, from its start or renewal; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<f64>,
    /// The limit that sets the delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Text<'a>>,
    /// The account that makes the call, if the resource has accounts; a label of `asked` in the settle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<Text<'a>>,
    /// The entry of `any_of` that the call has to be made by, from one; `None` as it was described.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<u8>,
    /// The buckets, as limits with any keys, that a future start is charged to. It survives freezes of others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charged: Vec<(Text<'a>, Option<Text<'a>>)>,
    /// What is left of the limits, if the request asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left<'a>>,
    /// The cost, if the scheduler computed it.
    #[serde(skip_serializing_if = "Cost::is_empty")]
    pub cost: Cost<'a>,
    /// When this was written, in whole milliseconds since an origin of the epoch; see [lateness](crate::lateness).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// The epoch of the answering leader, which grows with every change of leader.
    pub epoch: Epoch,
}

/// A place in the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Queued<'a> {
    /// The request.
    pub id: Text<'a>,
    /// Number of requests ahead of it.
    pub position: u64,
    /// Expected time until its start.
    pub eta_ms: f64,
    /// The limit that delays it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Text<'a>>,
    /// When the answer was written, as in [`Granted::at_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// The epoch of the answering leader.
    pub epoch: Epoch,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused<'a> {
    /// The request, if its id could be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Text<'a>>,
    /// The reason, for programs.
    pub code: Code,
    /// The reason, for people.
    pub message: Text<'a>,
    /// When to ask again; absent if that is useless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<f64>,
    /// The limit that caused the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Text<'a>>,
    /// The epoch of the answering leader.
    pub epoch: Epoch,
}

impl Answer<'_> {
    /// Writes the JSON text, byte for byte as serde would.
    ///
    /// # Errors
    /// If writing to `to` fails.
    pub fn write(&self, mut to: impl Write) -> serde_json::Result<()> {
        match self {
            Answer::Granted(granted) if granted.is_plain() => granted.write_plain(&mut to),
            Answer::Granted(_) | Answer::Queued(_) | Answer::Refused(_) | Answer::Settled { .. } => {
                self.serialize(&mut Serializer::with_formatter(to, WholeNumbers(CompactFormatter)))
            }
        }
    }
}

impl Granted<'_> {
    /// Returns whether [`write_plain`](Granted::write_plain) can write it, as nearly always.
    fn is_plain(&self) -> bool {
        let times = [Some(self.delay_ms), self.valid_ms, self.lease_ms];
        let has_lists = !self.left.is_empty() || !self.charged.is_empty() || !self.cost.is_empty();
        !has_lists && times.into_iter().flatten().all(f64::is_finite)
    }

    /// Writes the fields one by one, without the map that serde makes of a tagged enum.
    fn write_plain(&self, to: &mut impl Write) -> serde_json::Result<()> {
        let io = serde_json::Error::io;
        to.write_all(br#"{"status":"granted","id":"#).map_err(io)?;
        serde_json::to_writer(&mut *to, &self.id)?;
        let times = [
            (r#","delay_ms":"#, Some(self.delay_ms)),
            (r#","valid_ms":"#, self.valid_ms),
            (r#","lease_ms":"#, self.lease_ms),
        ];
        for (key, time) in times {
            if let Some(time) = time {
                to.write_all(key.as_bytes()).map_err(io)?;
                WholeNumbers(CompactFormatter).write_f64(to, time).map_err(io)?;
            }
        }
        for (key, name) in [(r#","limited_by":"#, &self.limited_by), (r#","account":"#, &self.account)] {
            if let Some(name) = name {
                to.write_all(key.as_bytes()).map_err(io)?;
                serde_json::to_writer(&mut *to, name)?;
            }
        }
        let way = self.way.map(u64::from);
        for (key, number) in
            [(r#","way":"#, way), (r#","at_ms":"#, self.at_ms), (r#","epoch":"#, Some(self.epoch.get()))]
        {
            if let Some(number) = number {
                to.write_all(key.as_bytes()).map_err(io)?;
                CompactFormatter.write_u64(to, number).map_err(io)?;
            }
        }
        to.write_all(b"}").map_err(io)
    }

    /// Copies what the answer borrows.
    #[must_use]
    pub fn into_owned(self) -> Granted<'static> {
        Granted {
            id: self.id.into_owned(),
            limited_by: self.limited_by.map(Text::into_owned),
            account: self.account.map(Text::into_owned),
            charged: self
                .charged
                .into_iter()
                .map(|(limit, key)| (limit.into_owned(), key.map(Text::into_owned)))
                .collect(),
            left: self.left.into_iter().map(Left::into_owned).collect(),
            cost: self.cost.into_owned(),
            ..self
        }
    }
}

impl<'a> Refused<'a> {
    /// Creates a refusal whose optional fields are absent. Its message is [cut](Text::brief).
    pub fn new(code: Code, message: impl Into<Text<'a>>) -> Self {
        let message = message.into().brief();
        Refused { id: None, code, message, retry_after_ms: None, limited_by: None, epoch: Epoch::NONE }
    }

    /// Returns when to ask again, if that is useful. An invalid time is ignored.
    #[must_use]
    pub fn retry_after(&self) -> Option<Span> {
        Millis::new(self.retry_after_ms?).ok().map(Millis::span)
    }

    /// Copies what the refusal borrows.
    #[must_use]
    pub fn into_owned(self) -> Refused<'static> {
        Refused {
            id: self.id.map(Text::into_owned),
            message: self.message.into_owned(),
            limited_by: self.limited_by.map(Text::into_owned),
            ..self
        }
    }
}

/// Writes whole numbers, as nearly all times are, much faster than serde's own formatter.
struct WholeNumbers(CompactFormatter);

impl Formatter for WholeNumbers {
    fn write_f64<W: ?Sized + Write>(&mut self, to: &mut W, number: f64) -> io::Result<()> {
        match number as u64 {
            whole if whole as f64 == number && whole < EXPONENT_FROM && number.is_sign_positive() => {
                self.0.write_u64(to, whole)?;
                to.write_all(b".0")
            }
            _fraction => self.0.write_f64(to, number),
        }
    }
}

/// All fields of all answers. To read a tagged enum, serde would buffer the whole message.
#[derive(Deserialize)]
struct Flat<'a> {
    status: Status,
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(default)]
    delay_ms: Option<f64>,
    #[serde(default)]
    valid_ms: Option<f64>,
    #[serde(default)]
    lease_ms: Option<f64>,
    #[serde(borrow, default)]
    account: Option<Text<'a>>,
    #[serde(default)]
    way: Option<u8>,
    #[serde(borrow, default)]
    charged: Vec<(Text<'a>, Option<Text<'a>>)>,
    #[serde(borrow, default)]
    left: Vec<Left<'a>>,
    #[serde(borrow, default)]
    cost: Cost<'a>,
    #[serde(default)]
    position: u64,
    #[serde(default)]
    eta_ms: f64,
    #[serde(default)]
    code: Option<Code>,
    #[serde(borrow, default)]
    message: Option<Text<'a>>,
    #[serde(default)]
    retry_after_ms: Option<f64>,
    #[serde(borrow, default)]
    limited_by: Option<Text<'a>>,
    #[serde(default)]
    at_ms: Option<u64>,
    #[serde(default)]
    epoch: Epoch,
    #[serde(default)]
    extended: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Granted,
    Queued,
    Refused,
    Settled,
}

impl<'a> From<Flat<'a>> for Answer<'a> {
    fn from(flat: Flat<'a>) -> Self {
        let Flat { id, limited_by, at_ms, epoch, .. } = flat;
        match flat.status {
            Status::Granted => {
                let Some(delay_ms) = flat.delay_ms else { return no_start(id, epoch) };
                Answer::Granted(Granted {
                    id: id.unwrap_or_default(),
                    delay_ms,
                    valid_ms: flat.valid_ms,
                    lease_ms: flat.lease_ms,
                    limited_by,
                    account: flat.account,
                    way: flat.way,
                    charged: flat.charged,
                    left: flat.left,
                    cost: flat.cost,
                    at_ms,
                    epoch,
                })
            }
            Status::Queued => Answer::Queued(Queued {
                id: id.unwrap_or_default(),
                position: flat.position,
                eta_ms: flat.eta_ms,
                limited_by,
                at_ms,
                epoch,
            }),
            Status::Refused => Answer::Refused(Refused {
                id,
                code: flat.code.unwrap_or(Code::Other),
                message: flat.message.unwrap_or_default(),
                retry_after_ms: flat.retry_after_ms,
                limited_by,
                epoch,
            }),
            Status::Settled => Answer::Settled { id: id.unwrap_or_default(), extended: flat.extended },
        }
    }
}

/// Treats a grant without a start as a refusal, so that the client sends the request again.
fn no_start(id: Option<Text<'_>>, epoch: Epoch) -> Answer<'_> {
    Answer::Refused(Refused { id, epoch, ..Refused::new(Code::Unavailable, "the grant has no `delay_ms`") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Amount;

    fn written(answer: &Answer<'_>) -> String {
        let mut text = Vec::new();
        answer.write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// The golden text of each answer, with all of its fields and with as few as it can have.
    fn golden() -> [(Answer<'static>, &'static str); 8] {
        let id = || Text::from("0199a7c2-5d1e.A_z:9");
        let limited_by = || Some(Text::from("per-minute"));
        let left = Left { limit: "per-minute".into(), unit: "requests".into(), remaining: 2.5, reset_ms: Some(60.0) };
        let (valid_ms, lease_ms, at_ms) = (Some(5000.0), Some(90.5), Some(86_400_123));
        let mut cost = Cost::new();
        cost.set("tokens", Amount::new(2.5).unwrap()).unwrap();
        let granted = Granted {
            id: id(),
            delay_ms: 3.0,
            valid_ms,
            lease_ms,
            limited_by: limited_by(),
            account: Some("team-a".into()),
            way: Some(2),
            charged: vec![("per-minute".into(), None), ("per-guild".into(), Some("x".into()))],
            left: vec![left],
            cost,
            at_ms,
            epoch: Epoch::new(7),
        };
        let queued =
            Queued { id: id(), position: 3, eta_ms: 1234.5, limited_by: limited_by(), at_ms, epoch: Epoch::new(7) };
        let (code, message) = (Code::QueueFull, Text::from("\"few\": ü"));
        let refused = Refused {
            id: Some(id()),
            code,
            message,
            retry_after_ms: Some(20.0),
            limited_by: limited_by(),
            epoch: Epoch::new(7),
        };
        [
            (
                Answer::Granted(granted),
                r#"{"status":"granted","id":"0199a7c2-5d1e.A_z:9","delay_ms":3.0,"valid_ms":5000.0,"lease_ms":90.5,"limited_by":"per-minute","account":"team-a","way":2,"charged":[["per-minute",null],["per-guild","x"]],"left":[{"limit":"per-minute","unit":"requests","remaining":2.5,"reset_ms":60.0}],"cost":{"tokens":2.5},"at_ms":86400123,"epoch":7}"#,
            ),
            (
                Answer::Granted(Granted { id: id(), ..Granted::default() }),
                r#"{"status":"granted","id":"0199a7c2-5d1e.A_z:9","delay_ms":0.0,"epoch":0}"#,
            ),
            (
                Answer::Queued(queued),
                r#"{"status":"queued","id":"0199a7c2-5d1e.A_z:9","position":3,"eta_ms":1234.5,"limited_by":"per-minute","at_ms":86400123,"epoch":7}"#,
            ),
            (
                Answer::Queued(Queued { id: id(), ..Queued::default() }),
                r#"{"status":"queued","id":"0199a7c2-5d1e.A_z:9","position":0,"eta_ms":0.0,"epoch":0}"#,
            ),
            (
                Answer::Refused(refused),
                r#"{"status":"refused","id":"0199a7c2-5d1e.A_z:9","code":"queue_full","message":"\"few\": ü","retry_after_ms":20.0,"limited_by":"per-minute","epoch":7}"#,
            ),
            (
                Answer::Refused(Refused::new(Code::Unavailable, "no")),
                r#"{"status":"refused","code":"unavailable","message":"no","epoch":0}"#,
            ),
            (Answer::Settled { id: id(), extended: false }, r#"{"status":"settled","id":"0199a7c2-5d1e.A_z:9"}"#),
            (
                Answer::Settled { id: id(), extended: true },
                r#"{"status":"settled","id":"0199a7c2-5d1e.A_z:9","extended":true}"#,
            ),
        ]
    }

    #[test]
    fn answers_are_written_and_read_as_ever() {
        for (answer, text) in golden() {
            assert_eq!(written(&answer), text);
            assert_eq!(serde_json::from_str::<Answer<'_>>(text).unwrap(), answer, "{text}");
        }
    }

    #[test]
    fn a_plain_grant_is_written_as_serde_writes_it() {
        let [(Answer::Granted(full), _), ..] = golden() else { panic!("the first answer is a grant") };
        let ahead = Granted { left: Vec::new(), cost: Cost::new(), ..full };
        let plain = Granted { charged: Vec::new(), ..ahead.clone() };
        for grant in [ahead, plain].map(Answer::Granted) {
            assert_eq!(written(&grant), serde_json::to_string(&grant).unwrap());
        }
    }

    #[test]
    fn a_grant_without_a_start_is_no_permit() {
        let answer = serde_json::from_str(r#"{"status":"granted","id":"a","epoch":7}"#).unwrap();
        let Answer::Refused(Refused { id, code, epoch, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!((id.as_deref(), code, epoch), (Some("a"), Code::Unavailable, Epoch::new(7)));
    }

    #[test]
    fn numbers_are_written_as_serde_writes_them() {
        for delay_ms in [0.0, -0.0, -3.0, 1234.5, 1e-6, 3.0, 9_999_999_999_999_998.0, 1e16, 2e19, f64::NAN] {
            let answer = Answer::Granted(Granted { delay_ms, ..Granted::default() });
            assert_eq!(written(&answer), serde_json::to_string(&answer).unwrap());
        }
    }
}
