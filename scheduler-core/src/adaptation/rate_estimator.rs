//! What a limit turns out to be at the upstream.
//!
//! Others use the account too, an upstream refills more slowly than it says, or holds less. All of that shows as a shortfall
//! whenever the upstream's level becomes known: it has less than the bucket says. Over the time since the level was last
//! known, the shortfall is a *loss* of rate. It is given back along a cubic, as in CUBIC (Ha, Rhee and Xu, 2008; RFC 9438),
//! slowly where it was right just now and faster the longer nothing speaks against it: additive increase would either ask
//! for rejections all the time or need minutes to come back.

use super::learned::{LearnedSnapshot, LimitPolicy};
use crate::arithmetic::{Credit, STEPS};
use crate::policy::Limit;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::status::Learned;
use rampmeter_protocol::time::{Span, Time};

/// A millionth of the nominal rate.
type Ppm = u64;
const ALL: Ppm = 1_000_000;

/// A loss of rate is given back within this time.
const RECOVERY: Span = Span::from_secs(60);
/// How the part that is given back grows with time.
const CURVE: u32 = 5;
/// A loss below this is worth little, and is given back more slowly.
const SMALL_LOSS: Ppm = 100_000;
const LONGEST_RECOVERY: Span = Span::from_secs(600);
/// How much of an estimate is believed: half, if it was made over this time.
const HALF_BELIEVED: Span = Span::from_secs(10);
/// What is held back against losses that are not even, as the refill of this time: at the first, and at most.
const FIRST_STOCK: Span = Span::from_millis(250);
const MOST_STOCK: Span = Span::from_secs(2);
/// At most one part in this many of a full bucket is held back.
const STOCK_PART: u64 = 5;
/// How often what is learned is looked at again.
const REVIEW: Span = Span::from_secs(1);

/// What is known of how one bucket of the upstream's differs from its limit.
#[derive(Clone, Debug)]
pub(crate) struct RateEstimator {
    /// The limit as it is configured.
    pub(crate) nominal: Limit,
    /// The loss of rate as it was last estimated, and when.
    loss: Ppm,
    estimated: Time,
    /// When the upstream's level was last known.
    pub(crate) known: Option<Time>,
    /// What refilling slower has kept back since then, and until when that is counted.
    kept_back: Credit,
    counted: Time,
    /// Held back against losses that are not even: by so much levels lie below the upstream's, beside the margin.
    pub(crate) stock: Credit,
    /// What a full bucket holds less than its limit says.
    burst: Credit,
}

impl RateEstimator {
    /// One that knows of nothing yet.
    pub(crate) fn new(now: Time, limit: &Limit) -> Self {
        RateEstimator {
            nominal: limit.clone(),
            loss: 0,
            estimated: now,
            known: None,
            kept_back: Credit::ZERO,
            counted: now,
            stock: Credit::ZERO,
            burst: Credit::ZERO,
        }
    }

    /// The most of the rate that is taken away; none where nothing is to be learned.
    fn most_loss(&self) -> Option<Ppm> {
        self.nominal.floor().map(|floor| ALL.saturating_sub(Ppm::from(floor)))
    }

    /// One that goes on from what another knew of the limit at `then`, within the bounds of what can be learned of it; none where that
    /// was of another policy.
    pub(crate) fn resumed(&self, then: Time, mark: &LearnedSnapshot) -> Option<Self> {
        let limit = &self.nominal;
        let most_loss = self.most_loss().filter(|_| mark.policy == LimitPolicy::of(limit))?;
        let ago = |nanos| then - Span::from_nanos(nanos);
        let credit = |micros| limit.rate().credit_of_micros(i128::from(micros));
        let known = mark.known_nanos.map(ago);
        let most_kept_back = limit.rate().refill_within(known.map_or(Span::ZERO, |known| then.since(known)));
        Some(RateEstimator {
            loss: mark.loss_ppm.min(most_loss),
            estimated: ago(mark.estimated_nanos),
            known,
            kept_back: credit(mark.kept_back_micros).min(most_kept_back),
            stock: credit(mark.stock_micros).min(most_stock(limit)),
            burst: credit(mark.burst_micros).min(limit.full()),
            ..RateEstimator::new(then, limit)
        })
    }

    /// What another has to know at `now` to go on, if there is anything.
    pub(crate) fn checkpoint(&self, now: Time) -> Option<LearnedSnapshot> {
        if self.most_loss().is_none() || self.known.is_none() && !self.differs() {
            return None;
        }
        let since = |time: Time| now.since(time).nanos();
        let micros = |credit| self.nominal.rate().micros_up(credit);
        Some(LearnedSnapshot {
            policy: LimitPolicy::of(&self.nominal),
            loss_ppm: self.loss,
            estimated_nanos: since(self.estimated),
            known_nanos: self.known.map(since),
            kept_back_micros: micros(self.kept_back_until(now)),
            stock_micros: micros(self.stock),
            burst_micros: micros(self.burst),
        })
    }

