//! Estimates how the upstream enforces a limit.
//!
//! Other users may share the account, or the upstream may refill more slowly or hold less than
//! documented. Each shows as a shortfall when the upstream's level becomes known. Divided by the
//! time since the level was last known, a shortfall is a *loss* of rate.
//!
//! A loss is given back slowly at first and then faster, as in CUBIC (Ha, Rhee and Xu, 2008; RFC
//! 9438), but with a fifth power: additive increase would either provoke rejections all the time or
//! need minutes to recover. A loss of most of the rate is given back more slowly each time it
//! recurs.
//!
//! An upstream that refills in ticks lacks at most what one tick brings. The first rejections show
//! that as a loss, which `stock` then holds back, so the tick itself is not estimated.

use rampmeter_policy::Limit;
use rampmeter_policy::arithmetic::{Credit, STEPS};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::status::Learned;
use rampmeter_protocol::time::{Span, Time};

/// A millionth of the nominal rate.
type Ppm = u64;
const WHOLE: Ppm = 1_000_000;

/// The time in which a loss is given back.
const RECOVERY: Span = Span::from_secs(60);
const CURVE: u32 = 5;
/// A loss below this costs little, so it is given back more slowly.
const SMALL_LOSS: Ppm = 100_000;
/// A loss above this lasts, as the limit is probably written too high: each time that it is
/// measured again, it takes longer by this factor to be given back.
const LARGE_LOSS: Ppm = 600_000;
const REPEATED: u64 = 4;
/// The smallest losses are given back in the time that refills this many tokens, within these
/// bounds: a small account makes few calls between two rejections, so it has to remember longer.
const REMEMBERED_TOKENS: u64 = 2400;
const LONGEST_RECOVERY: (Span, Span) = (Span::from_secs(600), Span::from_secs(3600));
/// An estimate measured over this time has a weight of one half; the weight grows with the time.
const HALF_BELIEVED: Span = Span::from_secs(10);
/// The reserve of stock against uneven losses, as refill time: after the first loss, and at most.
const FIRST_STOCK: Span = Span::from_millis(250);
const MAX_STOCK: Span = Span::from_secs(2);
/// [`MAX_STOCK`] is at least this many tokens, so that a small account can leave some to others.
const MAX_STOCK_TOKENS: u64 = 8;
/// At most one part in this many of a period's refill is held back.
const STOCK_PART: u64 = 5;
const REVIEW: Span = Span::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct RateEstimator {
    pub(super) nominal: Limit,
    /// The capacity that the upstream states, if that is less than the nominal one.
    stated: Option<Amount>,
    /// The last estimated loss of rate, and its time.
    loss: Ppm,
    estimated: Time,
    recovery: Span,
    /// The time at which the level of the upstream was last known.
    pub(super) known: Option<Time>,
    /// The refill that the slower rate has kept back since `known`, counted until `counted`.
    kept_back: Credit,
    counted: Time,
    /// The reserve against uneven losses, by which levels lie below the upstream's.
    pub(super) stock: Credit,
    /// The deficit of a full bucket.
    burst: Credit,
}

impl RateEstimator {
    pub(crate) fn new(now: Time, limit: &Limit) -> Self {
        RateEstimator {
            nominal: limit.clone(),
            stated: None,
            loss: 0,
            estimated: now,
            recovery: RECOVERY,
            known: None,
            kept_back: Credit::ZERO,
            counted: now,
            stock: Credit::ZERO,
            burst: Credit::ZERO,
        }
    }

    /// Adopts a stated capacity. The caller then enforces `adapted` at `now`.
    pub(crate) fn state(&mut self, now: Time, stated: Option<Amount>) {
        self.review(now);
        self.stated = stated;
    }

    pub(crate) fn stated(&self) -> Option<Amount> {
        self.stated
    }

    fn stated_loss(&self) -> Ppm {
        let Some(stated) = self.stated else { return 0 };
        let (stated, nominal) = (u128::from(stated.micros()), u128::from(self.nominal.spec().capacity.micros()));
        let kept = stated * u128::from(WHOLE) / nominal.max(1);
        WHOLE.saturating_sub(Ppm::try_from(kept).unwrap_or(WHOLE))
    }

