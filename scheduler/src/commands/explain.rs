//! `rampmeter explain`

use super::nats_arg::NatsArg;
use super::status::ask;
use super::table::{right_aligned, seconds, table};
use crate::connection::connect;
use comfy_table::Table;
use rampmeter_protocol::explain::{Explained, Explanation, Question, State};
use rampmeter_protocol::id::{PermitId, PermitIdError};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::subject::Subjects;

/// What `explain` takes.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// The resource.
    resource: Name,
    /// The request to ask about; without one, all requests that wait.
    #[arg(value_parser = permit_id)]
    id: Option<PermitId>,
    /// List the requests behind this one: the last of the page before.
    #[arg(long, value_name = "ID", value_parser = permit_id, conflicts_with = "id")]
    after: Option<PermitId>,
    /// Print the scheduler's answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nats: NatsArg,
}

fn permit_id(text: &str) -> Result<PermitId, PermitIdError> {
    PermitId::new(text)
}

/// Prints why a request waits.
///
/// # Errors
/// If NATS can't be reached, no scheduler answers, or the scheduler does not know the request.
#[expect(clippy::print_stdout, reason = "what the command is for")]
pub async fn run(args: ExplainArgs) -> anyhow::Result<()> {
    let client = connect(&args.nats.table(), "rampmeter-explain").await?;
    let subject = Subjects::new(&args.nats.prefix)?.explain(&args.resource);
    let question = serde_json::to_vec(&Question { id: args.id, after: args.after })?;
    let explanation: Explanation = ask(&client, subject, question, &args.resource).await?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&explanation)?),
        false => print!("{}", render(&explanation)),
    }
    Ok(())
}

fn render(explanation: &Explanation) -> String {
    let about = match &explanation.request {
        Some(request) => describe(request, explanation),
        None if explanation.waiting == 0 => "no request waits\n".to_owned(),
        None => format!("{} wait\n", explanation.waiting),
    };
    match explanation.first.is_empty() {
        true => about,
        false => format!("{about}{}\n", queue(&explanation.first)),
    }
}

/// Why a request waits, in sentences.
fn describe(request: &Explained, explanation: &Explanation) -> String {
    let client = request.client.as_ref().map_or(String::new(), |client| format!(", client `{}`", escaped(client)));
    let title = format!("`{}`, class `{}`{client}", request.id, request.class);
    let when = seconds(request.eta_ms.abs());
    match request.state {
        State::Returned => format!("{title}: given back or cancelled\n"),
        State::Granted if request.eta_ms < 0.0 => format!("{title}: started {when} ago\n"),
        State::Granted => format!("{title}: will start in {when}{}\n", holding(request, explanation)),
        State::Waiting => format!(
            "{title}: has waited {} and will probably start in {when}{}\n{} ahead of it\n",
            seconds(request.waited_ms),
            holding(request, explanation),
            request.position,
        ),
    }
}

/// The limit that holds a request, with its level.
fn holding(request: &Explained, explanation: &Explanation) -> String {
    let limit = explanation.limits.iter().find(|limit| Some(&limit.name) == request.limited_by.as_ref());
    let Some((limit, holder)) = limit.zip(request.held_by.as_ref()) else { return String::new() };
    let key = holder.key.as_ref().map_or(String::new(), |key| format!(" of `{}`", escaped(key)));
    let takes = request.takes.get(&limit.name).copied().unwrap_or_default();
    format!(
        "\nheld by `{}`{key}: its level is {:.2} of {}, above zero in {}; this takes {takes}",
        limit.name,
        holder.level,
        limit.capacity,
        seconds(holder.next_free_ms)
    )
}

/// A label with control characters escaped: labels come from workers, and a terminal would obey
/// such characters.
fn escaped(label: &str) -> String {
    label.escape_debug().to_string()
}

/// The limit that holds a request, with its key.
fn holder(request: &Explained) -> String {
    let Some(limit) = &request.limited_by else { return String::new() };
    match request.held_by.as_ref().and_then(|holder| holder.key.as_ref()) {
        Some(key) => format!("{limit} of {}", escaped(key)),
        None => limit.to_string(),
    }
}

fn queue(first: &[Explained]) -> Table {
    let mut table = table(&["ahead", "request", "class", "client", "held by", "has waited", "starts in"]);
    for request in first {
        table.add_row([
            request.position.to_string(),
            request.id.to_string(),
            request.class.to_string(),
            request.client.as_deref().map_or(String::new(), escaped),
            holder(request),
            seconds(request.waited_ms),
            seconds(request.eta_ms),
        ]);
    }
    right_aligned(table, 5..7)
}
