//! Reads the rules, writes another edition, and waits until it is in force.

use crate::commands::consent::Consent;
use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::schedulers::Schedulers;
use anyhow::bail;
use rampmeter_config::{Rules, limits_in_force};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::time::Span;
use rampmeter_serve::limits::present_rules::{Paint, PresentRules};
use rampmeter_serve::limits::rules_desk::RulesDesk;
use rampmeter_store::RulesRevision;
use std::time::Duration;

/// The longest wait until schedulers apply new rules. They need milliseconds.
const IN_FORCE: Span = Span::from_secs(2);
/// The interval at which the leader is asked whether it applies the new rules.
const LOOK: Duration = Duration::from_millis(20);

/// The conditions of a change.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::commands) struct EditConditions {
    #[command(flatten)]
    consent: Consent,
    /// Write only if the rules have this revision, as `--dry-run` or `rampmeter limits get` showed
    /// it; 0 means no rules.
    #[arg(long, value_name = "N")]
    if_revision: Option<u64>,
}

pub(in crate::commands) struct RulesEdit {
    pub(in crate::commands) schedulers: Schedulers,
    pub(in crate::commands) present: PresentRules,
    desk: RulesDesk,
}

impl RulesEdit {
    /// Connects as the NATS client `name`, and reads the rules.
    pub(in crate::commands) async fn open(nats: &NatsArg, name: &str) -> anyhow::Result<Self> {
        let schedulers = Schedulers::connect(nats, name).await?;
        let (desk, present) = RulesDesk::open(schedulers.client(), schedulers.subjects()).await?;
        Ok(RulesEdit { schedulers, present, desk })
    }

    /// Asks the leaders of these resources which limits are in force, from whatever source, and which would be
    /// without rules. Resources without a leader are left out. Fails if a leader's answer is unreadable.
    pub(in crate::commands) async fn ask_leaders<'a>(
        &mut self,
        names: impl Iterator<Item = &'a Name>,
    ) -> anyhow::Result<()> {
        let question = StatusQuery { limits_toml: true, ..StatusQuery::default() };
        let RulesEdit { schedulers, present, .. } = self;
        for name in names {
            let Ok(status) = schedulers.ask::<Status>(Subjects::status, &question, name).await else { continue };
            for (text, limits) in
                [(status.limits_toml, &mut present.in_force), (status.configured_toml, &mut present.configured)]
            {
                limits.resources.extend(text.map(|text| limits_in_force(name, &text)).transpose()?);
            }
        }
        Ok(())
    }

    /// Shows what `after` changes, writes it unless another edition was written, and waits until it is in force.
    pub(in crate::commands) async fn replace(&self, after: &Rules, conditions: EditConditions) -> anyhow::Result<()> {
        let RulesEdit { schedulers, present, desk } = self;
        let revision = present.revision;
        if let Some(expected) = conditions.if_revision.filter(|expected| *expected != revision.get()) {
            bail!(
                "the rules have revision {revision}, not {expected}: they were changed; look at the difference again"
            );
        }
        if let Some(reason) = &present.refused {
            output::line_if_read(format_args!("note: revision {revision} is not valid and does not count: {reason}"));
        }
        let difference = present.diff(after, Paint { coloured: output::is_coloured() });
        if difference.is_empty() && present.refused.is_none() {
            return output::line(format_args!("nothing changes; the rules of revision {revision} count"));
        }
        output::print_if_read(&difference);
        if conditions.consent.dry_run {
            return output::line(format_args!(
                "valid; nothing was written, and the rules of revision {revision} still count"
            ));
        }
        conditions.consent.confirm("change these limits")?;
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
}

fn is_same(before: &Rules, after: &Rules, name: &Name) -> bool {
    let limits = |rules: &Rules| rules.of(name).map(|rules| rules.limits.clone());
    limits(before) == limits(after)
}

/// Asks the leader of `name` until it applies this revision, and describes the outcome.
async fn in_force(schedulers: &Schedulers, name: &Name, revision: RulesRevision) -> String {
    let clock = Clock::start();
    let begun = clock.now();
    loop {
        let status = schedulers.status(name).await;
        let waited = clock.now().since(begun);
        let known = |status: &Status| status.rules.as_ref().is_some_and(|rules| rules.revision >= revision.get());
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
