//! Policies as text.

use crate::{
    Amount, AmountError, Policy, PolicyError,
    policy::model::{FIXED_WINDOW, Model, PHASE, Variant},
};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use std::{collections::BTreeSet, error::Error, fmt, str::FromStr, time::Duration};

const NO_OPTION: &str = "is no option; there are burst=…, start=…, tick=…, whole, fixed-window, phase=…, first-use, sliding-window \
     and leaky-bucket";

struct StatedOption<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut parts = text.split(';');
        let plain = read_plain(parts.next().unwrap_or_default())?;
        let mut seen = BTreeSet::new();
        parts.try_fold(plain, |policy, text| {
            let stated = StatedOption::read(text.trim());
            if !seen.insert(stated.name) {
                return Err(PolicyError::new(format!("`{}` stands there twice; leave one out", stated.name)));
            }
            stated.add_to(policy)
        })
    }
}

impl fmt::Display for Policy {
    /// Writes the text that parses as this policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}/{}{}", self.unit(), self.capacity(), printed(self.period()), self.model())
    }
}

impl fmt::Display for Model {
    /// Writes what follows the period.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variant() {
            Ok(variant) => variant.fmt(f),
            Err(option) => write!(f, ";{option}"),
        }?;
        match self.phase_ns() {
            0 => Ok(()),
            phase_ns => write!(f, ";{PHASE}={}", printed(Duration::from_nanos(phase_ns))),
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(burst) = self.burst {
            write!(f, ";burst={burst}")?;
        }
        if let Some(start) = self.start {
            write!(f, ";start={start}")?;
        }
        if let Some(tick_ns) = self.tick_ns {
            write!(f, ";tick={}", printed(Duration::from_nanos(tick_ns.get())))?;
        }
        if self.whole {
            f.write_str(";whole")?;
        }
        Ok(())
    }
}

impl<'a> StatedOption<'a> {
    fn read(text: &'a str) -> Self {
        match text.split_once('=') {
            Some((name, value)) => Self { name: name.trim_end(), value: Some(value.trim_start()) },
            None => Self { name: text, value: None },
        }
    }

    fn add_to(&self, policy: Policy) -> Result<Policy, PolicyError> {
        match self.name {
            "burst" => policy.with_burst(self.amount()?),
            "start" => policy.starting_at(self.amount()?),
            "tick" => policy.ticking(self.duration()?),
            "whole" => self.flag(policy)?.dropping_fractions(),
            FIXED_WINDOW => self.flag(policy)?.fixed_window(),
            PHASE => policy.with_phase(self.duration()?),
            "first-use" => self.flag(policy)?.first_use_window(),
            "sliding-window" => self.flag(policy)?.sliding_window(),
            "leaky-bucket" => self.flag(policy)?.leaky_bucket(),
            unknown => {
                let value = self.value.map_or(String::new(), |value| format!("={value}"));
                Err(PolicyError::new(format!("`{unknown}{value}` {NO_OPTION}")))
            }
        }
    }

    fn amount(&self) -> Result<Amount, PolicyError> {
        let (name, text) = (self.name, self.value.unwrap_or_default());
        let reason = || format!("{name}: `{text}` is no amount, for example {name}=40");
        text.parse().map_err(|source: AmountError| PolicyError::caused_by(source, reason()))
    }

    fn duration(&self) -> Result<Duration, PolicyError> {
        let (name, text) = (self.name, self.value.unwrap_or_default());
        let reason = || format!("{name}: `{text}` is no duration, for example {name}=1s");
        let duration = read_duration(text).and_then(Duration::try_from);
        duration.map_err(|source| PolicyError::caused_by(source, reason()))
    }

    fn flag(&self, policy: Policy) -> Result<Policy, PolicyError> {
        let reason = |text| format!("{}: `{text}` is too much, the option takes no value", self.name);
        self.value.map_or(Ok(policy), |text| Err(PolicyError::new(reason(text))))
    }
}

fn read_plain(text: &str) -> Result<Policy, PolicyError> {
    let shape = || PolicyError::new(format!("`{text}` is not unit=capacity/period, for example requests=50/10s"));
    let (unit, rate) = text.split_once('=').ok_or_else(shape)?;
    let (capacity, period) = rate.split_once('/').ok_or_else(shape)?;
    let (unit, capacity) = (read(unit.trim(), "names no unit")?, read(capacity.trim(), "is no capacity")?);
    Policy::new(unit, capacity, read_period(period.trim())?)
}

