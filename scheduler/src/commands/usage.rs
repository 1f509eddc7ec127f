//! `rampmeter usage`

use super::nats_arg::NatsArg;
use super::output;
use super::output::human::{amount, count, escaped};
use super::output::table::table;
use super::schedulers::Schedulers;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;
use rampmeter_protocol::usage::{ClientUsage, DayUsage, KEPT_DAYS, UsageQuery};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The first line of a CSV file.
const CSV_HEAD: &str = "day,resource,client,class,unit,amount\n";
/// The unit that stands for the number of calls. No real unit can have this name.
const CALLS: &str = "(calls)";
/// The characters with which a spreadsheet's formulas begin.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// What `usage` takes.
#[derive(Debug, clap::Args)]
pub struct UsageArgs {
    /// The resource; all resources, if none is named.
    resource: Option<Name>,
    /// How many days to show, in UTC, up to and including today; 90 are kept.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=i64::from(KEPT_DAYS)))]
    days: u16,
    /// Print a line for each day, client, class and unit, for spreadsheets.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print the schedulers' answers as a JSON array.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

/// Prints the use by clients.
///
/// # Errors
/// If NATS can't be reached, or no scheduler answers.
pub async fn run(args: UsageArgs) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-usage").await?;
    let names = schedulers.named_or_all(args.resource.as_ref()).await?;
    let mut all = Vec::new();
    for name in &names {
        all.extend(days(&schedulers, name, args.days).await?);
    }
    if args.json {
        return output::json(&all);
    }
    if args.csv {
        return output::print(CSV_HEAD.to_owned() + &all.iter().map(csv).collect::<String>());
    }
    names.iter().try_for_each(|name| output::print(render(name, args.days, &all)))
}

/// Requests the use of these days, the earliest first.
async fn days(schedulers: &Schedulers, name: &Name, count: u16) -> anyhow::Result<Vec<DayUsage>> {
    let mut days = Vec::new();
    for days_ago in (0..count).rev() {
        days.push(schedulers.ask(Subjects::usage, &UsageQuery { days_ago }, name).await?);
    }
    Ok(days)
}

/// Formats a day as lines of comma-separated values (RFC 4180).
fn csv(day: &DayUsage) -> String {
    let lines = |used: &ClientUsage| {
        let calls = (CALLS.to_owned(), used.calls as f64);
        let units = used.units.iter().map(|(unit, amount)| (unit.to_string(), *amount));
        let head = format!("{},{},{},{}", day.day, day.resource, quoted(&used.client), used.class);
        std::iter::once(calls)
            .chain(units)
            .map(|(unit, amount)| format!("{head},{unit},{amount}\n"))
            .collect::<String>()
    };
    day.clients.iter().map(lines).collect()
}

/// Quotes a text that a client has chosen, so that no spreadsheet computes it.
fn quoted(text: &str) -> String {
    let guard = if text.starts_with(FORMULA_STARTS) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[derive(Default)]
struct UsageSum<'a> {
    calls: i64,
    units: BTreeMap<&'a Name, f64>,
}

impl<'a> UsageSum<'a> {
    fn add(&mut self, used: &'a ClientUsage) {
        self.calls += used.calls;
        used.units.iter().for_each(|(unit, amount)| *self.units.entry(unit).or_default() += amount);
    }
}

/// Formats the total use of each client, those with the most calls first.
fn render(resource: &Name, days: u16, all: &[DayUsage]) -> String {
    let mut sums: BTreeMap<(&str, &Name), UsageSum<'_>> = BTreeMap::new();
    let of_resource = all.iter().filter(|day| day.resource == *resource);
    for used in of_resource.flat_map(|day| &day.clients) {
        sums.entry((&used.client, &used.class)).or_default().add(used);
    }
    let title = match days {
        1 => format!("{resource} · today, in UTC\n"),
        days => format!("{resource} · the last {days} days, in UTC\n"),
    };
    if sums.is_empty() {
        return title + "nothing was used\n";
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, sum)| Reverse(sum.calls));
    let rows = rows.into_iter().map(|((client, class), UsageSum { calls, units })| {
        let client = if client.is_empty() { "–".to_owned() } else { escaped(client) };
        let units: Vec<String> = units.iter().map(|(unit, used)| format!("{} {unit}", amount(*used))).collect();
        let calls = if calls < 0 { format!("-{}", count(calls.unsigned_abs())) } else { count(calls.unsigned_abs()) };
        [client, class.to_string(), calls, units.join(", ")]
    });
    format!("{title}{}\n", table(&["client", "class", "calls", "used"], [2], rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: &str, client: &str, calls: i64, units: f64) -> DayUsage {
        let units = BTreeMap::from([(Name::new("units").unwrap(), units)]);
        let used = ClientUsage { client: client.to_owned(), class: Name::new("bulk").unwrap(), calls, units };
        DayUsage { resource: Name::new("hub").unwrap(), day: day.to_owned(), clients: vec![used] }
    }

    #[test]
    fn names_of_clients_are_cells_and_no_formulas() {
        let hostile = "=HYPERLINK(\"http://x\",\"a,b\")\n";
        let line = "2026-11-24,hub,\"'=HYPERLINK(\"\"http://x\"\",\"\"a,b\"\")\n\",bulk";
        assert_eq!(csv(&day("2026-11-24", hostile, 2, 1.5)), format!("{line},(calls),2\n{line},units,1.5\n"));
        assert_eq!(quoted("team-a"), "\"team-a\"");
    }

    #[test]
    fn days_are_summed_and_the_most_calls_come_first() {
        let all = [day("2026-11-23", "a", 2, 1.5), day("2026-11-24", "b\u{7}", 5, 1.0), day("2026-11-24", "a", 1, 2.0)];
        let text = render(&Name::new("hub").unwrap(), 7, &all);
        let rows: Vec<Vec<&str>> = text.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows,
            [vec!["b\\u{7}", "bulk", "5", "1", "units"], vec!["a", "bulk", "3", "3.5", "units"]],
            "{text}"
        );
        assert!(render(&Name::new("other").unwrap(), 1, &all).ends_with("nothing was used\n"));
    }
}
