//! The limits in force now, as the leaders say.

use crate::commands::schedulers::Schedulers;
use rampmeter_config::{Rules, limits_in_force};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::subject::Subjects;

/// The limits of these resources that are in force now, whether they come from rules, the
/// configuration or a provider. Resources without a leader are left out.
///
/// # Errors
/// If a leader's answer is unreadable.
pub(in crate::commands) async fn limits_of_leaders<'a>(
    schedulers: &Schedulers,
    names: impl Iterator<Item = &'a Name>,
) -> anyhow::Result<Rules> {
    let (mut in_force, question) = (Rules::default(), StatusQuery { limits_toml: true, ..StatusQuery::default() });
    for name in names {
        let Ok(status) = schedulers.ask::<Status>(Subjects::status, &question, name).await else { continue };
        if let Some(text) = &status.limits_toml {
            in_force.resources.push(limits_in_force(name, text)?);
        }
    }
    Ok(in_force)
}