    /// Returns the largest loss of rate to assume; `None` if the limit never learns.
    fn max_loss(&self) -> Option<Ppm> {
        self.nominal.floor().map(|floor| WHOLE.saturating_sub(Ppm::from(floor)))
    }

    pub(crate) fn report(&self, now: Time) -> Option<Learned> {
        let held_back = self.nominal.rate().units(self.short());
        let differs = self.differs() || self.stated.is_some();
        differs.then(|| Learned { rate: 1.0 - self.loss(now) as f64 / WHOLE as f64, held_back })
    }

    fn differs(&self) -> bool {
        self.loss > 0 || self.short() > Credit::ZERO
    }

    /// Returns the time of the next [review](RateEstimator::review), if anything differs.
    pub(crate) fn next_review(&self) -> Option<Time> {
        self.differs().then_some(self.counted + REVIEW)
    }

    /// Returns the loss of rate at `time`, which is not before the estimate.
    fn loss(&self, time: Time) -> Ppm {
        self.estimated_loss(time).max(self.stated_loss())
    }

    fn estimated_loss(&self, time: Time) -> Ppm {
        if self.loss == 0 {
            return 0;
        }
        let whole = self.recovery.nanos();
        let elapsed = time.since(self.estimated).nanos();
        let thousandths = (u128::from(elapsed) * 1000 / u128::from(whole)).min(1000);
        let left = 1000_u128.pow(CURVE) - thousandths.pow(CURVE);
        Ppm::try_from((u128::from(self.loss) * left).div_ceil(1000_u128.pow(CURVE))).unwrap_or(WHOLE)
    }

    fn short(&self) -> Credit {
        self.stock + self.burst
    }

    /// Returns by how many [`STEPS`] the rate is slower at `time`.
    fn slower(&self, time: Time) -> u16 {
        (self.loss(time) * u64::from(STEPS)).div_ceil(WHOLE).min(u64::from(STEPS) - 1) as u16
    }

    pub(crate) fn adapted(&self, now: Time) -> Limit {
        let adapted = self.nominal.adapted(self.slower(now), self.short());
        self.stated.map_or(adapted.clone(), |stated| adapted.holding_at_most(stated))
    }

    /// Counts the refill kept back, and forgets recovered losses; the caller enforces `adapted`.
    pub(crate) fn review(&mut self, now: Time) {
        self.kept_back = self.kept_back_until(now);
        self.counted = now;
        if self.loss > 0 && self.estimated_loss(now) == 0 {
            (self.loss, self.stock) = (0, Credit::ZERO);
        }
        if now.since(self.estimated) >= longest_recovery(&self.nominal) {
            (self.stock, self.burst) = (Credit::ZERO, Credit::ZERO);
        }
    }

    /// Learns that the upstream lacks `short`, and returns by how much the reserve grows. The
    /// bucket was last full at `full`. The rate lost `short` since the level was last known, or
    /// since `full` if that is later; but within a period after that `full`, the bucket itself is
    /// smaller. The first known level teaches nothing.
    pub(crate) fn fall_short(&mut self, now: Time, short: Credit, full: Option<Time>) -> Credit {
        self.review(now);
        let before = self.stock;
        let kept_back = std::mem::take(&mut self.kept_back);
        let (Some(known), Some(max_loss)) = (self.known.replace(now), self.max_loss()) else { return Credit::ZERO };
        match full.filter(|full| *full > known) {
            Some(full) if now.since(full) < self.nominal.spec().period => self.burst += short,
            Some(full) => self.lose_rate(now, max_loss, short, now.since(full)),
            None => self.lose_rate(now, max_loss, short + kept_back, now.since(known)),
        }
        assert!(self.stock >= before, "a shortfall frees no reserve");
        self.stock - before
    }

    /// Returns the refill kept back until `now`, at the rate in use since `counted`.
    fn kept_back_until(&self, now: Time) -> Credit {
        let (rate, span) = (self.nominal.rate(), now.since(self.counted));
        self.kept_back + rate.refill_within(span) - rate.slowed(self.slower(self.counted)).refill_within(span)
    }

