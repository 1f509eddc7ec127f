//! `rampmeter price`

use super::output;
use super::output::human::count;
use super::output::table::table;
use super::pu;
use anyhow::{Context, bail};
use axum::http::{HeaderMap, Method};
use rampmeter_proxy::answer::AnswerReader;
use rampmeter_proxy::prices::{Demand, ModelPrice, PaidTokens, PricedPart, Prices, sum};
use rampmeter_proxy::settings::MAX_SCANNED;
use rampmeter_proxy::tokens::{RequestReader, TokenUnits};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What `price` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rampmeter price gpt-4o --input 1200 --output 300
  rampmeter price claude-sonnet-4-5 --input 9200 --cached 9000 --output 300
  rampmeter price --body request.json                          what a budget reserves
  rampmeter price --body request.json --answer response.json   what it then pays
  rampmeter price --list")]
pub struct PriceArgs {
    /// The model. Without it, the one that the body names.
    #[arg(required_unless_present_any = ["body", "list"], conflicts_with = "list")]
    model: Option<String>,
    /// The tokens of the prompt, or the most.
    #[arg(long, value_name = "N", conflicts_with_all = ["body", "list"])]
    input: Option<u64>,
    /// Those of them that are read from a cache.
    #[arg(long, value_name = "N", requires = "output", conflicts_with_all = ["body", "list"])]
    cached: Option<u64>,
    /// The tokens of the response, or the most. Without it, as many as the model gives.
    #[arg(long, value_name = "N", conflicts_with_all = ["body", "list"])]
    output: Option<u64>,
    /// Read the request's JSON body from this file, or from standard input if it is `-`.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    body: Option<PathBuf>,
    /// The path of the request: it tells whether the model answers with text.
    #[arg(long, value_name = "PATH", default_value = "/v1/chat/completions")]
    path: String,
    /// Read the JSON of the response, or its stream of events, from this file.
    #[arg(long, value_name = "FILE", requires = "body")]
    answer: Option<PathBuf>,
    /// Prices of your own, as `prices` of a proxy.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print the price of every model that is known.
    #[arg(long)]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a call costs, and why.
#[derive(Debug, Serialize)]
struct Priced<'a> {
    model: &'a str,
    /// The name under which its price is listed.
    listed_as: &'a str,
    /// The date of the list.
    prices_of: &'a str,
    parts: Vec<PricedPart>,
    usd: f64,
    /// By how much the sum is rounded up.
    rounded_up_by: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
}

/// Prints what a call costs.
///
/// # Errors
/// If a file can't be read, or the model has no price.
pub fn run(args: &PriceArgs) -> anyhow::Result<()> {
    let prices = prices(args.prices.as_deref())?;
    if args.list {
        return if args.json { output::json(&prices) } else { output::print(list(&prices)) };
    }
    let (body, demand) = match &args.body {
        Some(path) => of_body(&args.path, &read(path)?)?,
        None => (None, Demand { input: args.input.unwrap_or(0), output: args.output, answers: 1 }),
    };
    let Some(model) = args.model.as_deref().or(body.as_deref()) else { bail!("the body names no `model`: name one") };
    let Some((listed_as, price)) = prices.of(model) else {
        bail!("there is no price of `{model}`: see `rampmeter price --list`, or give a file with `--prices`")
    };
    let answered = args.answer.as_ref().map(|path| paid(&read(path)?, price)).transpose()?;
    let (parts, remark) = match (answered, args.output) {
        (Some(paid), _) => (price.parts(&paid).to_vec(), None),
        (None, Some(output)) => {
            let cached = args.cached.unwrap_or(0);
            let input = demand.input.saturating_sub(cached);
            (price.parts(&PaidTokens { input, cached, output, ..PaidTokens::default() }).to_vec(), None)
        }
        (None, None) => (price.parts_of_most(&demand).to_vec(), unbounded(&demand, price)),
    };
    let (usd, rounded_up_by) = sum(&parts);
    let prices_of = &*prices.date;
    output::show(
        args.json,
        &Priced { model, listed_as, prices_of, parts, usd: usd.units(), rounded_up_by, remark },
        render,
    )
}

/// Returns the prices of the list, with those of a file in their place.
pub(super) fn prices(own: Option<&Path>) -> anyhow::Result<Prices> {
    let Some(path) = own else { return Ok(Prices::listed()) };
    let own = Prices::parse(&read(path)?).with_context(|| path.display().to_string())?;
    Ok(Prices::listed().replaced_by(own))
}

fn unbounded(demand: &Demand, price: &ModelPrice) -> Option<String> {
    let tokens = count(price.most);
    (demand.output.is_none() && price.most > 0).then(|| {
        format!("the request sets no bound, such as `max_tokens`; the model answers with at most {tokens} tokens")
    })
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = pu::read(path, MAX_SCANNED).and_then(|text| String::from_utf8(text).map_err(std::io::Error::other));
    text.with_context(|| format!("can't read {}", path.display()))
}

/// Returns the model that a body names, and the most that it may take.
fn of_body(path: &str, body: &str) -> anyhow::Result<(Option<String>, Demand)> {
    let mut reader = RequestReader::new(&Method::POST, path, true, &[]);
    reader.read(body.as_bytes());
    let reading = reader.end(true);
    if !reading.is_understood {
        bail!("the body is no JSON");
    }
    if reading.tokens.is_none() {
        bail!("the tokens of a call to {path} are not known: `--path` is that of the request");
    }
    Ok((reading.model, reading.demand))
}

fn paid(answer: &str, price: &ModelPrice) -> anyhow::Result<PaidTokens> {
    let mut headers = HeaderMap::new();
    if !answer.trim_start().starts_with(['{', '[']) {
        headers.insert("content-type", "text/event-stream".parse()?);
    }
    let mut reader = AnswerReader::new(200, &headers, Some((TokenUnits::default(), Default::default())));
    reader.read(answer.as_bytes());
    reader.paid(price).context("the answer does not tell what it took (`usage`)")
}

fn list(prices: &Prices) -> String {
    let rows = prices.models.iter().map(|(name, price)| {
        let cached = price.rates.cached.map_or_else(String::new, |cached| cached.to_string());
        [name.clone(), price.rates.input.to_string(), cached, price.rates.output.to_string(), count(price.most)]
    });
    let table = table(&["model", "input", "cached", "output", "most tokens"], [1, 2, 3, 4], rows);
    format!("USD per million tokens, read on {}\n{table}\n", prices.date)
}

fn render(priced: &Priced<'_>) -> String {
    let Priced { model, listed_as, prices_of, parts, usd, rounded_up_by, remark } = priced;
    let known_as = if model == listed_as { String::new() } else { format!(" · listed as {listed_as}") };
    let taken = parts.iter().filter(|part| part.tokens > 0);
    let rows = taken.map(|part| {
        let (own, _) = sum(&[*part]);
        [part.part.to_owned(), count(part.tokens), part.usd_per_million.to_string(), format!("{:.6}", own.units())]
    });
    let total = ["together".to_owned(), String::new(), String::new(), format!("{usd:.6}")];
    let table = table(&["", "tokens", "USD per million", "USD"], [1, 2, 3], rows.chain([total]));
    let rounding = if *rounded_up_by > 0.0 { format!("rounded up by {rounded_up_by:.12}\n") } else { String::new() };
    let remark = remark.as_ref().map_or_else(String::new, |remark| format!("{remark}\n"));
    format!("{model}{known_as} · prices of {prices_of}\n{table}\n{rounding}{remark}")
}