fn read<T: FromStr<Err: Error + Send + Sync + 'static>>(text: &str, fault: &str) -> Result<T, PolicyError> {
    text.parse().map_err(|source| PolicyError::caused_by(source, format!("`{text}` {fault}")))
}

fn read_period(text: &str) -> Result<Duration, PolicyError> {
    let reason = || format!("`{text}` is no period, for example 10s or PT10S");
    let period = read_duration(text).map_err(|source| PolicyError::caused_by(source, reason()))?;
    Duration::try_from(period).map_err(|_| PolicyError::new("the period is negative"))
}

/// Parses a duration of a fixed length, which may be negative.
pub(crate) fn read_duration(text: &str) -> Result<SignedDuration, jiff::Error> {
    text.parse::<Span>()?.to_duration(SpanRelativeTo::days_are_24_hours())
}

/// Converts to the type that prints a duration; 2⁶⁴ nanoseconds fit by far.
fn printed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    #[test]
    fn good_texts_are_read_and_printed() {
        #[rustfmt::skip]
        let table = [
            // text,                          unit,               micros,       period,
            // printed
            ("requests=50/10s",               "requests",         50_000_000,   10_000_000_000,    "requests=50/PT10S"),
            ("processing-units=200/10s",      "processing-units", 200_000_000,  10_000_000_000,    "processing-units=200/PT10S"),
            ("requests=1000/PT1M",            "requests",         1_000_000_000, 60_000_000_000,   "requests=1000/PT1M"),
            ("requests=1/PT744H",             "requests",         1_000_000,    744 * HOUR_NS,     "requests=1/PT744H"),
            ("requests=1/PT0S",               "requests",         1_000_000,    0,                 "requests=1/PT0S"),
            ("tokens=0.5/1 minute 30 seconds", "tokens",          500_000,      90_000_000_000,    "tokens=0.5/PT1M30S"),
            (" requests = 2 / 100 ms ",       "requests",         2_000_000,    100_000_000,       "requests=2/PT0.1S"),
            ("requests=2/P1D",                "requests",         2_000_000,    24 * HOUR_NS,      "requests=2/PT24H"),
        ];
        for (text, unit, micros, period_ns, printed) in table {
            let policy: Policy = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(policy.unit().as_str(), unit, "{text}");
            assert_eq!(policy.capacity().micros(), micros, "{text}");
            assert_eq!(policy.period(), Duration::from_nanos(period_ns), "{text}");
            assert_eq!(policy.to_string(), printed);
            assert_eq!(printed.parse::<Policy>().unwrap(), policy);
        }
    }

    #[test]
    fn options_are_read_in_any_order_and_printed_in_one() {
        #[rustfmt::skip]
        let table = [
            // options,                                   printed
            ("burst=40",                                  "burst=40"),
            ("start=0",                                   "start=0"),
            ("tick=1s",                                   "tick=PT1S"),
            ("tick=1 minute 500 ms",                      "tick=PT1M0.5S"),
            ("whole",                                     "whole"),
            ("tick=1s;whole;burst=40;start=0",            "burst=40;start=0;tick=PT1S;whole"),
            ("start=2.5;burst=2.5",                       "burst=2.5;start=2.5"),
            (" burst = 50 ; whole ",                      "burst=50;whole"),
            ("fixed-window",                              "fixed-window"),
            ("phase=3s",                                  "fixed-window;phase=PT3S"),
            ("phase=3s;fixed-window",                     "fixed-window;phase=PT3S"),
            ("fixed-window;phase=3s",                     "fixed-window;phase=PT3S"),
            ("fixed-window;phase=0s",                     "fixed-window"),
            ("first-use",                                 "first-use"),
            ("sliding-window",                            "sliding-window"),
            ("leaky-bucket",                              "leaky-bucket"),
        ];
        for (options, printed) in table {
            let policy: Policy =
                format!("requests=50/10s;{options}").parse().unwrap_or_else(|e| panic!("{options}: {e}"));
            assert_eq!(policy.to_string(), format!("requests=50/PT10S;{printed}"));
            assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
        }
    }

    #[test]
    fn bad_texts_are_refused_with_their_reason() {
        #[rustfmt::skip]
        let table = [
            ("",                         "`` is not unit=capacity/period, for example requests=50/10s"),
            ("50/10s",                   "`50/10s` is not unit=capacity/period, for example requests=50/10s"),
            ("=50/10s",                  "`` names no unit"),
            ("Requests=50/10s",          "`Requests` names no unit"),
            ("requests=many/10s",        "`many` is no capacity"),
            ("requests=0.0000001/10s",   "`0.0000001` is no capacity"),
            ("requests=0/10s",           "the capacity is zero"),
            ("requests=50/",             "`` is no period, for example 10s or PT10S"),
            ("requests=50/10",           "`10` is no period, for example 10s or PT10S"),
            ("requests=50/P1M",          "`P1M` is no period, for example 10s or PT10S"),
            ("requests=50/-PT10S",       "the period is negative"),
            ("requests=50/PT5200000H",   "the period is longer than 584 years"),
        ];
        for (text, reason) in table {
            assert_eq!(text.parse::<Policy>().unwrap_err().to_string(), reason, "{text}");
        }
    }

    #[test]
    fn bad_options_are_refused_with_their_reason() {
        const NO_OPTION: &str = "is no option; there are burst=…, start=…, tick=…, whole, fixed-window, phase=…, first-use, sliding-window \
             and leaky-bucket";
        const BURST: &str = "is out of bounds: more than 0 and at most the capacity, 50";
        const START: &str = "is out of bounds: at most what the bucket holds,";
        const TICK: &str = "is out of bounds: more than 0 s and at most 584 years; leave it out for an even refill";
        const TOGETHER: &str = "do not go together; leave one of them out";
        const REFILLS: &str = "needs a policy that refills: give it a period above zero, or leave the option out";
        #[rustfmt::skip]
        let table = [
            ("requests=50/10s;",                         format!("`` {NO_OPTION}")),
            ("requests=50/10s;size=4",                   format!("`size=4` {NO_OPTION}")),
            ("requests=50/10s;whole;whole",              "`whole` stands there twice; leave one out".to_owned()),
            ("requests=50/10s;burst",                    "burst: `` is no amount, for example burst=40".to_owned()),
            ("requests=50/10s;burst=many",               "burst: `many` is no amount, for example burst=40".to_owned()),
            ("requests=50/10s;start=-1",                 "start: `-1` is no amount, for example start=40".to_owned()),
            ("requests=50/10s;tick=1",                   "tick: `1` is no duration, for example tick=1s".to_owned()),
            ("requests=50/10s;whole=1",                  "whole: `1` is too much, the option takes no value".to_owned()),
            ("requests=50/10s;burst=0",                  format!("burst=0 {BURST}")),
            ("requests=50/10s;burst=50.000001",          format!("burst=50.000001 {BURST}")),
            ("requests=50/10s;start=50.000001",          format!("start=50.000001 {START} 50")),
            ("requests=50/10s;burst=4;start=5",          format!("start=5 {START} 4")),
            ("requests=50/10s;tick=0s",                  format!("tick=0ns {TICK}")),
            ("requests=50/10s;tick=PT5200000H",          format!("tick=18720000000s {TICK}")),
            ("requests=50/10s;fixed-window;whole",       format!("`whole` and `fixed-window` {TOGETHER}")),
            ("requests=50/10s;whole;burst=4;leaky-bucket", format!("`leaky-bucket` and `burst` {TOGETHER}")),
            ("requests=50/10s;first-use;phase=1s",       format!("`phase` and `first-use` {TOGETHER}")),
            ("requests=50/10s;whole;phase=1s",           format!("`phase` and `whole` {TOGETHER}")),
            ("requests=50/10s;phase=10s",                "phase=10s is out of bounds: less than the period of 10s".to_owned()),
            ("requests=50/10s;leaky-bucket;fixed-window", format!("`fixed-window` and `leaky-bucket` {TOGETHER}")),
            ("requests=50/PT0S;tick=1s",                 format!("`tick` {REFILLS}")),
            ("requests=50/PT0S;fixed-window",            format!("`fixed-window` {REFILLS}")),
            ("requests=50/PT0S;leaky-bucket",            format!("`leaky-bucket` {REFILLS}")),
        ];
        for (text, reason) in table {
            assert_eq!(text.parse::<Policy>().unwrap_err().to_string(), reason, "{text}");
        }
    }
}
