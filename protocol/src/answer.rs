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
        /// How long the permit stays valid after its start.
        #[serde(skip_serializing_if = "Option::is_none")]
        valid_ms: Option<f64>,
        /// How long the call holds its place in limits that count calls in flight. It counts from
        /// the start or from the last renewal. Absent if the call holds no place.
        #[serde(skip_serializing_if = "Option::is_none")]
        lease_ms: Option<f64>,
        /// The limit that sets the delay.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<Text<'a>>,
        /// What is left of the limits, if the request asked for it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        left: Vec<Left<'a>>,
        /// When the scheduler wrote the answer, in whole milliseconds on its clock. Each epoch's
        /// clock has an origin of its own. A client derives from it how [late](crate::lateness) the
        /// answer is.
        #[serde(skip_serializing_if = "Option::is_none")]
        at_ms: Option<u64>,
        /// The epoch of the leader that answers; it grows with every change of leader.
        epoch: u64,
    },
    /// The request waits, and another answer will come.
    Queued {
        /// The request.
        id: Text<'a>,
        /// How many requests are ahead of it.
        position: u64,
        /// When it will probably start.
        eta_ms: f64,
        /// The limit that delays it.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<Text<'a>>,
        /// When the scheduler wrote the answer, in whole milliseconds on its clock.
        #[serde(skip_serializing_if = "Option::is_none")]
        at_ms: Option<u64>,
        /// The epoch of the leader that answers.
        epoch: u64,
    },
    /// There is no permit.
    Refused {
        /// The request, if its id could be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Text<'a>>,
        /// The reason, for programs.
        code: Code,
        /// The reason, for people.
        message: Text<'a>,
        /// When to ask again; absent if asking again is useless.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<f64>,
        /// The limit in the way.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited_by: Option<Text<'a>>,
        /// The epoch of the leader that answers.
        epoch: u64,
    },
    /// The scheduler accepted a settle.
    Settled {
        /// The permit.
        id: Text<'a>,
    },
}

/// All fields of all answers. Serde buffers a tagged enum before it reads it, but not a struct.
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
