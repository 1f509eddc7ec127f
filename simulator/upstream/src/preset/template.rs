//! Filling of header templates.

use crate::{Amount, Cost, Unit, counter::LimitState, rule::Sharing};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error};
use std::{collections::BTreeMap, fmt::Write, time::Duration};

const PLACEHOLDERS: &str = "name unit key limit remaining used utilization rate window reset-seconds reset-decimal \
                            reset-clock reset-unix reset-unix-decimal reset-rfc3339 status scope global";

/// Parses templates of headers by their names.
pub(crate) fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let headers = BTreeMap::<String, String>::deserialize(deserializer)?;
    let is_known = |name: &str| PLACEHOLDERS.split(' ').any(|known| known == name);
    let is_placeholder = |text: &str| text.split_once('>').is_some_and(|(name, _)| is_known(name));
    let is_template = |text: &&String| !text.contains(['[', ']']) && text.split('<').skip(1).all(is_placeholder);
    let fault = headers.values().find(|text| !is_template(text));
    let fault = fault.map(|text| format!("`{text}` may have these in <>, and no brackets: {PLACEHOLDERS}"));
    fault.map_or(Ok(headers), |fault| Err(D::Error::custom(fault)))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    /// The time since 1970.
    pub(crate) now: Duration,
    pub(crate) standing: Option<&'a LimitState<'a>>,
    pub(crate) took: Option<&'a Cost>,
}

/// Replaces the placeholders of a template; `None` if one outside of brackets has no value.
pub(crate) fn fill(template: &str, values: &Values<'_>) -> Option<String> {
    let (mut filled, mut rest) = (String::new(), template);
    while let Some(open) = rest.find(['<', '[']) {
        filled.push_str(&rest[..open]);
        let close = if rest[open..].starts_with('<') { '>' } else { ']' };
        let end = open + rest[open..].find(close).expect("templates close what they open");
        let inner = &rest[open + 1..end];
        match close {
            '>' => filled.push_str(&values.of(inner)?),
            _ => filled.push_str(&fill(inner, values).unwrap_or_default()),
        }
        rest = &rest[end + 1..];
    }
    filled.push_str(rest);
    Some(filled)
}

impl Values<'_> {
    fn of(&self, placeholder: &str) -> Option<String> {
        if let Some(unit) = placeholder.strip_prefix("cost:") {
            let unit: Unit = unit.parse().expect("templates name units");
            return Some(self.took?.of(&unit).to_string());
        }
        self.of_limit(placeholder, self.standing?)
    }

    fn of_limit(&self, placeholder: &str, standing: &LimitState<'_>) -> Option<String> {
        let policy = &standing.rule.policy;
        let (capacity, reset) = (policy.capacity(), standing.full_in);
        match placeholder {
            "name" => Some(standing.rule.title()),
            "unit" => Some(policy.unit().to_string()),
            "key" => Some(&standing.key).filter(|key| !key.is_empty()).map(|key| STANDARD.encode(key.join(","))),
            "limit" => Some(whole(capacity).to_string()),
            "remaining" => Some(whole(standing.shown_remaining()).to_string()),
            "used" => Some((whole(capacity) - whole(standing.level).min(whole(capacity))).to_string()),
            "utilization" => Some(utilization(standing.level, capacity)),
            "rate" => Some(format!("{:.1}", capacity.to_f64() / policy.period().as_secs_f64())),
            "window" => Some(seconds(policy.period())).filter(|window| *window > 0).map(|window| window.to_string()),
            "reset-seconds" => Some(seconds(reset?).to_string()),
            "reset-decimal" => Some(decimal(reset?)),
            "reset-clock" => Some(clock_time(reset?)),
            "reset-unix" => Some(seconds(self.now + reset?).to_string()),
            "reset-unix-decimal" => Some(decimal(self.now + reset?)),
            "reset-rfc3339" => rfc3339(self.now + reset?),
            "status" => Some(if whole(standing.level) > 0 { "allowed" } else { "rejected" }.to_owned()),
            "scope" => Some(standing.rule.sharing.scope().to_owned()),
            "global" => (standing.rule.sharing == Sharing::Global).then(|| "true".to_owned()),
            unknown => panic!("no placeholder is called `{unknown}`"),
        }
    }
}

