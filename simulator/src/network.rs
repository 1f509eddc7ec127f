//! Delays and losses of messages and calls.

use crate::rng::Rng;
use rampmeter_protocol::time::{Span, Time};

/// A delay distributed evenly between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The shortest delay.
    pub least: Span,
    /// The longest delay.
    pub most: Span,
}

impl Delay {
    /// Creates a constant delay.
    #[must_use]
    pub const fn fixed(span: Span) -> Self {
        Delay { least: span, most: span }
    }

    /// Creates a delay from zero to `most`.
    #[must_use]
    pub const fn up_to(most: Span) -> Self {
        Delay { least: Span::ZERO, most }
    }

    pub(crate) fn draw(self, dice: &mut Rng) -> Span {
        dice.between(self.least, self.most)
    }
}

/// The paths between workers, scheduler and upstream. The margin has to cover the *variation* of the delays of a grant
/// and its call together. Faults affect only messages between workers and scheduler: each call arrives once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// From a worker to the scheduler.
    pub request: Delay,
    /// From the scheduler to a worker.
    pub grant: Delay,
    /// From a worker to the upstream.
    pub call: Delay,
    /// From a call's arrival to the receipt of its response.
    pub response: Delay,
    /// Fraction of messages that never arrive.
    pub loss: f64,
    /// Fraction of messages that arrive twice.
    pub duplicates: f64,
    /// Fraction of messages that may overtake others of the same sender and receiver.
    pub reordering: f64,
}

impl Default for Network {
    /// No faults; 1 ms to the scheduler, up to 20 ms back, 5 ms to the upstream, 50 to 150 ms to its response.
    fn default() -> Self {
        Network {
            request: Delay::fixed(Span::from_millis(1)),
            grant: Delay::up_to(Span::from_millis(20)),
            call: Delay::fixed(Span::from_millis(5)),
            response: Delay { least: Span::from_millis(50), most: Span::from_millis(150) },
            loss: 0.0,
            duplicates: 0.0,
            reordering: 0.0,
        }
    }
}

impl Network {
    /// Returns when a message sent now arrives: never, once or twice.
    pub(crate) fn carry(&self, dice: &mut Rng, now: Time, way: &mut Way) -> impl Iterator<Item = Time> + use<> {
        let first = (!dice.happens(self.loss)).then(|| self.arrival(dice, now, way));
        let again = dice.happens(self.duplicates).then(|| self.arrival(dice, now, way));
        first.into_iter().chain(again)
    }

    fn arrival(&self, dice: &mut Rng, now: Time, way: &mut Way) -> Time {
        let arrival = now + way.delay.draw(dice);
        if dice.happens(self.reordering) {
            return arrival;
        }
        way.last = way.last.max(arrival);
        way.last
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    delay: Delay,
    /// Latest arrival of a message that kept the order.
    last: Time,
}

impl Way {
    pub(crate) fn new(delay: Delay) -> Self {
        Way { delay, last: Time::ORIGIN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a thousand messages, one in a millisecond: how many arrive, and how many of those out of order.
    fn carried(network: Network) -> (usize, usize) {
        let (dice, mut way) = (&mut Rng::new(1), Way::new(Delay::up_to(Span::from_millis(20))));
        let sent = (0..1000).map(|millis| Time::ORIGIN + Span::from_millis(millis));
        let arrivals: Vec<Time> = sent.flat_map(|now| network.carry(dice, now, &mut way).collect::<Vec<_>>()).collect();
        let overtaken = arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count();
        (arrivals.len(), overtaken)
    }

    #[test]
    fn messages_are_lost_doubled_and_reordered_as_often_as_is_said() {
        let faultless = Network::default();
        assert_eq!(carried(faultless), (1000, 0));
        let (arrived, overtaken) = carried(Network { loss: 0.1, ..faultless });
        assert!((880..920).contains(&arrived) && overtaken == 0, "{arrived} {overtaken}");
        let (arrived, overtaken) = carried(Network { duplicates: 0.1, ..faultless });
        assert!((1080..1120).contains(&arrived) && overtaken == 0, "{arrived} {overtaken}");
        let (arrived, overtaken) = carried(Network { reordering: 0.5, ..faultless });
        assert!(arrived == 1000 && (200..500).contains(&overtaken), "{arrived} {overtaken}");
    }
}
