//! Infers why the upstream rejects calls from what it has served before each rejection: in the last
//! period, or since the previous rejection if its buckets refill steadily.
//!
//! An upstream that allows less than is written rejects calls whenever it has served about the same
//! share of the written capacity. Other users of the account leave a share that varies. If the
//! whole capacity was served, the cause is ours: calls that cost more than estimated, or a burst
//! that the margin does not cover. Causes are for people; only a limit that is too high has an
//! effect: it is [held](super::AdaptiveLimit::hold) to what is allowed.

use super::attribution::Limits;
use rampmeter_policy::ids::LimitId;
use rampmeter_policy::{Bill, BucketName, Limit, Resource};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::status::{self, RejectionCause};
use rampmeter_protocol::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// The number of buckets measured at once. Rejections by further ones teach nothing.
const MAX_MEASURED_BUCKETS: usize = 256;
const PARTS: usize = 64;
/// The number of samples remembered for each bucket, and the fewest that tell a cause.
const MAX_SAMPLES: usize = 8;
const MIN_SAMPLES: usize = 3;
/// The least time between samples, in parts: calls on their way together are rejected together.
const PARTS_BETWEEN_SAMPLES: u64 = PARTS as u64 / 2;

type Ppm = u64;
const ALL: Ppm = 1_000_000;
/// A limit that serves less than this is written too high, if its larger shares differ by less than
/// one part in [`EVEN_PART`]. Other users who take half of an account look the same.
const LOWER: Ppm = 570_000;
const EVEN_PART: u64 = 3;
/// More is the whole capacity, if the larger shares differ by less than one part in [`EQUAL_PART`].
const WHOLE: Ppm = 980_000;
const EQUAL_PART: u64 = 16;

/// A call that cost more than its permit explains rejections for a period, and at least this long.
const UNDERESTIMATED: Span = Span::from_secs(60);

/// The upstream's rejections under the present limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rejections {
    measured: BTreeMap<BucketName, Measured>,
    /// When a call last cost more than its permit.
    underestimated: BTreeMap<LimitId, Time>,
}

#[derive(Clone, Debug)]
struct Measured {
    served: Served,
    /// The shares of the written capacity that it had served at its rejections.
    samples: VecDeque<Ppm>,
    /// Rejections whose cause too few samples tell yet.
    undecided: u64,
    /// Whether it was once the only bucket to blame for a rejection.
    is_convicted: bool,
}

impl Rejections {
    pub(crate) fn note_served(&mut self, now: Time, bill: &Bill, actual: &Bill) {
        for (limit, amount) in actual.amounts() {
            if amount > bill.get(limit) {
                self.underestimated.insert(limit, now);
            }
            if !self.measured.is_empty()
                && let Some(measured) = self.measured.get_mut(&actual.bucket(limit))
            {
                measured.served.add(now, amount);
            }
        }
    }

    /// Counts the rejection of a call with this bill by one of the limits `blamed`, under its
    /// cause; earlier ones are counted once samples tell their cause. `lacks` says whether one of
    /// the limits had too little stock by our own count. Returns the bucket whose limit is written
    /// too high, if there is one, and the capacity that the upstream seems to allow.
    pub(crate) fn count(
        &mut self,
        now: Time,
        resource: &Resource,
        bill: &Bill,
        blamed: &Limits,
        lacks: bool,
        counted: &mut status::Rejections,
    ) -> Option<(BucketName, Amount)> {
        self.sample(now, resource, bill, blamed);
        let is_underestimated = blamed.iter().any(|limit| {
            let last = self.underestimated.get(limit);
            last.is_some_and(|last| now.since(*last) <= resource[*limit].spec().period.max(UNDERESTIMATED))
        });
        let suspects =
            blamed.iter().map(|limit| bill.bucket(*limit)).filter(|bucket| self.measured.contains_key(bucket));
        let Some(bucket) = suspects.max_by_key(|bucket| self.measured[bucket].evidence_and_share().0) else {
            counted.count(RejectionCause::Unknown);
            return None;
        };
        let measured = self.measured.get_mut(&bucket).expect("a suspect is measured");
        measured.undecided += 1;
        let cause = match measured.evidence_and_share().0 {
            Evidence::Lower => RejectionCause::LimitTooHigh,
            Evidence::None | Evidence::Varying if lacks && is_underestimated => RejectionCause::Ours,
            Evidence::Whole if is_underestimated => RejectionCause::Ours,
            Evidence::Whole => RejectionCause::Burst,
            Evidence::Varying => RejectionCause::Strangers,
            Evidence::None => return None,
        };
        (0..std::mem::take(&mut measured.undecided)).for_each(|_| counted.count(cause));
        measured.allowed(&resource[bucket.0]).map(|allowed| (bucket, allowed))
    }

