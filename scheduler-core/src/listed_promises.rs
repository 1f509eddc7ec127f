//! Promises that a graceful stop tells one by one.

use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::ledger::Backlog;
use crate::permits::Permit;
use crate::resource::{LimitId, Resource};
use crate::timeline::just_after;
use rampmeter_protocol::time::Time;

/// Promises that a successor is told of one by one: those of the latest starts.
pub(crate) struct ListedPromises {
    /// The first start of them.
    pub(crate) first: Option<Time>,
    promised: Backlog,
}

impl ListedPromises {
    /// The promises among these permits, of which there are none with later starts.
    pub(crate) fn of<R>(resource: &Resource, now: Time, permits: &[(Time, &Permit<R>)]) -> Self {
        let mut listed = ListedPromises { first: None, promised: Backlog::none(resource) };
        for (start, permit) in permits.iter().filter(|(start, permit)| *start > now && permit.granted().is_some()) {
            listed.first = Some(*start);
            listed.promised.add(resource, &permit.bill);
        }
        listed
    }

    /// What a successor has to withhold right after `time` beside what is listed: behind the first that is, all others are.
    pub(crate) fn without(&self, bucket: &Bucket, limit: LimitId, time: Time) -> Credit {
        match self.first {
            Some(first) if time >= first => bucket.withheld().at(just_after(time).at),
            Some(_) | None => bucket.outstanding_after(time) - self.promised.of(limit),
        }
    }
}
