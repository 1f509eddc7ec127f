//! The rules in the store, as read and shown by commands that change them.

use crate::limits::rulebook::latest_valid;
use crate::wall_time;
use anyhow::{Context, bail};
use rampmeter_config::{Applied, ResourceRules, Rules, limit_default, limit_tables};
use rampmeter_store::{RuleStore, RulesRevision, StoreError};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::Path;
use toml::{Table, Value};

/// The name of the stored rules in messages.
const STORED: &str = "rules in the store";
/// The comment above the stored text.
const HEAD: &str = "# Written by `rampmeter apply`: limits in place of the configuration's.\n\n";

/// The rules in the store.
#[derive(Debug, Default)]
pub struct PresentRules {
    /// The revision of the latest edition, valid or not.
    pub revision: RulesRevision,
    /// The rules of the latest valid edition.
    pub rules: Rules,
    /// The limits in force now, for resources whose leaders were asked. For others, see `rules`.
    pub in_force: Rules,
    /// The limits that would be in force without rules, for resources whose leaders were asked.
    pub configured: Rules,
    /// Why the latest edition is invalid, if it is.
    pub refused: Option<String>,
}

/// Whether to colour lines, as on a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether new lines are green and old ones red.
    pub coloured: bool,
}

#[derive(Clone, Copy)]
enum Sort {
    New,
    Gone,
    Changed,
}

impl PresentRules {
    /// Reads the rules in the store.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn read(store: &RuleStore) -> anyhow::Result<Self> {
        let editions = store.editions().await?;
        let (valid, refused) = latest_valid(&editions, Path::new(STORED));
        Ok(PresentRules {
            revision: editions.first().map_or(RulesRevision::NONE, |latest| latest.revision),
            rules: valid.map(|(_, rules)| rules).unwrap_or_default(),
            refused: refused.map(|refused| refused.reason),
            ..PresentRules::default()
        })
    }

    /// Returns the differences of `after` from the present rules by resource, or an empty text.
    #[must_use]
    pub fn diff(&self, after: &Rules, paint: Paint) -> String {
        let (before, in_force) = (&self.rules, &self.in_force);
        let mut text = String::new();
        for rules in &after.resources {
            let lines = of_resource(in_force.of(&rules.name).or(before.of(&rules.name)), Some(rules), paint);
            let first = if before.of(&rules.name).is_none() {
                ": these rules in place of the configuration's limits"
            } else {
                ""
            };
            if !lines.is_empty() || !first.is_empty() {
                write!(text, "resource `{}`{first}\n{lines}", rules.name).expect("a string takes everything");
            }
        }
        for rules in before.resources.iter().filter(|rules| after.of(&rules.name).is_none()) {
            let lines = of_resource(in_force.of(&rules.name).or(Some(rules)), self.configured.of(&rules.name), paint);
            write!(text, "resource `{}`: the configuration's limits in place of these rules\n{lines}", rules.name)
                .expect("a string takes everything");
        }
        text
    }
}

/// Writes `after` if the store still has the present revision, and returns the new one.
///
/// # Errors
/// If another edition was written meanwhile, or the store does not take this one.
pub async fn write(store: &RuleStore, present: &PresentRules, after: &Rules) -> anyhow::Result<RulesRevision> {
    let written = match after.resources.is_empty() {
        true => store.delete(present.revision).await,
        false => store.write(&format!("{HEAD}{}", after.text()), present.revision).await,
    };
    match written {
        Err(StoreError::Superseded) => {
            bail!("the rules were changed meanwhile; nothing was written; look at the difference again")
        }
        written => written.context("the rules could not be written"),
    }
}

/// Adds a note to `rules` on their author, the time, and the `text` they come from.
#[must_use]
pub fn written_by(mut rules: Rules, author: &str, file: &str, text: &str) -> Rules {
    let sha256 = Sha256::digest(text).iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes everything");
        digits
    });
    let applied = Applied { by: author.to_owned(), at: wall_time::text(), file: file.to_owned(), sha256 };
    rules.resources.iter_mut().for_each(|rules| rules.applied = Some(applied.clone()));
    rules
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
        text += &paint.line(Sort::Gone, &format!("{}: {}", name(limit), all_but_name(limit)));
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
    let shown = |key: &str, value: Option<&Value>| match (value, limit_default(key)) {
        (Some(value), _) => value.to_string(),
        (None, Some(default)) => format!("{default} (the default)"),
        (None, None) => "none".to_owned(),
    };
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    let change = |key: &String| format!("{key} {} → {}", shown(key, before.get(key)), shown(key, after.get(key)));
    changed.map(change).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_config::parse_rules;
    use std::path::Path;

    /// Rules of `api` with these limits, one a line: its name, then the rest.
    fn rules(limits: &[(&str, &str)]) -> Rules {
        let limits = limits.iter().map(|(name, rest)| format!("[[resource.limit]]\nname = \"{name}\"\n{rest}\n"));
        let text = format!("[[resource]]\nname = \"api\"\n{}", limits.collect::<String>());
        parse_rules(Path::new("rules.toml"), &text).unwrap()
    }

    fn diff(before: &Rules, in_force: &Rules, after: &Rules, paint: Paint) -> String {
        let (rules, in_force) = (before.clone(), in_force.clone());
        PresentRules { rules, in_force, ..PresentRules::default() }.diff(after, paint)
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
            "resource `api`\n  + b: capacity = 3, key = [\"client\"], match = { route = \"/a*\" }, period = \"1s\"\n  - a: capacity = 10, period = \"1s\"\n"
        );
        assert_eq!(
            plain(&[("a", few)], &[("a", keyed)]),
            "resource `api`\n  ~ a: capacity 10 → 3, key none → [\"client\"], match none → { route = \"/a*\" }\n"
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
            "resource `api`: the configuration's limits in place of these rules\n  - a: capacity = 10, period = \"1s\"\n"
        );
        let configured = rules(&[("a", "algorithm = \"sliding-window\"\ncapacity = 3\nperiod = \"1s\"")]);
        let present = PresentRules { rules: some.clone(), configured, ..PresentRules::default() };
        assert_eq!(
            present.diff(&none, plain),
            "resource `api`: the configuration's limits in place of these rules\n  ~ a: algorithm \"token-bucket\" (the \
             default) → \"sliding-window\", capacity 10 → 3\n"
        );
        let in_force = rules(&[("a", "capacity = 3\nperiod = \"1000ms\"")]);
        assert_eq!(
            diff(&none, &in_force, &some, plain),
            "resource `api`: these rules in place of the configuration's limits\n  ~ a: capacity 3 → 10\n"
        );
        assert!(diff(&none, &none, &some, Paint { coloured: true }).contains("\x1b[32m  + a: "));
    }
}
