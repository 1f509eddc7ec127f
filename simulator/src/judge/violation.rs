//! Violations of a world's rules.

use rampmeter_protocol::time::Time;

/// A violation of a world's rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The upstream answered this many calls with 429.
    #[error("{0} × 429")]
    Rejected(usize),
    /// Calls took more of a limit than it has.
    #[error("limit `{limit}`: {what} take {too_much} millionths more than it has for them, at {at}")]
    Overdrawn {
        /// The limit's name.
        limit: String,
        /// What exceeded the limit: calls, or granted starts.
        what: &'static str,
        /// The excess in millionths of its unit, rounded down.
        too_much: i128,
        /// When the limit was exceeded.
        at: Time,
    },
    /// A request was refused for a quota that was not spent.
    #[error("worker {worker} was refused at {at}, though quota `{limit}` was not spent")]
    Refused {
        /// The quota.
        limit: String,
        /// The worker.
        worker: usize,
        /// When it was refused.
        at: Time,
    },
    /// A call was made before its start.
    #[error("worker {worker} called at {at}, and was permitted to at {start}")]
    Early {
        /// The worker.
        worker: usize,
        /// When the call reached the upstream.
        at: Time,
        /// The start that was granted.
        start: Time,
    },
    /// A call has an account that may not make it.
    #[error("worker {worker} got account `{account}` at {at}, {objection}")]
    Account {
        /// The worker.
        worker: usize,
        /// The account.
        account: String,
        /// When it was granted, or the call was made.
        at: Time,
        /// The reason why it may not make the call.
        objection: &'static str,
    },
    /// A reservation starts before an earlier one of its class with the same needs.
    #[error("worker {by} reserved {at}, before the start of worker {passed}, who had asked earlier for as much")]
    Overtaken {
        /// The worker that asked earlier.
        passed: usize,
        /// The worker that asked later.
        by: usize,
        /// The earlier start.
        at: Time,
    },
    /// A request was served before a more urgent one that was already waiting and cost no more.
    #[error("worker {passed} was passed at {at} by worker {by}, whose call is less urgent and costs as much")]
    Passed {
        /// The worker with the more urgent request.
        passed: usize,
        /// The worker that was served.
        by: usize,
        /// When it was served.
        at: Time,
    },
    /// Of two clients that waited all the time, one got ahead by more than a call of each.
    #[error("in class {class} clients `{clients:?}` drew apart by more than a call of each, until {until}")]
    Unfair {
        /// The class, counted from the most urgent.
        class: usize,
        /// The clients.
        clients: [String; 2],
        /// When the difference was too large.
        until: Time,
    },
    /// A request waited forever, or was refused without a reason.
    #[error("fleet `{fleet}` made {made} of {wanted} calls")]
    Unserved {
        /// The fleet.
        fleet: String,
        /// Calls made.
        made: usize,
        /// Calls that its workers had to make.
        wanted: usize,
    },
}
