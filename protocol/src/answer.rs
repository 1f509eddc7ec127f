//! What a scheduler answers.

use crate::code::Code;
use crate::left::Left;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// The answer to a request for a permit. A client ignores fields that it does not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", from = "Flat<'_>", bound(deserialize = "'de: 'a"))]
pub enum Answer<'a> {
    /// Start the call `delay_ms` after receiving this.
    Granted {
        /// The permit.
        id: Text<'a>,
        /// How long to wait.
        delay_ms: f64,
        /// How long after its start the permit lapses.
        #[serde(skip_serializing_if = "Option::is_none")]
        valid_ms: Option<f64>,
        /// How long the call holds its place in limits that count calls in flight, from its start or its last renewal on, if nobody
        /// hears of it; absent where it holds none.
        #[serde(skip_serializing_if = "Option::is_none")]
        lease_ms: Option<f64>,
        /// The limit that sets the delay.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<Text<'a>>,
        /// What is left of the limits, for who asked to know.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        left: Vec<Left<'a>>,
        /// When it was said, in whole milliseconds on the scheduler's clock, whose origin each epoch has of its own. From it a client
        /// learns how [late](crate::lateness) the answer is.
        #[serde(skip_serializing_if = "Option::is_none")]
        at_ms: Option<u64>,
        /// Grows with every change of leader.
        epoch: u64,
    },
    /// The request waits; another answer will come.
    Queued {
        /// The request.
        id: Text<'a>,
        /// How many are ahead of it.
        position: u64,
        /// When it will probably start.
        eta_ms: f64,
        /// The limit that holds it.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<Text<'a>>,
        /// When it was said, in whole milliseconds on the scheduler's clock, whose origin each epoch has of its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        at_ms: Option<u64>,
        /// Grows with every change of leader.
        epoch: u64,
    },
    /// No permit, and why.
    Refused {
        /// The request, where its id could be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// For programs.
        code: Code,
        /// For people.
        message: Text<'a>,
        /// When to come back; absent where that is useless.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<f64>,
        /// The limit in the way.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<Text<'a>>,
        /// Grows with every change of leader.
        epoch: u64,
    },
    /// A settle was taken.
    Settled {
        /// The permit.
        id: Text<'a>,
    },
}

/// All fields of all answers: serde reads a tagged enum by way of a copy, and a struct without.
#[derive(Deserialize)]
struct Flat<'a> {
    status: Status,
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(default)]
    delay_ms: f64,
    #[serde(default)]
    valid_ms: Option<f64>,
    #[serde(default)]
    lease_ms: Option<f64>,
    #[serde(borrow, default)]
    left: Vec<Left<'a>>,
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
    epoch: u64,
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
        let name = |id: Option<Text<'a>>| id.unwrap_or_else(|| Text::from(""));
        match flat.status {
            Status::Granted => {
                let Flat { delay_ms, valid_ms, lease_ms, left, .. } = flat;
                Answer::Granted { id: name(id), delay_ms, valid_ms, lease_ms, limited_by, left, at_ms, epoch }
            }
            Status::Queued => {
                let Flat { position, eta_ms, .. } = flat;
                Answer::Queued { id: name(id), position, eta_ms, limited_by, at_ms, epoch }
            }
            Status::Refused => Answer::Refused {
                id,
                code: flat.code.unwrap_or(Code::Other),
                message: flat.message.unwrap_or_else(|| Text::from("")),
                retry_after_ms: flat.retry_after_ms,
                limited_by,
                epoch,
            },
            Status::Settled => Answer::Settled { id: name(id) },
        }
    }
}
