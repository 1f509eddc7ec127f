//! The limits in force now, as the leaders say.

use crate::commands::status::ask;
use crate::config::{Rules, limits_in_force};
use async_nats::Client;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::subject::Subjects;

/// The limits of these resources that are in force now, whether they come from rules, the
/// configuration or a provider. Resources without a leader are left out.
///
/// # Errors
/// If `prefix` is no prefix, or a leader's answer is unreadable.
pub(in crate::commands) async fn limits_of_leaders<'a>(
    client: &Client,
    prefix: &Name,
    names: impl Iterator<Item = &'a Name>,
) -> anyhow::Result<Rules> {
    let (subjects, mut in_force) = (Subjects::new(prefix)?, Rules::default());
    let question = serde_json::to_vec(&StatusQuery { limits_toml: true, ..StatusQuery::default() })?;
    for name in names {
        let Ok(status) = ask::<Status>(client, subjects.status(name), question.clone(), name).await else { continue };
        if let Some(text) = &status.limits_toml {
            in_force.resources.push(limits_in_force(name, text)?);
        }
    }
    Ok(in_force)
}
