//! The differences between two editions of rules, as text for people.

use crate::config::{ResourceRules, Rules, limit_tables};
use std::fmt::Write;
use toml::{Table, Value};

/// Whether lines are coloured, as on a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether they are.
    pub coloured: bool,
}

#[derive(Clone, Copy)]
enum Sort {
    New,
    Gone,
    Changed,
}

impl Paint {
    fn line(self, sort: Sort, text: &str) -> String {
        let (sign, colour) = match sort {
            Sort::New => ('+', 32),
            Sort::Gone => ('-', 31),
            Sort::Changed => ('~', 33),
        };
        match self.coloured {
            true => format!("\x1b[{colour}m  {sign} {text}\x1b[0m\n"),
            false => format!("  {sign} {text}\n"),
        }
    }
}

/// The differences of `after` from the rules `before`, resource by resource; empty if there are
/// none. `in_force` are the limits in force now; for other resources, those of `before` are.
#[must_use]
pub fn diff(before: &Rules, in_force: &Rules, after: &Rules, paint: Paint) -> String {
    let mut text = String::new();
    for rules in &after.resources {
        let lines = of_resource(in_force.of(&rules.name).or(before.of(&rules.name)), Some(rules), paint);
        let first =
            if before.of(&rules.name).is_none() { ": these rules in place of the configuration's limits" } else { "" };
        if !lines.is_empty() || !first.is_empty() {
            write!(text, "resource `{}`{first}\n{lines}", rules.name).expect("a string takes everything");
        }
    }
    for rules in before.resources.iter().filter(|rules| after.of(&rules.name).is_none()) {
        let lines = of_resource(Some(rules), None, paint);
        write!(text, "resource `{}`: the configuration's limits in place of these rules\n{lines}", rules.name)
            .expect("a string takes everything");
    }
    text
}

fn of_resource(before: Option<&ResourceRules>, after: Option<&ResourceRules>, paint: Paint) -> String {
    let written = |rules: Option<&ResourceRules>| rules.map(|rules| limit_tables(&rules.limits)).unwrap_or_default();
    let (before, after) = (written(before), written(after));
    let find =
        |limits: &[Table], limit: &Table| limits.iter().find(|other| other.get("name") == limit.get("name")).cloned();
    let mut text = String::new();
    for limit in &after {
        match find(&before, limit) {
            None => text += &paint.line(Sort::New, &format!("{}: {}", name(limit), all_but_name(limit))),
            Some(known) if known == *limit => {}
            Some(known) => text += &paint.line(Sort::Changed, &format!("{}: {}", name(limit), changes(&known, limit))),
        }
    }
    for limit in before.iter().filter(|limit| find(&after, limit).is_none()) {
        text += &paint.line(Sort::Gone, &name(limit));
    }
    text
}

fn name(limit: &Table) -> String {
    limit.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn all_but_name(limit: &Table) -> String {
    let fields = limit.iter().filter(|(key, _)| *key != "name").map(|(key, value)| format!("{key} = {value}"));
    fields.collect::<Vec<_>>().join(", ")
}

fn changes(before: &Table, after: &Table) -> String {
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    let change = |key: &String| format!("{key} {} → {}", shown(before.get(key)), shown(after.get(key)));
    changed.map(change).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_rules;
    use std::path::Path;

    /// Rules of `api` with these limits, one a line: its name, then the rest.
    fn rules(limits: &[(&str, &str)]) -> Rules {
        let limits = limits.iter().map(|(name, rest)| format!("[[resource.limit]]\nname = \"{name}\"\n{rest}\n"));
        let text = format!("[[resource]]\nname = \"api\"\n{}", limits.collect::<String>());
        parse_rules(Path::new("rules.toml"), &text).unwrap()
    }

    #[test]
    fn new_removed_and_changed_limits() {
        let (few, more) = ("capacity = 10\nperiod = \"1s\"", "capacity = 20\nperiod = \"1s\"");
        let keyed = "capacity = 3\nperiod = \"1s\"\nkey = [\"client\"]\nmatch = { route = \"/a*\" }";
        let plain = |before: &[(&str, &str)], after: &[(&str, &str)]| {
            diff(&rules(before), &Rules::default(), &rules(after), Paint { coloured: false })
        };
        assert_eq!(plain(&[("a", few)], &[("a", few)]), "");
        assert_eq!(plain(&[("a", few)], &[("a", more)]), "resource `api`\n  ~ a: capacity 10 → 20\n");
        assert_eq!(
            plain(&[("a", few)], &[("b", keyed)]),
            "resource `api`\n  + b: capacity = 3, key = [\"client\"], match = { route = \"/a*\" }, period = \"1s\"\n  - a\n"
        );
        assert_eq!(
            plain(&[("a", few)], &[("a", keyed)]),
            "resource `api`\n  ~ a: capacity 10 → 3, key nothing → [\"client\"], match nothing → { route = \"/a*\" }\n"
        );
    }

    #[test]
    fn resources_that_come_and_go() {
        let (some, none) = (rules(&[("a", "capacity = 10\nperiod = \"1s\"")]), Rules::default());
        let plain = Paint { coloured: false };
        assert_eq!(
            diff(&none, &none, &some, plain),
            "resource `api`: these rules in place of the configuration's limits\n  + a: capacity = 10, period = \"1s\"\n"
        );
        assert_eq!(
            diff(&some, &none, &none, plain),
            "resource `api`: the configuration's limits in place of these rules\n  - a\n"
        );
        let in_force = rules(&[("a", "capacity = 3\nperiod = \"1000ms\"")]);
        assert_eq!(
            diff(&none, &in_force, &some, plain),
            "resource `api`: these rules in place of the configuration's limits\n  ~ a: capacity 3 → 10\n"
        );
        assert!(diff(&none, &none, &some, Paint { coloured: true }).contains("\x1b[32m  + a: "));
    }
}