impl LimitState<'_> {
    pub(crate) fn is_in_family(&self, family: &str) -> bool {
        !self.rule.hidden && self.rule.family.as_deref().unwrap_or_default() == family
    }

    /// The remaining amount as headers show it, which may be rounded above the true one.
    fn shown_remaining(&self) -> Amount {
        let Some(unit) = self.rule.rounded_to.map(|units| Amount::whole(units).micros()) else { return self.level };
        let rounded = self.level.micros().saturating_add(unit / 2) / unit * unit;
        Amount::from_micros(rounded)
    }
}

/// The used fraction, rounded to a hundredth. A limit without a whole unit left is used up.
fn utilization(level: Amount, capacity: Amount) -> String {
    let left = if whole(level) > 0 { level.to_f64() / capacity.to_f64() } else { 0.0 };
    let used = ((1.0 - left) * 100.0).floor() / 100.0;
    format!("{used}")
}

/// A span as OpenAI writes it, rounded up: `120ms`, `2s`, `6m0s`.
fn clock_time(span: Duration) -> String {
    match (span.as_nanos().div_ceil(1_000_000), seconds(span)) {
        (millis @ 0..1000, _) => format!("{millis}ms"),
        (_, seconds @ 0..60) => format!("{seconds}s"),
        (_, seconds) => format!("{}m{}s", seconds / 60, seconds % 60),
    }
}

/// Seconds with three places, rounded up.
fn decimal(span: Duration) -> String {
    let millis = span.as_nanos().div_ceil(1_000_000);
    let mut text = (millis / 1000).to_string();
    write!(text, ".{:03}", millis % 1000).expect("a string takes all text");
    text
}

/// A time in whole seconds, rounded up, such as `2026-10-21T07:28:03Z`.
fn rfc3339(since_1970: Duration) -> Option<String> {
    let seconds = i64::try_from(seconds(since_1970)).ok()?;
    Some(Timestamp::from_second(seconds).ok()?.to_string())
}

/// Rounded up.
fn seconds(span: Duration) -> u128 {
    span.as_nanos().div_ceil(1_000_000_000)
}

/// Rounded down.
fn whole(amount: Amount) -> u64 {
    amount.micros() / Amount::ONE.micros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rule;

    #[test]
    fn placeholders_have_the_notation_of_the_upstreams() {
        let rule = Rule::new("requests=5000/PT1H;first-use".parse().unwrap()).named("core").for_each(&["user"]);
        let level = Amount::from_micros(4_987_900_000);
        let full_in = Some(Duration::from_millis(61_250));
        let standing = LimitState { rule: &rule, key: vec!["ann".to_owned()], level, full_in };
        let took = Cost::new();
        let now = Duration::from_millis(1_792_567_680_000);
        let values = Values { now, standing: Some(&standing), took: Some(&took) };
        #[rustfmt::skip]
        let table = [
            ("<name> <unit> <limit> <remaining> <used>",    "core requests 5000 4987 13"),
            ("<reset-seconds> <reset-decimal>",             "62 61.250"),
            ("<reset-clock> <reset-unix>",                  "1m2s 1792567742"),
            ("<reset-unix-decimal>",                        "1792567741.250"),
            ("<reset-rfc3339>",                             "2026-10-21T07:29:02Z"),
            ("<window>[;pk=:<key>:][;<global>]",            "3600;pk=:YW5u:"),
            ("<utilization> <status> <scope> <rate>",       "0 allowed user 1.4"),
            ("<cost:requests>",                             "1"),
        ];
        for (template, filled) in table {
            assert_eq!(fill(template, &values).as_deref(), Some(filled), "{template}");
        }
        for name in PLACEHOLDERS.split(' ').filter(|name| *name != "global") {
            assert!(fill(&format!("<{name}>"), &values).is_some(), "{name}");
        }
        let never = LimitState { full_in: None, key: Vec::new(), level: Amount::ZERO, ..standing.clone() };
        let values = Values { standing: Some(&never), took: None, ..values };
        for (template, filled) in [
            ("<reset-seconds>", None),
            ("<cost:requests>", None),
            ("r=0[;t=<reset-seconds>][;pk=:<key>:]", Some("r=0")),
            ("<utilization> <status>", Some("1 rejected")),
        ] {
            assert_eq!(fill(template, &values).as_deref(), filled, "{template}");
        }
    }

    #[test]
    fn times_are_rounded_up() {
        for (micros, text) in [(0, "0ms"), (1, "1ms"), (119_001, "120ms"), (1_000_001, "2s"), (359_000_001, "6m0s")] {
            assert_eq!(clock_time(Duration::from_micros(micros)), text, "{micros} µs");
        }
    }
}
