//! Shows the discovered limits as a configuration.

use crate::commands::output;
use crate::commands::output::human::duration;
use crate::commands::schedulers::Schedulers;
use anyhow::bail;
use rampmeter_config::{ResourceRules, limit_text, limits_in_force};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::{DiscoveredStatus, Status, StatusQuery};
use rampmeter_protocol::subject::Subjects;
use toml::{Table, Value};

const HEAD: &str = "\
# Limits that were found. `dialect`, classes and all else are as the configuration has them.
";

/// Prints the discovered limits of these resources. Fails if there are none, or a leader's answer is unreadable.
pub(in crate::commands) async fn show(schedulers: &Schedulers, names: &[Name]) -> anyhow::Result<()> {
    let question = StatusQuery { limits_toml: true, ..StatusQuery::default() };
    let mut text = String::new();
    for name in names {
        let Ok(status) = schedulers.ask::<Status>(Subjects::status, &question, name).await else { continue };
        let limits = limits_in_force(name, status.limits_toml.as_deref().unwrap_or_default())?;
        text.push_str(&found_of(&status, &limits));
    }
    if text.is_empty() {
        bail!("nothing was found; a resource with `discover` finds limits while calls are made");
    }
    output::line(format_args!("{HEAD}{}", text.trim_end()))
}

/// Returns the discovered limits of a resource, or an empty text.
fn found_of(status: &Status, limits: &ResourceRules) -> String {
    let found = |table: &Table| {
        let name = table.get("name").and_then(Value::as_str)?;
        let limit = status.limits.iter().find(|limit| *limit.name == *name)?;
        let DiscoveredStatus { by, for_ms, .. } = limit.found.as_ref()?;
        Some(format!("\n# Found by {by} {} ago.\n[[resource.limit]]\n{}", duration(*for_ms), limit_text(table)))
    };
    let tables: String = limits.written.iter().filter_map(found).collect();
    if tables.is_empty() { tables } else { format!("\n[[resource]]\nname = \"{}\"\n{tables}", status.resource) }
}