    /// How the limit is kept otherwise than it is configured, for people.
    pub(crate) fn report(&self, now: Time) -> Option<Learned> {
        let held_back = self.nominal.rate().units(self.short());
        self.differs().then(|| Learned { rate: 1.0 - self.loss(now) as f64 / ALL as f64, held_back })
    }

    /// Whether anything differs from the limit.
    fn differs(&self) -> bool {
        self.loss > 0 || self.short() > Credit::ZERO
    }

    /// When it is to be [reviewed](RateEstimator::review) again, if anything differs from the limit.
    pub(crate) fn next_review(&self) -> Option<Time> {
        self.differs().then_some(self.counted + REVIEW)
    }

    /// The loss of rate at `time`, no earlier than it was estimated.
    fn loss(&self, time: Time) -> Ppm {
        let (gone, whole) = (time.since(self.estimated).nanos(), recovery(self.loss).nanos());
        let thousandths = (u128::from(gone) * 1000 / u128::from(whole)).min(1000);
        let left = 1000_u128.pow(CURVE) - thousandths.pow(CURVE);
        Ppm::try_from((u128::from(self.loss) * left).div_ceil(1000_u128.pow(CURVE))).unwrap_or(ALL)
    }

    /// What is held back of a full bucket.
    fn short(&self) -> Credit {
        self.stock + self.burst
    }

    /// By how many steps of [`STEPS`] the rate in use at `time` is slower.
    fn slower(&self, time: Time) -> u16 {
        (self.loss(time) * u64::from(STEPS)).div_ceil(ALL).min(u64::from(STEPS) - 1) as u16
    }

    /// The limit as it is kept at `now`.
    pub(crate) fn adapted(&self, now: Time) -> Limit {
        self.nominal.adapted(self.slower(now), self.short())
    }

    /// Counts what the rate in use has kept back, and forgets what has been given back whole. The limit is as [adapted](RateEstimator::adapted)
    /// to `now` from now on.
    pub(crate) fn review(&mut self, now: Time) {
        self.kept_back = self.kept_back_until(now);
        self.counted = now;
        if self.loss > 0 && self.loss(now) == 0 {
            (self.loss, self.stock) = (0, Credit::ZERO);
        }
        if now.since(self.estimated) >= LONGEST_RECOVERY {
            (self.stock, self.burst) = (Credit::ZERO, Credit::ZERO);
        }
    }

    /// Learns that the upstream has `short` less than it should: it is the rate that has lost that since the level was last
    /// known. `full` is when the bucket was last full, if it was. Returns what is held back on top of it from now on.
    pub(crate) fn fall_short(&mut self, now: Time, short: Credit, full: Option<Time>) -> Credit {
        self.review(now);
        let before = self.stock;
        let kept_back = std::mem::take(&mut self.kept_back);
        let (Some(known), Some(most_loss)) = (self.known.replace(now), self.most_loss()) else { return Credit::ZERO };
        match full.filter(|full| *full > known) {
            Some(full) if now.since(full) < self.nominal.spec().period => self.burst += short,
            Some(full) => self.lose_rate(now, most_loss, short, now.since(full)),
            None => self.lose_rate(now, most_loss, short + kept_back, now.since(known)),
        }
        self.stock - before
    }

    /// What refilling slower has kept back; the rate in use was set when that was last counted.
    fn kept_back_until(&self, now: Time) -> Credit {
        let (rate, span) = (self.nominal.rate(), now.since(self.counted));
        self.kept_back + rate.refill_within(span) - rate.slowed(self.slower(self.counted)).refill_within(span)
    }

    fn lose_rate(&mut self, now: Time, most_loss: Ppm, lost: Credit, within: Span) {
        let limit = &self.nominal;
        let refill = limit.rate().refill_within(within);
        let measured = lost.ppm_of(refill).min(most_loss);
        let (span, half) = (u128::from(within.nanos()), u128::from(HALF_BELIEVED.nanos()));
        let blend = (u128::from(measured) * span + u128::from(self.loss) * half).div_ceil(span + half);
        let blend = Ppm::try_from(blend).unwrap_or(ALL).min(most_loss);
        let step = limit.rate().refill_within(FIRST_STOCK) + limit.rate().credit(Amount::ONE);
        self.stock = (self.stock + self.stock.divided_by(2) + step).min(most_stock(limit));
        self.loss = blend.max(self.loss(now));
        self.estimated = now;
    }
}

/// The most that is held back against losses that are not even.
fn most_stock(limit: &Limit) -> Credit {
    limit.rate().refill_within(MOST_STOCK).min(limit.full().divided_by(STOCK_PART))
}

/// In which time a loss is given back.
fn recovery(loss: Ppm) -> Span {
    if loss >= SMALL_LOSS {
        return RECOVERY;
    }
    let nanos = u128::from(RECOVERY.nanos()) * u128::from(SMALL_LOSS) / u128::from(loss.max(1));
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(LONGEST_RECOVERY)
}
