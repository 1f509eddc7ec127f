//! Writes limits as tables of the file, with all keys that are not defaults, in a canonical form.

use crate::keys::Shown;
use crate::limits::table::LimitTable;
use crate::rules::limit_text;
use rampmeter_policy::spec::{Algorithm, Alignment, Applies, DEFAULT_FLOOR, Learn, LimitSpec, Margin, Pattern};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::cost::REQUESTS;
use rampmeter_protocol::lateness::LATENESS;
use rampmeter_protocol::time::Span;
use toml::{Table, Value};

/// Returns the keys of `limit`. Reading them gives the same limit.
fn limit_table(limit: &LimitSpec) -> Table {
    let LimitSpec { name, unit, algorithm, capacity, period, margin, jitter, learn, applies, shadow, per_account } =
        limit;
    let mut table = Table::new();
    let mut put = |key: &str, value: Value| drop(table.insert(key.to_owned(), value));
    put("name", text(name));
    if **unit != *REQUESTS {
        put("unit", text(unit));
    }
    if *algorithm != Algorithm::default() {
        put("algorithm", text(algorithm.as_str()));
    }
    put("capacity", number(*capacity));
    for (key, value) in times(algorithm, *period) {
        put(key, value);
    }
    if let Margin::Fixed(tokens) = margin {
        put("margin", number(*tokens));
    }
    if *jitter != LATENESS {
        put("jitter", time(*jitter));
    }
    match learn {
        Learn::Never | Learn::Steered(_) => put("learn", Value::Boolean(false)),
        Learn::Above(floor) if *floor != DEFAULT_FLOOR => put("floor", Value::Float(*floor)),
        Learn::Above(_) => {}
    }
    for (key, value) in matching(applies) {
        put(key, value);
    }
    if *per_account {
        put("per", text("account"));
    }
    if *shadow {
        put("shadow", Value::Boolean(true));
    }
    table
}

/// Returns the default of a key of `[[resource.limit]]`, as TOML; `None` if it has none.
#[must_use]
pub fn limit_default(key: &str) -> Option<&'static str> {
    LimitTable::TABLE.keys.iter().find(|known| known.name() == key).and_then(|known| match known.shown {
        Shown::Default(value) => Some(value),
        Shown::Example(_) | Shown::Given(_) | Shown::Table => None,
    })
}

/// Returns a table for each limit, those in shadow mode too.
#[must_use]
pub fn limit_tables(limits: &[LimitSpec]) -> Vec<Table> {
    limits.iter().map(limit_table).collect()
}

