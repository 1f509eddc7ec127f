//! Writes another edition of the rules, and waits until it is in force.

use super::output;
use super::rules_diff::{Paint, diff};
use super::status::ask_leader;
use crate::config::{Rules, parse_stored_rules};
use crate::store::{RuleStore, StoreError};
use anyhow::{Context, bail};
use async_nats::Client;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::Span;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// The name of the stored rules in messages.
const STORED: &str = "rules in the store";
/// The longest wait until schedulers follow new rules. They need milliseconds.
const IN_FORCE: Span = Span::from_secs(2);
/// The interval of questions whether they do.
const LOOK: Duration = Duration::from_millis(20);
/// The comment above the stored text.
const HEAD: &str = "# Written by `rampmeter apply`: limits in place of the configuration's.\n\n";

/// The rules in the store.
#[derive(Debug)]
pub(super) struct Present {
    /// The revision of the latest edition, valid or not.
    pub(super) revision: u64,
    /// The rules of the latest valid edition.
    pub(super) rules: Rules,
    /// The limits that count now, for resources whose leaders were asked.
    pub(super) counting: Rules,
    /// Why the latest edition is invalid, if it is.
    pub(super) refused: Option<String>,
}

/// The conditions of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) dry_run: bool,
    /// The revision that the change expects.
    pub(super) if_revision: Option<u64>,
}

impl Present {
    /// No rules.
    pub(super) fn none() -> Self {
        Present { revision: 0, rules: Rules::default(), counting: Rules::default(), refused: None }
    }

    /// Reads the rules in the store.
    pub(super) async fn read(store: &RuleStore) -> anyhow::Result<Self> {
        let editions = store.editions().await?;
        let mut present = Present::none();
        for (index, edition) in editions.iter().enumerate() {
            if index == 0 {
                present.revision = edition.revision;
            }
            let Some(text) = &edition.text else { break };
            match parse_stored_rules(Path::new(STORED), &String::from_utf8_lossy(text)) {
                Ok(rules) => {
                    present.rules = rules;
                    break;
                }
                Err(error) => {
                    present.refused.get_or_insert(error.to_string());
                }
            }
        }
        Ok(present)
    }
}

/// Shows what `after` changes, writes it if the store still has the present revision, and waits
/// until it is in force.
///
/// # Errors
/// If another edition was written meanwhile, or the store does not take the new one.
pub(super) async fn replace(
    (client, prefix, store): (&Client, &Name, &RuleStore),
    present: &Present,
    after: &Rules,
    terms: Terms,
) -> anyhow::Result<()> {
    let revision = present.revision;
    if let Some(expected) = terms.if_revision.filter(|expected| *expected != revision) {
        bail!("the rules have revision {revision}, not {expected}: they were changed; look at the difference again");
    }
    if let Some(reason) = &present.refused {
        output::line_if_read(format_args!("note: revision {revision} is not valid and does not count: {reason}"));
    }
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let difference = diff(&present.rules, &present.counting, after, Paint { coloured });
    if difference.is_empty() && present.refused.is_none() {
        return output::line(format_args!("nothing changes; the rules of revision {revision} count"));
    }
    output::print_if_read(&difference);
    if terms.dry_run {
        return output::line(format_args!(
            "valid; nothing was written, and the rules of revision {revision} still count"
        ));
    }
    let written = match after.resources.is_empty() {
        true => store.delete(revision).await,
        false => store.write(&format!("{HEAD}{}", after.text()), revision).await,
    };
    let superseded = "the rules were changed meanwhile; nothing was written; look at the difference again";
    let new = match written {
        Err(StoreError::Superseded) => bail!(superseded),
        written => written.context("the rules could not be written")?,
    };
    output::line(format_args!("written as revision {new}, in place of {revision}"))?;
    let changed = after.resources.iter().chain(&present.rules.resources).map(|rules| &rules.name);
    let mut changed: Vec<&Name> = changed.filter(|name| !is_same(&present.rules, after, name)).collect();
    changed.sort();
    changed.dedup();
    for name in changed {
        output::line(in_force(client, prefix, name, new).await?)?;
    }
    Ok(())
}

fn is_same(before: &Rules, after: &Rules, name: &Name) -> bool {
    let limits = |rules: &Rules| rules.of(name).map(|rules| rules.limits.clone());
    limits(before) == limits(after)
}

/// Asks the leader of `name` until it follows this revision, and returns the outcome as text.
async fn in_force(client: &Client, prefix: &Name, name: &Name, revision: u64) -> anyhow::Result<String> {
    let (subjects, clock) = (Subjects::new(prefix)?, Clock::start());
    let begun = clock.now();
    loop {
        let status = ask_leader(client, subjects.status(name), name).await;
        let waited = clock.now().since(begun);
        let known = |status: &rampmeter_protocol::status::Status| {
            status.rules.as_ref().is_some_and(|rules| rules.revision >= revision)
        };
        match status {
            Ok(status) if known(&status) => {
                return Ok(format!("`{name}` follows it after {waited}, led by {}", status.leader));
            }
            Ok(_) if waited < IN_FORCE => tokio::time::sleep(LOOK).await,
            Ok(status) => return Ok(format!("`{name}` does not follow it after {waited}; ask {}", status.leader)),
            Err(error) => return Ok(format!("`{name}`: {error}; the rules count once a scheduler leads it")),
        }
    }
}
