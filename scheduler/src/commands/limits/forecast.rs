//! `rampmeter forecast`

use crate::commands::nats_arg::NatsArg;
use crate::commands::output;
use crate::commands::output::human::{duration, in_duration};
use crate::commands::output::table::table;
use crate::commands::schedulers::Schedulers;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::status::Status;
use serde_json::{Value, json};

const MILLIS_PER_HOUR: f64 = 3_600_000.0;

/// What `forecast` takes.
#[derive(Debug, clap::Args)]
pub struct ForecastArgs {
    /// The resource; all resources, if none is named.
    resource: Option<Name>,
    /// Print the forecasts as a JSON array.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

/// Prints when limits run out.
///
/// # Errors
/// If NATS can't be reached, or no scheduler answers.
pub async fn run(args: ForecastArgs) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-forecast").await?;
    let all = schedulers.statuses(args.resource.as_ref()).await?;
    if args.json {
        let forecasts = |status: &Status| json!({"resource": status.resource, "forecasts": status.forecasts});
        return output::json(&all.iter().map(forecasts).collect::<Value>());
    }
    all.iter().try_for_each(|status| output::print(render(status)))
}

fn render(status: &Status) -> String {
    if status.forecasts.is_empty() {
        return format!("{}\nno limit of an hour or longer has a history yet\n\n", status.resource);
    }
    let rows = status.forecasts.iter().map(|forecast| {
        [
            forecast.limit.to_string(),
            end(forecast.p10_ms),
            end(forecast.p50_ms),
            end(forecast.p90_ms),
            format!("{:.0} %", 100.0 * forecast.share),
            forecast.resets_ms.map_or("–".to_owned(), in_duration),
            duration(forecast.history_hours as f64 * MILLIS_PER_HOUR),
        ]
    });
    let head = ["limit", "early (p10)", "likely (p50)", "late (p90)", "ends in time", "resets", "history"];
    format!("{}\n{}\n\n", status.resource, table(&head, 1..7, rows))
}

fn end(at: Option<f64>) -> String {
    at.map_or("–".to_owned(), in_duration)
}
