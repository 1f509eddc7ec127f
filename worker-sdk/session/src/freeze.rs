//! A freeze voids promised starts.

use rampmeter_protocol::time::Time;

/// Starts that were granted before `seen` and that fall before `until` are void.
///
/// A permit that was granted later is valid: its limits are not frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// When the announcement came.
    pub seen: Time,
    /// When the freeze ends.
    pub until: Time,
}

impl Freeze {
    /// A freeze that is over.
    pub const NONE: Freeze = Freeze { seen: Time::ORIGIN, until: Time::ORIGIN };

    /// Both freezes as one. It may void a start that neither of them voids, which costs one more
    /// request.
    #[must_use]
    pub fn and(self, later: Freeze) -> Freeze {
        Freeze { seen: later.seen, until: self.until.max(later.until) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grant;
    use rampmeter_protocol::answer::Granted;
    use rampmeter_protocol::time::Span;

    fn at(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    /// All times are in milliseconds: (announcement, end) and (receipt, start).
    fn check(freeze: (u64, u64), permit: (u64, u64), void: bool) {
        let freeze = Freeze { seen: at(freeze.0), until: at(freeze.1) };
        let (received, start) = (at(permit.0), at(permit.1));
        let (request, answer) = (Box::default(), Granted::default());
        let grant = Grant { request, since: received, received, start, late: None, valid: None, answer };
        assert_eq!(grant.is_voided_by(freeze), void, "{freeze:?} {grant:?}");
    }

    #[test]
    fn a_freeze_voids_the_starts_that_fall_into_it() {
        check((100, 200), (50, 150), true);
        check((100, 200), (50, 100), true);
        check((100, 200), (50, 99), false);
        check((100, 200), (50, 200), false);
        check((100, 200), (110, 150), false);
    }

    #[test]
    fn a_later_freeze_does_not_end_an_earlier_one() {
        let both = Freeze { seen: at(0), until: at(300) }.and(Freeze { seen: at(100), until: at(200) });
        assert_eq!(both, Freeze { seen: at(100), until: at(300) });
        assert_eq!(Freeze::NONE.and(both), both);
    }
}
