//! Writes another edition of the rules, and waits until it is in force.

use crate::commands::output;
use crate::commands::schedulers::Schedulers;
use anyhow::bail;
use rampmeter_config::Rules;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_serve::limits::present_rules::{Paint, PresentRules};
use rampmeter_serve::limits::rules_desk::RulesDesk;
use rampmeter_store::RulesRevision;
use std::io::IsTerminal;
use std::time::Duration;

/// The longest wait until schedulers follow new rules. They need milliseconds.
const IN_FORCE: Span = Span::from_secs(2);
/// The interval at which the leader is asked whether it follows the new rules.
const LOOK: Duration = Duration::from_millis(20);

/// The conditions of a change.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct EditConditions {
    pub(in crate::commands) dry_run: bool,
    /// The revision that the change expects.
    pub(in crate::commands) if_revision: Option<RulesRevision>,
}

/// Shows what `after` changes, writes it if the store still has the present revision, and waits
/// until it is in force.
///
/// # Errors
/// If another edition was written meanwhile, or the store does not take the new one.
pub(in crate::commands) async fn replace(
    (schedulers, desk): (&Schedulers, &RulesDesk),
    present: &PresentRules,
    after: &Rules,
    conditions: EditConditions,
) -> anyhow::Result<()> {
    let revision = present.revision;
    if let Some(expected) = conditions.if_revision.filter(|expected| *expected != revision) {
        bail!("the rules have revision {revision}, not {expected}: they were changed; look at the difference again");
    }
    if let Some(reason) = &present.refused {
        output::line_if_read(format_args!("note: revision {revision} is not valid and does not count: {reason}"));
    }
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let difference = present.diff(after, Paint { coloured });
    if difference.is_empty() && present.refused.is_none() {
        return output::line(format_args!("nothing changes; the rules of revision {revision} count"));
    }
    output::print_if_read(&difference);
    if conditions.dry_run {
        return output::line(format_args!(
            "valid; nothing was written, and the rules of revision {revision} still count"
        ));
    }
    let new = desk.write(present, after).await?;
    output::line(format_args!("written as revision {new}, in place of {revision}"))?;
    let changed = after.resources.iter().chain(&present.rules.resources).map(|rules| &rules.name);
    let mut changed: Vec<&Name> = changed.filter(|name| !is_same(&present.rules, after, name)).collect();
    changed.sort();
    changed.dedup();
    for name in changed {
        output::line(in_force(schedulers, name, new).await)?;
    }
    Ok(())
}

fn is_same(before: &Rules, after: &Rules, name: &Name) -> bool {
    let limits = |rules: &Rules| rules.of(name).map(|rules| rules.limits.clone());
    limits(before) == limits(after)
}

/// Asks the leader of `name` until it follows this revision, and returns the outcome as text.
async fn in_force(schedulers: &Schedulers, name: &Name, revision: RulesRevision) -> String {
    let clock = Clock::start();
    let begun = clock.now();
    loop {
        let status = schedulers.status(name).await;
        let waited = clock.now().since(begun);
        let known = |status: &rampmeter_protocol::status::Status| {
            status.rules.as_ref().is_some_and(|rules| rules.revision >= revision.get())
        };
        match status {
            Ok(status) if known(&status) => {
                return format!("`{name}` follows it after {waited:.1}, led by {}", status.leader);
            }
            Ok(_) if waited < IN_FORCE => tokio::time::sleep(LOOK).await,
            Ok(status) => return format!("`{name}` does not follow it after {waited:.1}; ask {}", status.leader),
            Err(error) => return format!("`{name}`: {error}; the rules count once a scheduler leads it"),
        }
    }
}
