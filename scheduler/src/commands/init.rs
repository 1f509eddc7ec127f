//! `rampmeter init`

use super::output;
use anyhow::{anyhow, bail};
use rampmeter_protocol::suggestion::{did_you_mean, quoted};

/// What `init` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub struct PresetArgs {
    /// The service.
    #[arg(required_unless_present = "list", value_name = "PRESET")]
    preset: Option<String>,
    /// Your plan or tier; without it, the first one of the list.
    #[arg(long, visible_alias = "tier", value_name = "NAME", requires = "preset")]
    plan: Option<String>,
    /// Print a scenario: the same configuration, with workers.
    #[arg(long, requires = "preset")]
    scenario: bool,
    /// List the services and their plans.
    #[arg(long, conflicts_with_all = ["preset", "plan", "scenario"])]
    list: bool,
}

struct Preset {
    /// The heading under which it is listed.
    group: &'static str,
    name: &'static str,
    /// The configuration for its first plan, followed by [`SCENARIO`], the workers and the upstream's behaviour.
    file: &'static str,
}

/// All files of `scheduler/presets`.
const PRESETS: &[Preset] = include!(concat!(env!("OUT_DIR"), "/presets.rs"));

const SCENARIO: &str = "\n# Scenario: ";

/// The beginning of a comment with the next line's value for each plan, like `# plan: basic 500, large 1200 [1]`.
const PLANS: [&str; 2] = ["# plan: ", "# tier: "];

/// Prints the configuration of a preset, or the list of presets.
///
/// # Errors
/// If there is no such preset or plan.
pub fn run(args: &PresetArgs) -> anyhow::Result<()> {
    let Some(name) = &args.preset else { return list() };
    let preset = named(name)?;
    let text = match &args.plan {
        Some(plan) => preset.with_plan(plan)?,
        None => preset.text().to_owned(),
    };
    match args.scenario {
        true => output::print(preset.scenario(&text)),
        false => output::print(text),
    }
}

/// Returns the scenario of the preset of this name, if it exists.
pub(super) fn scenario_of(name: &str) -> anyhow::Result<String> {
    named(name).map(|preset| preset.scenario(preset.text()))
}

fn named(name: &str) -> anyhow::Result<&'static Preset> {
    let names = || PRESETS.iter().map(|preset| preset.name);
    let unknown =
        || anyhow!("there is no preset `{name}`{}; there are {}", did_you_mean(name, names()), quoted(names()));
    PRESETS.iter().find(|preset| preset.name == name).ok_or_else(unknown)
}

fn list() -> anyhow::Result<()> {
    output::line(PRESETS.iter().map(Preset::entry).collect::<Vec<_>>().join("\n"))
}

fn help() -> String {
    let of_group = |presets: &[Preset]| {
        let names: Vec<&str> = presets.iter().map(|preset| preset.name).collect();
        format!("  {:<19}{}", presets[0].group, names.join(", "))
    };
    let groups = PRESETS.chunk_by(|a, b| a.group == b.group).map(of_group);
    let groups = groups.collect::<Vec<_>>().join("\n");
    format!(
        "Services:\n{groups}\n
The configuration goes to standard output:

  rampmeter init openai --tier 2 > rampmeter.toml
  rampmeter serve --embedded-nats

Each number has its source, and the day on which it was read, in a comment. With --scenario it is a world that
`rampmeter simulate` plays."
    )
}

impl Preset {
    /// Returns the configuration.
    fn text(&self) -> &'static str {
        self.file.split_once(SCENARIO).map_or(self.file, |(text, _)| text)
    }

    /// Returns the scenario of ten minutes with this configuration.
    fn scenario(&self, text: &str) -> String {
        let scenario = &self.file[self.text().len()..];
        format!("until = \"10m\"\n\n{text}{scenario}")
    }

    /// Returns the first line of the configuration, which describes the service.
    fn about(&self) -> &'static str {
        self.file.lines().next().map_or("", |line| line.trim_start_matches("# "))
    }

    fn entry(&self) -> String {
        let plans = self.plans();
        let plans = if plans.is_empty() { String::new() } else { format!(" · plans {}", plans.join(", ")) };
        format!("{}{plans}\n  {}", self.name, self.about())
    }

    /// Returns the names of the plans. The file has the values of the first one.
    fn plans(&self) -> Vec<&'static str> {
        let values = self.file.lines().find_map(values_by_plan).unwrap_or_default();
        values.into_iter().map(|(plan, _)| plan).collect()
    }

    fn with_plan(&self, plan: &str) -> anyhow::Result<String> {
        let plans = self.plans();
        match plans.is_empty() {
            true => bail!("`{}` has no plans; leave out `--plan`", self.name),
            false if !plans.contains(&plan) => {
                bail!("`{}` has no plan `{plan}`; it has {}", self.name, quoted(plans.iter().copied()))
            }
            false => {}
        }
        let mut text = String::new();
        let mut next = None;
        for line in self.text().lines() {
            match (next.take(), line.split_once(" = ")) {
                (Some(value), Some((key, _))) => text.push_str(&format!("{key} = {value}")),
                (Some(_) | None, _) => text.push_str(line),
            }
            text.push('\n');
            let values = values_by_plan(line).unwrap_or_default();
            next = values.into_iter().find(|(name, _)| *name == plan).map(|(_, value)| value);
        }
        Ok(text)
    }
}

/// Parses a comment with plans into their names and values.
fn values_by_plan(line: &'static str) -> Option<Vec<(&'static str, &'static str)>> {
    let values = PLANS.iter().find_map(|begin| line.strip_prefix(begin))?;
    let values = values.split_once(" [").map_or(values, |(values, _)| values);
    values.split(", ").map(|value| value.split_once(' ')).collect()
}

#[cfg(test)]
mod tests {
    use super::{PRESETS, values_by_plan};

    /// A file holds the values of its first plan, and each comment names the same plans.
    #[test]
    fn a_file_is_that_of_its_first_plan() {
        for preset in PRESETS {
            let plans = preset.plans();
            let commented =
                preset.text().lines().filter(|line| line.starts_with("# plan:") || line.starts_with("# tier:"));
            for line in commented {
                let values = values_by_plan(line).unwrap();
                assert!(values.iter().map(|(plan, _)| *plan).eq(plans.iter().copied()), "{}: {line}", preset.name);
            }
            if let Some(first) = plans.first() {
                assert_eq!(preset.with_plan(first).unwrap(), preset.text(), "{}", preset.name);
            }
        }
    }
}