    pub(crate) fn undecided(&self) -> u64 {
        self.measured.values().map(|measured| measured.undecided).sum()
    }

    /// Returns the highest capacity that the upstream seems to allow, if far below the written one.
    pub(crate) fn allowed(&self, id: LimitId, limit: &Limit) -> Option<Amount> {
        let of_limit = self.measured.range((id, None)..).take_while(|((of, _), _)| *of == id);
        of_limit.filter_map(|(_, measured)| measured.allowed(limit)).max()
    }

    /// Samples the bucket that most likely has rejected the call: one that alone was to blame
    /// before, or else the one that has served the largest share of its capacity. Of calls that are
    /// rejected together, the last sample counts, as served calls may be reported in between.
    fn sample(&mut self, now: Time, resource: &Resource, bill: &Bill, blamed: &Limits) {
        let mut likeliest = None;
        for limit in blamed.iter().filter(|limit| !resource[**limit].counts_calls_in_flight()) {
            let (bucket, spec) = (bill.bucket(*limit), resource[*limit].spec());
            if self.measured.len() < MAX_MEASURED_BUCKETS || self.measured.contains_key(&bucket) {
                let new = || Measured {
                    served: Served::new(now, spec.period),
                    samples: VecDeque::new(),
                    undecided: 0,
                    is_convicted: false,
                };
                let measured = self.measured.entry(bucket).or_insert_with(new);
                measured.is_convicted |= blamed.len() == 1;
                let (sample, was) = (measured.served.sample(now, resource[*limit].has_tokens()), measured.is_convicted);
                let sample = sample.map(|(amount, is_new)| (was, share(amount, spec.capacity), *limit, is_new));
                likeliest = likeliest.max(sample);
            }
        }
        let Some((_, share, limit, is_new)) = likeliest else { return };
        let samples = &mut self.measured.get_mut(&bill.bucket(limit)).expect("it is measured").samples;
        if is_new {
            samples.push_back(share);
        } else if let Some(last) = samples.back_mut() {
            *last = share;
        }
        samples.drain(..samples.len().saturating_sub(MAX_SAMPLES));
    }
}

impl Measured {
    /// Returns the capacity that the upstream seems to allow, if far below that of `limit`.
    fn allowed(&self, limit: &Limit) -> Option<Amount> {
        let (evidence, share) = self.evidence_and_share();
        let micros = u128::from(limit.spec().capacity.micros()) * u128::from(share) / u128::from(ALL);
        (evidence == Evidence::Lower).then(|| Amount::from_micros(u64::try_from(micros).ok()?).ok()).flatten()
    }

    /// Returns the evidence of the samples, and the share that is allowed. Only the larger half of
    /// them counts: before the smaller ones, fewer calls were wanted. The share is the second
    /// largest, as the largest may include a stock from a time without calls.
    fn evidence_and_share(&self) -> (Evidence, Ppm) {
        let mut samples = Vec::from(self.samples.clone());
        samples.sort_unstable_by(|one, other| other.cmp(one));
        if samples.len() < MIN_SAMPLES {
            return (Evidence::None, 0);
        }
        let (largest, most, least) = (samples[0], samples[1], samples[(samples.len() - 1) / 2]);
        let evidence = match least {
            WHOLE.. if largest - least < largest / EQUAL_PART => Evidence::Whole,
            ..LOWER if most - least < most / EVEN_PART => Evidence::Lower,
            _ => Evidence::Varying,
        };
        (evidence, most)
    }
}

