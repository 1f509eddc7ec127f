//! Usage by other accounts or processes, as responses of the upstream tell.
//!
//! One client's report counts for a minute. Its next answer renews the report. The same report by
//! another client confirms it until the usage ends.

use super::freeze::UNCONFIRMED;
use super::window_phase::Interval;
use crate::arithmetic::Credit;
use crate::ids::Connection;
use rampmeter_protocol::time::Time;

/// The largest number of claims of one bucket. Further amounts are added to the claim that ends
/// last.
const MAX_CLAIMS: usize = 32;

/// The report of one response on one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketReading {
    /// The start of its call.
    pub(crate) at: Time,
    pub(crate) connection: Connection,
    pub(crate) remaining: Credit,
    /// When all used stock is back, at the latest.
    pub(crate) resets: Option<Time>,
    /// When the window of the limit ends.
    pub(crate) ends: Option<Interval>,
}

/// An amount that other accounts or processes have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) credit: Credit,
    /// Until when it counts.
    pub(crate) until: Time,
    by: Connection,
    /// When it is forgotten, unless it is reported again; none if it is confirmed.
    unconfirmed_until: Option<Time>,
    /// When the upstream's count begins again, if that is before the end.
    resets: Option<Time>,
}

impl Claim {
    /// When the claim is forgotten, if that is before its end.
    pub(crate) fn expires(&self) -> Option<Time> {
        let expires = [self.unconfirmed_until, self.resets].into_iter().flatten().min();
        expires.filter(|expires| *expires < self.until)
    }
}

/// The usage by other accounts, the earliest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Vec<Claim>);

impl Claims {
    /// The claims that a predecessor knew.
    pub(crate) fn restored(claims: impl Iterator<Item = (Credit, Time, Option<Time>)>) -> Self {
        let claim = |(credit, until, expires)| Claim {
            credit,
            until,
            by: Connection::UNKNOWN,
            unconfirmed_until: expires,
            resets: None,
        };
        Claims(claims.map(claim).take(MAX_CLAIMS).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.0.iter()
    }

    /// The sum of the claims that count at `now`.
    pub(crate) fn total(&self, now: Time) -> Credit {
        self.0.iter().filter(|claim| claim.until > now).fold(Credit::ZERO, |sum, claim| sum + claim.credit)
    }

    /// Notes that `connection` reports usage of `reported`. Claims within this amount are renewed,
    /// or confirmed if another client made them.
    pub(crate) fn repeat(&mut self, now: Time, connection: Connection, reported: Credit) {
        let mut sum = Credit::ZERO;
        for claim in &mut self.0 {
            sum += claim.credit;
            if sum <= reported && claim.unconfirmed_until.is_some() {
                claim.unconfirmed_until = (!connection.differs_from(claim.by)).then_some(now + UNCONFIRMED);
            }
        }
    }

    /// Adds an amount that `connection` reports. Returns when it ends.
    pub(crate) fn add(
        &mut self,
        now: Time,
        connection: Connection,
        credit: Credit,
        until: Time,
        resets: Option<Time>,
    ) -> Time {
        let unconfirmed_until = Some(now + UNCONFIRMED).filter(|expires| *expires < until);
        self.0.retain(|claim| claim.until > now);
        let latest = self.0.iter().map(|claim| claim.until).max();
        let until = latest.filter(|_| self.0.len() >= MAX_CLAIMS).unwrap_or(until);
        let is_full = self.0.len() >= MAX_CLAIMS;
        let is_same = |claim: &&mut Claim| {
            claim.until == until && (is_full || claim.unconfirmed_until.is_some() == unconfirmed_until.is_some())
        };
        match self.0.iter_mut().find(is_same) {
            Some(claim) => {
                *claim = Claim { credit: claim.credit + credit, until, by: connection, unconfirmed_until, resets };
            }
            None => self.0.push(Claim { credit, until, by: connection, unconfirmed_until, resets }),
        }
        until
    }

    /// Lets all amounts end at `until`, or forgets them.
    pub(crate) fn end_at(&mut self, until: Time, are_kept: bool) {
        self.0.retain(|_| are_kept);
        self.0.iter_mut().for_each(|claim| claim.until = until);
    }

    /// Takes up to `credit` away, from the latest claims first. Returns the amounts that were
    /// taken, with their ends.
    pub(crate) fn lower(&mut self, mut credit: Credit) -> Vec<(Time, Credit)> {
        let mut taken = Vec::new();
        while let Some(last) = self.0.last_mut().filter(|_| credit > Credit::ZERO) {
            let part = last.credit.min(credit);
            (last.credit, credit) = (last.credit - part, credit - part);
            taken.push((last.until, part));
            self.0.pop_if(|last| last.credit == Credit::ZERO);
        }
        taken
    }

    /// Forgets claims that have ended or expired. Returns the amounts of expired claims, with their
    /// ends.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<(Time, Credit)> {
        let expires = |claim: &&Claim| claim.until > now && claim.expires().is_some_and(|expires| expires <= now);
        let expired = self.0.iter().filter(expires).map(|claim| (claim.until, claim.credit)).collect();
        self.0.retain(|claim| claim.until > now && claim.expires().is_none_or(|expires| expires > now));
        expired
    }

    /// When the next amount expires.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.0.iter().filter_map(Claim::expires).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{Claims, MAX_CLAIMS};
    use crate::arithmetic::Credit;
    use crate::ids::Connection;
    use crate::policy::Limit;
    use crate::policy::spec::LimitSpec;
    use rampmeter_protocol::amount::Amount;
    use rampmeter_protocol::name::Name;
    use rampmeter_protocol::time::{Span, Time};

    #[test]
    fn beyond_the_bound_an_amount_ends_with_the_last() {
        let name = |name| Name::new(name).unwrap();
        let spec = LimitSpec::new(name("few"), name("requests"), Amount::ONE, Span::from_secs(60));
        let one = Limit::new(&spec, &[]).full();
        let end = |second| Time::ORIGIN + Span::from_secs(second);
        let mut claims = Claims::default();
        for second in 1..=MAX_CLAIMS as u64 {
            claims.add(Time::ORIGIN, Connection::UNKNOWN, one, end(second), None);
        }
        let until = claims.add(Time::ORIGIN, Connection::UNKNOWN, one, end(1000), None);
        assert_eq!((until, claims.0.len()), (end(MAX_CLAIMS as u64), MAX_CLAIMS));
        let sum = (0..=MAX_CLAIMS).fold(Credit::ZERO, |sum, _| sum + one);
        assert_eq!(claims.total(Time::ORIGIN), sum, "no amount is forgotten");
    }
}
