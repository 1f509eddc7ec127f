//! The use of each hour.

/// Days of history that count: five weeks cover every weekday several times.
pub(crate) const DAYS: usize = 35;
pub(crate) const HOURS: usize = 24;
/// The weekday of 1 January 1970, a Thursday, counted from Monday.
const FIRST_WEEKDAY: u64 = 3;
/// The first day of the weekend, from Monday on.
const SATURDAY: u64 = 5;

/// The amounts used in each hour, in UTC.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History {
    /// The first hour, since 1970.
    first: u64,
    amounts: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Day {
    /// Days since 1970.
    pub(crate) number: u64,
    pub(crate) hours: [f64; HOURS],
}

impl History {
    /// Keeps the last [`DAYS`] of `amounts`, hourly from `first` since 1970. Negative ones and NaN count as zero.
    pub(crate) fn new(first: u64, amounts: Vec<f64>) -> Self {
        let left_out = amounts.len().saturating_sub(DAYS * HOURS);
        let sound = |amount: &f64| if amount.is_finite() { amount.max(0.0) } else { 0.0 };
        History { first: first + left_out as u64, amounts: amounts[left_out..].iter().map(sound).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.amounts.len()
    }

    /// Returns the whole days. A shorter history is one day, each of whose hours has the mean.
    pub(crate) fn days(&self) -> Vec<Day> {
        let skipped = (HOURS - (self.first % HOURS as u64) as usize) % HOURS;
        let first_day = self.first.div_ceil(HOURS as u64);
        let whole = self.amounts.get(skipped..).unwrap_or_default();
        let (days, _) = whole.as_chunks::<HOURS>();
        let numbered = days.iter().zip(first_day..);
        let days: Vec<Day> = numbered.map(|(hours, number)| Day { number, hours: *hours }).collect();
        if !days.is_empty() || self.amounts.is_empty() {
            return days;
        }
        let mean = self.amounts.iter().sum::<f64>() / self.amounts.len() as f64;
        vec![Day { number: self.first / HOURS as u64, hours: [mean; HOURS] }]
    }
}

impl Day {
    pub(crate) fn total(&self) -> f64 {
        self.hours.iter().sum()
    }
}

/// Returns whether a day, counted since 1970, is a Saturday or a Sunday.
pub(crate) fn is_weekend(day: u64) -> bool {
    (day + FIRST_WEEKDAY) % 7 >= SATURDAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_whole_and_a_short_history_is_its_mean() {
        let history = History::new(24 * 100 - 3, (0..60).map(f64::from).collect());
        let days = history.days();
        assert_eq!(days.iter().map(|day| (day.number, day.hours[0])).collect::<Vec<_>>(), [(100, 3.0), (101, 27.0)]);
        let short = History::new(24 * 100 + 5, vec![1.0, 3.0, -7.0, f64::NAN]).days();
        assert_eq!(short, [Day { number: 100, hours: [1.0; HOURS] }]);
        assert_eq!(History::new(0, vec![1.0; 2000]).len(), DAYS * HOURS);
        assert!(History::default().days().is_empty());
    }

    #[test]
    fn the_tenth_of_january_2026_was_a_saturday() {
        let tenth: u64 = 20_463;
        assert_eq!(
            [-1, 0, 1, 2].map(|offset| is_weekend(tenth.checked_add_signed(offset).unwrap())),
            [false, true, true, false]
        );
    }
}