fn share(micros: u64, capacity: Amount) -> Ppm {
    let ppm = u128::from(micros) * u128::from(ALL) / u128::from(capacity.micros().max(1));
    Ppm::try_from(ppm).unwrap_or(Ppm::MAX)
}

/// The evidence of a bucket's samples. The greatest one of several buckets counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    None,
    Whole,
    Varying,
    Lower,
}

/// The amount in millionths that a bucket has served in the last period and since the last sample.
#[derive(Clone, Debug)]
struct Served {
    part: Span,
    /// The numbers of the present part and of the one of the last sample, since the origin of time.
    present: u64,
    sampled: u64,
    /// The number of parts from the last sample to the next one.
    wait: u64,
    since_sample: u64,
    parts: [u64; PARTS],
}

impl Served {
    fn new(now: Time, period: Span) -> Self {
        let part = Span::from_nanos((period.nanos() / PARTS as u64).max(1));
        let present = now.since(Time::ORIGIN).nanos() / part.nanos();
        Served { part, present, sampled: present, wait: PARTS as u64, since_sample: 0, parts: [0; PARTS] }
    }

    fn add(&mut self, now: Time, amount: Amount) {
        self.advance(now);
        for counter in [&mut self.parts[self.present as usize % PARTS], &mut self.since_sample] {
            *counter = counter.saturating_add(amount.micros());
        }
    }

    /// Returns the amount served in a period, once it was measured for so long: in the last one, or
    /// on average since the last sample. Also returns whether this sample is new, and not of calls
    /// that were rejected together with the last ones.
    fn sample(&mut self, now: Time, on_average: bool) -> Option<(u64, bool)> {
        self.advance(now);
        let passed = self.present - self.sampled;
        let is_new = passed >= self.wait;
        let in_last_period = self.parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
        let on_average_since = self.since_sample.saturating_mul(PARTS as u64) / passed.max(1);
        if is_new {
            (self.since_sample, self.sampled, self.wait) = (0, self.present, PARTS_BETWEEN_SAMPLES);
        }
        match (on_average, is_new) {
            (true, true) => Some((on_average_since, true)),
            (false, true) => Some((in_last_period, true)),
            (false, false) if self.wait == PARTS_BETWEEN_SAMPLES => Some((in_last_period, false)),
            (true | false, false) => None,
        }
    }

    fn advance(&mut self, now: Time) {
        let present = now.since(Time::ORIGIN).nanos() / self.part.nanos();
        let passed = present.saturating_sub(self.present).min(PARTS as u64);
        (0..passed).for_each(|back| self.parts[present.wrapping_sub(back) as usize % PARTS] = 0);
        self.present = self.present.max(present);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::spec::{Applies, LimitSpec, ResourceSpec};
    use rampmeter_protocol::name::Name;

    /// Reaches `MAX_MEASURED_BUCKETS` and `MAX_SAMPLES`.
    #[test]
    fn many_keys_that_are_rejected_for_long_take_bounded_memory() {
        let name = |name| Name::new(name).unwrap();
        let applies = Applies { key: vec!["user".to_owned()], ..Applies::default() };
        let spec = LimitSpec::new(name("each"), name("requests"), Amount::ONE, Span::from_secs(1));
        let resource = Resource::new(&ResourceSpec::new(name("api"), vec![LimitSpec { applies, ..spec }])).unwrap();
        let (limit, mut rejections, mut counted) = (LimitId(0), Rejections::default(), status::Rejections::default());
        for (second, key) in (0..20).flat_map(|second| (0..=MAX_MEASURED_BUCKETS).map(move |key| (second, key))) {
            let (now, mut bill) = (Time::ORIGIN + Span::from_secs(second), Bill::default());
            bill.charge(limit, Some(key.to_string().into()), Amount::ONE);
            rejections.count(now, &resource, &bill, &Limits::from_slice(&[limit]), false, &mut counted);
        }
        assert_eq!(rejections.measured.len(), MAX_MEASURED_BUCKETS);
        assert!(rejections.measured.values().all(|measured| measured.samples.len() == MAX_SAMPLES));
    }
}