/// Writes limits as `[[resource.limit]]` tables.
#[must_use]
pub fn limits_text(limits: &[LimitSpec]) -> String {
    limit_tables(limits)
        .iter()
        .map(|limit| format!("[[resource.limit]]\n{}", limit_text(limit)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the keys that define when capacity comes back.
fn times(algorithm: &Algorithm, period: Span) -> Vec<(&'static str, Value)> {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::SlidingWindow => vec![("period", time(period))],
        Algorithm::Concurrency => vec![("time_to_live", time(period))],
        Algorithm::FixedWindow(alignment) => aligned("aligned", alignment, period),
        Algorithm::Quota(Some(alignment)) => aligned("resets", alignment, period),
        Algorithm::Quota(None) => vec![("resets", text("never"))],
    }
}

fn aligned(key: &'static str, alignment: &Alignment, period: Span) -> Vec<(&'static str, Value)> {
    let (word, zone) = match alignment {
        Alignment::Epoch => ("epoch", None),
        Alignment::FirstUse => ("first-use", None),
        Alignment::Day(zone) => ("day", Some(zone)),
        Alignment::Month(zone) => ("month", Some(zone)),
    };
    let mut keys = vec![(key, text(word))];
    match zone {
        None => keys.push(("period", time(period))),
        Some(zone) => keys.push(("zone", text(zone.iana_name().unwrap_or("UTC")))),
    }
    keys
}

fn matching(applies: &Applies) -> Vec<(&'static str, Value)> {
    let mut keys = Vec::new();
    if !applies.matching.is_empty() {
        let patterns = applies.matching.iter().map(|(label, wanted)| (label.clone(), pattern(wanted)));
        keys.push(("match", Value::Table(patterns.collect())));
    }
    if !applies.key.is_empty() {
        keys.push(("key", Value::Array(applies.key.iter().map(|label| text(label)).collect())));
    }
    keys.extend(applies.group.as_ref().map(|group| ("group", text(group))));
    keys
}

fn pattern(pattern: &Pattern) -> Value {
    match pattern {
        // Outside a list, such a value would be parsed as a prefix or as a regular expression.
        Pattern::Exact(value) if value.starts_with('^') || value.ends_with('*') => Value::Array(vec![text(value)]),
        Pattern::Exact(value) => text(value),
        Pattern::OneOf(values) => Value::Array(values.iter().map(|value| text(value)).collect()),
        Pattern::Prefix(prefix) => text(&format!("{prefix}*")),
        Pattern::Regex(expression) => text(expression),
    }
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// Whole amounts have no decimals.
fn number(amount: Amount) -> Value {
    match (amount.micros() % 1_000_000, i64::try_from(amount.micros() / 1_000_000)) {
        (0, Ok(whole)) => Value::Integer(whole),
        (_, _) => Value::Float(amount.units()),
    }
}

/// Writes a span in the largest unit that leaves a whole number: "400h", "90s", "1500ms".
fn time(span: Span) -> Value {
    let long = [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000)];
    let short = [("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    let nanos = span.nanos();
    let mut fitting = long.into_iter().chain(short).filter(|(_, length)| nanos.is_multiple_of(*length));
    let (unit, length) = fitting.next().expect("nanoseconds always fit");
    Value::String(format!("{}{unit}", nanos / length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_rules;
    use std::path::Path;

    /// Limits with all keys, and what is written of them.
    const LIMITS: &[(&str, &str)] = &[
        ("capacity = 10\nperiod = \"PT1M\"", "capacity = 10\nperiod = \"1m\""),
        ("capacity = 0.5\nrefill_interval = \"3s\"\nunit = \"requests\"", "capacity = 0.5\nperiod = \"1500ms\""),
        (
            "unit = \"pages\"\nalgorithm = \"leaky-bucket\"\ncapacity = 350\ndrain_velocity = 0.1\nshadow = true",
            "algorithm = \"leaky-bucket\"\ncapacity = 350\nperiod = \"3500s\"\nshadow = true\nunit = \"pages\"",
        ),
        (
            "algorithm = \"fixed-window\"\naligned = \"month\"\nzone = \"Europe/Berlin\"\ncapacity = 3\nmargin = 1.5",
            "algorithm = \"fixed-window\"\naligned = \"month\"\ncapacity = 3\nmargin = 1.5\nzone = \"Europe/Berlin\"",
        ),
        (
            "algorithm = \"fixed-window\"\ncapacity = 3\nperiod = \"10s\"",
            "algorithm = \"fixed-window\"\naligned = \"epoch\"\ncapacity = 3\nperiod = \"10s\"",
        ),
        (
            "algorithm = \"quota\"\nresets = \"day\"\ncapacity = 3\nlearn = false",
            "algorithm = \"quota\"\ncapacity = 3\nlearn = false\nresets = \"day\"\nzone = \"UTC\"",
        ),
        (
            "algorithm = \"quota\"\nresets = \"never\"\ncapacity = 3",
            "algorithm = \"quota\"\ncapacity = 3\nresets = \"never\"",
        ),
        (
            "algorithm = \"quota\"\nresets = \"first-use\"\ncapacity = 3\nperiod = \"24h\"",
            "algorithm = \"quota\"\ncapacity = 3\nperiod = \"24h\"\nresets = \"first-use\"",
        ),
        (
            "algorithm = \"concurrency\"\ntime_to_live = \"90s\"\ncapacity = 3\nfloor = 0.2",
            "algorithm = \"concurrency\"\ncapacity = 3\nfloor = 0.2\ntime_to_live = \"90s\"",
        ),
        (
            "algorithm = \"sliding-window\"\nperiod = \"1h\"\ncapacity = 3\nkey = [\"a\"]\ngroup = \"g\"\nmatch = { b = \"x*\", c = [\"y*\"], d = \"^z\" }",
            "algorithm = \"sliding-window\"\ncapacity = 3\ngroup = \"g\"\nkey = [\"a\"]\nmatch = { b = \"x*\", c = [\"y*\"], d = \"^z\" }\nperiod = \"1h\"",
        ),
    ];

    fn limit(rest: &str) -> LimitSpec {
        let text = format!("[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\n{rest}\n");
        let rules = parse_rules(Path::new("tried.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        rules.resources[0].limits[0].clone()
    }

    #[test]
    fn what_is_written_is_read_as_the_same_limit() {
        for (given, written) in LIMITS {
            let (spec, lines) = (limit(given), |table: Table| {
                let others = table.into_iter().filter(|(key, _)| key != "name");
                others.map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join("\n")
            });
            let table = lines(limit_table(&spec));
            assert_eq!(table, *written, "{given}");
            assert_eq!(limit(&table), spec, "{given}");
        }
    }
}