    fn lose_rate(&mut self, now: Time, max_loss: Ppm, lost: Credit, within: Span) {
        let limit = &self.nominal;
        let refill = limit.rate().refill_within(within);
        let measured = lost.ppm_of(refill).min(max_loss);
        let (span, half) = (u128::from(within.nanos()), u128::from(HALF_BELIEVED.nanos()));
        let blend = (u128::from(measured) * span + u128::from(self.loss) * half).div_ceil(span + half);
        let blend = Ppm::try_from(blend).unwrap_or(WHOLE).min(max_loss);
        let longest = longest_recovery(limit);
        self.recovery = match blend {
            LARGE_LOSS.. => Span::from_nanos(self.recovery.nanos() * REPEATED).min(longest),
            _ => recovery(blend, longest),
        };
        self.loss = blend.max(self.estimated_loss(now));
        self.estimated = now;
        let step = limit.rate().refill_within(FIRST_STOCK) + limit.rate().credit(Amount::ONE);
        let most = max_stock(&self.nominal, self.slower(now));
        self.stock = (self.stock + self.stock.divided_by(2) + step).min(most).max(self.stock);
        assert!(self.loss <= max_loss, "no more is lost than the floor leaves");
    }
}

/// Returns the largest reserve against uneven losses at a rate that is so many [`STEPS`] slower.
fn max_stock(limit: &Limit, slower: u16) -> Credit {
    let (refill, tokens) =
        (limit.rate().refill_within(MAX_STOCK), limit.rate().credit(Amount::ONE).times(MAX_STOCK_TOKENS));
    refill.max(tokens).min(limit.rate().slowed(slower).refill_within(limit.spec().period).divided_by(STOCK_PART))
}

fn longest_recovery(limit: &Limit) -> Span {
    let (least, most) = LONGEST_RECOVERY;
    let refill = limit.rate().refilled_at(limit.rate().credit(Amount::ONE).times(REMEMBERED_TOKENS));
    refill.since(Time::ORIGIN).max(least).min(most)
}

/// Returns how long a loss takes to be given back: longest for small ones on small accounts.
fn recovery(loss: Ppm, longest: Span) -> Span {
    if loss >= SMALL_LOSS {
        return RECOVERY;
    }
    let (loss, small, least) = (u128::from(loss.max(1)), u128::from(SMALL_LOSS), LONGEST_RECOVERY.0);
    let usual = (u128::from(RECOVERY.nanos()) * small / loss).min(u128::from(least.nanos()));
    let more = u128::from(longest.saturating_sub(least).nanos()) * (small * small - loss * loss) / (small * small);
    Span::from_nanos(u64::try_from(usual + more).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_policy::spec::LimitSpec;
    use rampmeter_protocol::name::Name;

    /// The stock that is held back after many losses, in tokens.
    fn stock(capacity: f64, period: Span) -> f64 {
        let name = |name| Name::new(name).unwrap();
        let spec = LimitSpec::new(name("few"), name("requests"), Amount::new(capacity).unwrap(), period);
        let limit = Limit::new(&spec, &[]);
        let mut estimator = RateEstimator::new(Time::ORIGIN, &limit);
        for number in 1..=100 {
            estimator.lose_rate(Time::ORIGIN + Span::from_secs(number), WHOLE / 2, limit.full(), period);
        }
        limit.rate().units(estimator.stock)
    }

    /// Reaches `MAX_STOCK` and `MAX_STOCK_TOKENS`.
    #[test]
    fn the_stock_that_losses_hold_back_is_bounded() {
        let hour = Span::from_secs(3600);
        assert_eq!(stock(360_000.0, hour), 200.0, "two seconds at a hundred in a second");
        assert_eq!(stock(3600.0, hour), 8.0, "eight tokens at one in a second");
        assert!((stock(10.0, hour) - 1.0).abs() < 0.01, "a fifth of five, as half of the rate is lost");
    }
}
