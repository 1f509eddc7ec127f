//! Freezes, which void promised starts.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::text::Text;
use rampmeter_protocol::time::Time;

const MAX_FREEZES: usize = 64;

/// A freeze, which voids starts that were granted before `seen`, fall before `until`, and are charged to one of
/// the frozen buckets. Permits granted later are valid, because their limits are not frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// When the announcement arrived.
    pub seen: Time,
    /// When the freeze ends.
    pub until: Time,
    /// The frozen buckets: limits, with their keys if they have any. If empty, all buckets.
    pub buckets: Vec<(Name, Option<String>)>,
}

impl Freeze {
    /// Returns whether it freezes one of these buckets; none, as of earlier schedulers, means any.
    pub(crate) fn concerns(&self, charged: &[(Text<'_>, Option<Text<'_>>)]) -> bool {
        let is_frozen = |(limit, key): &(Text<'_>, Option<Text<'_>>)| {
            self.buckets.iter().any(|(frozen, of)| **frozen == **limit && of.as_deref() == key.as_deref())
        };
        self.buckets.is_empty() || charged.is_empty() || charged.iter().any(is_frozen)
    }
}

/// The freezes that may still void starts.
#[derive(Clone, Debug, Default)]
pub struct Freezes(pub(super) Vec<Freeze>);

impl Freezes {
    /// Adds a freeze. Beyond `MAX_FREEZES`, all become one of every bucket, which may void a start needlessly.
    pub fn add(&mut self, freeze: Freeze) {
        self.0.retain(|known| known.until > freeze.seen);
        self.0.push(freeze);
        if self.0.len() > MAX_FREEZES {
            let all = self.0.drain(..).reduce(|one, other| Freeze {
                seen: one.seen.max(other.seen),
                until: one.until.max(other.until),
                buckets: Vec::new(),
            });
            self.0.extend(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grant;
    use rampmeter_protocol::answer::Granted;
    use rampmeter_protocol::time::Span;

    type Bucket = (&'static str, Option<&'static str>);

    fn at(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    fn freeze((seen, until): (u64, u64), buckets: &[Bucket]) -> Freeze {
        let named = buckets.iter().map(|(limit, key)| (Name::new(limit).unwrap(), key.map(str::to_owned)));
        Freeze { seen: at(seen), until: at(until), buckets: named.collect() }
    }

    fn grant((received, start): (u64, u64), charged: &[Bucket]) -> Grant {
        let charged = charged.iter().map(|(limit, key)| (Text::from(*limit), key.map(Text::from))).collect();
        let (request, answer) = (Box::default(), Granted { charged, ..Granted::default() });
        let (received, start) = (at(received), at(start));
        Grant { request, since: received, received, start, late: None, valid: None, answer }
    }

    /// All times are in milliseconds: (announcement, end) and (receipt, start).
    #[test]
    fn a_freeze_voids_the_starts_that_fall_into_it() {
        let table = [((50, 150), true), ((50, 100), true), ((50, 99), false), ((50, 200), false), ((110, 150), false)];
        for (permit, void) in table {
            assert_eq!(grant(permit, &[]).is_voided_by(&freeze((100, 200), &[])), void, "{permit:?}");
        }
    }

    #[test]
    fn a_freeze_concerns_the_starts_of_its_buckets() {
        let (all, x, y): (Bucket, Bucket, Bucket) = (("all", None), ("each", Some("x")), ("each", Some("y")));
        let table: [(&[Bucket], &[Bucket], bool); 7] = [
            (&[x], &[all, x], true),
            (&[x], &[all, y], false),
            (&[all], &[x], false),
            (&[all, x], &[all, y], true),
            (&[("each", None)], &[x], false),
            // Of earlier schedulers.
            (&[], &[x], true),
            (&[x], &[], true),
        ];
        for (frozen, charged, void) in table {
            let freeze = freeze((100, 200), frozen);
            assert_eq!(grant((50, 150), charged).is_voided_by(&freeze), void, "{frozen:?} {charged:?}");
        }
    }

    #[test]
    fn a_later_freeze_does_not_end_an_earlier_one() {
        let x: Bucket = ("each", Some("x"));
        let mut freezes = Freezes::default();
        freezes.add(freeze((0, 300), &[x]));
        freezes.add(freeze((100, 200), &[("all", None)]));
        let void = |freezes: &Freezes, start| freezes.void(&grant((0, start), &[x]));
        assert_eq!([150, 250, 350].map(|start| void(&freezes, start)), [true, true, false]);
        freezes.add(freeze((300, 400), &[("all", None)]));
        assert_eq!((freezes.0.len(), void(&freezes, 350)), (1, false), "what is over is forgotten");
    }

    #[test]
    fn beyond_the_bound_all_freezes_are_one() {
        let mut freezes = Freezes::default();
        (0..=MAX_FREEZES as u64)
            .for_each(|number| freezes.add(freeze((number, 1000 + number), &[("each", Some("x"))])));
        let y = grant((0, 1050), &[("each", Some("y"))]);
        assert_eq!((freezes.0.len(), freezes.void(&y)), (1, true));
    }
}
