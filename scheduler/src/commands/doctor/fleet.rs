//! Examines the file, NATS and the schedulers, then each resource.

use super::finding::Symptom;
use super::resource::{self, Patient};
use crate::commands::check;
use crate::commands::nats_arg::NatsArg;
use crate::commands::output::error_text::with_causes;
use crate::commands::schedulers::Schedulers;
use rampmeter_config::{Config, limits_in_force};
use rampmeter_nats::servers::PRIVATE;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::usage::UsageQuery;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How often to ask before schedulers count as silent, and the pause between. A successor leads within a second.
const TRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn symptoms(nats: &NatsArg, named: Option<&Name>) -> Vec<Symptom> {
    let (file, mut symptoms) = read_file(nats.file());
    match Schedulers::connect(nats, "rampmeter-doctor").await {
        Ok(schedulers) => symptoms.extend(of_schedulers(&schedulers, named, file.as_ref()).await),
        Err(error) => symptoms.push(of_all("nats-unreachable", with_causes(&*error))),
    }
    symptoms
}

fn of_all(fault: &str, evidence: String) -> Symptom {
    Symptom { fault: fault.to_owned(), resource: None, it: String::new(), evidence }
}

/// Reads the configuration, if it is here.
fn read_file(path: &Path) -> (Option<Config>, Vec<Symptom>) {
    match check::valid(path) {
        Ok(config) => (Some(config), Vec::new()),
        Err(_) if !path.exists() => (None, Vec::new()),
        Err(error) => {
            let invalid = of_all("file-invalid", with_causes(&*error));
            (None, vec![Symptom { it: path.display().to_string(), ..invalid }])
        }
    }
}

async fn of_schedulers(schedulers: &Schedulers, named: Option<&Name>, file: Option<&Config>) -> Vec<Symptom> {
    let mut names: Vec<Name> = named.cloned().into_iter().collect();
    for _ in 0..TRIES {
        if names.is_empty() {
            names = schedulers.known_resources().await.unwrap_or_default();
        }
    }
    if names.is_empty() {
        let denied = schedulers.denial().map(|denial| of_all("nats-denied", denial));
        let silent = || of_all("no-scheduler", "NATS answers, and no scheduler does".to_owned());
        return vec![denied.unwrap_or_else(silent)];
    }
    let announced = schedulers.announced().await.unwrap_or_default();
    let mut symptoms = Vec::new();
    for name in &names {
        let troubles = announced.iter().filter_map(|info| {
            let troubles: BTreeMap<Name, String> = serde_json::from_str(&info.metadata.troubles).ok()?;
            Some(format!("{}: {}", info.metadata.leader, troubles.get(name)?))
        });
        let troubles = troubles.collect::<Vec<_>>().join("; ");
        let status = status(schedulers, name).await;
        let fault = match &status {
            Ok(_) => "scheduler-troubled",
            Err(_) if schedulers.denial().is_some() => "nats-denied",
            Err(_) => "no-leader",
        };
        let evidence = match &status {
            Err(error) if troubles.is_empty() => with_causes(&**error),
            Ok(_) | Err(_) => troubles,
        };
        if !evidence.is_empty() {
            symptoms.push(Symptom { resource: Some(name.clone()), ..of_all(fault, evidence) });
        }
        if let Ok(status) = status {
            symptoms.extend(of_resource(schedulers, status, file).await);
        }
    }
    symptoms
}

/// Requests the complete status, once a scheduler leads.
async fn status(schedulers: &Schedulers, name: &Name) -> anyhow::Result<Status> {
    let question = StatusQuery { limits_toml: true, shares: true, recent: true };
    let mut answer = schedulers.ask(Subjects::status, &question, name).await;
    for _ in 1..TRIES {
        if answer.is_err() {
            tokio::time::sleep(PAUSE).await;
            answer = schedulers.ask(Subjects::status, &question, name).await;
        }
    }
    answer
}

async fn of_resource(schedulers: &Schedulers, status: Status, file: Option<&Config>) -> Vec<Symptom> {
    let name = status.resource.clone();
    let usage = schedulers.ask(Subjects::usage, &UsageQuery::default(), &name).await.ok();
    let in_force = status.limits_toml.as_ref().and_then(|text| limits_in_force(&name, text).ok());
    let written = file.and_then(|file| file.resources.iter().find(|resource| *resource.name() == name));
    let is_private = schedulers.client().server_info().server_name.starts_with(PRIVATE);
    resource::symptoms(&Patient { status, usage, in_force, written, is_private })
}
