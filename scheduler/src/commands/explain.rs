//! `rampmeter explain`

use super::nats_arg::NatsArg;
use super::output;
use super::output::human::{count, duration, escaped, in_duration, wrapped};
use super::output::reasons::{About, sentence, word};
use super::output::table::{right_aligned, table, text_width, trimmed};
use super::schedulers::Schedulers;
use comfy_table::Table;
use rampmeter_protocol::explain::{Explained, Explanation, Question, State};
use rampmeter_protocol::id::{PermitId, PermitIdError};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::reason::Reason;
use rampmeter_protocol::subject::Subjects;

/// What `explain` takes.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// The resource.
    resource: Name,
    /// The request to ask about; without one, the first ten that wait.
    #[arg(value_parser = permit_id)]
    id: Option<PermitId>,
    /// List requests of this class alone.
    #[arg(long, conflicts_with = "id")]
    class: Option<Name>,
    /// List requests of this client alone: the value of the label that `fair_share` names.
    #[arg(long, conflicts_with = "id")]
    client: Option<String>,
    /// List requests alone that this limit holds.
    #[arg(long, conflicts_with = "id")]
    limit: Option<Name>,
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
pub async fn run(args: ExplainArgs) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-explain").await?;
    let question = Question { id: args.id, class: args.class, client: args.client, limit: args.limit };
    let explanation: Explanation = schedulers.ask(Subjects::explain, &question, &args.resource).await?;
    match args.json {
        true => output::json(&explanation),
        false => output::print(render(&explanation)),
    }
}

fn render(explanation: &Explanation) -> String {
    let about = match &explanation.request {
        Some(request) => describe(request, explanation, text_width()),
        None if explanation.waiting == 0 => "no request waits\n".to_owned(),
        None => waiting(explanation),
    };
    if explanation.first.is_empty() {
        return about;
    }
    format!("{about}{}\n{}", trimmed(&queue(&explanation.first)), left_out(explanation))
}

fn waiting(explanation: &Explanation) -> String {
    match explanation.waiting {
        1 => "1 request waits\n".to_owned(),
        waiting => format!("{} requests wait\n", count(waiting)),
    }
}

/// How many requests are not listed.
fn left_out(explanation: &Explanation) -> String {
    let more = count(explanation.more);
    match (explanation.more, &explanation.request) {
        (0, _) => String::new(),
        (_, Some(_)) => format!("and {more} more ahead of it\n"),
        (_, None) => format!("and {more} more\n"),
    }
}

/// Why a request waits, in lines of `columns` columns.
fn describe(request: &Explained, explanation: &Explanation, columns: usize) -> String {
    let client = request.client.as_ref().map_or(String::new(), |client| format!(", client `{}`", escaped(client)));
    let title = format!("`{}`, class `{}`{client}", request.id, request.class);
    let when = duration(request.eta_ms.abs());
    match request.state {
        State::Returned => format!("{title}: given back or cancelled\n"),
        State::Granted if request.eta_ms < 0.0 => format!("{title}: started {when} ago\n"),
        State::Granted => format!("{title}: will start in {when}\n"),
        State::Waiting => format!(
            "{title}\nhas waited {}, will probably start {}\n{}{}\n",
            duration(request.waited_ms),
            in_duration(request.eta_ms),
            because(request, explanation).map_or(String::new(), |because| wrapped(&because, columns) + "\n"),
            ahead(request.position),
        ),
    }
}

fn ahead(position: u64) -> String {
    match position {
        0 => "no request is ahead of it".to_owned(),
        1 => "1 request is ahead of it".to_owned(),
        many => format!("{} requests are ahead of it", count(many)),
    }
}

/// What holds a request, with the state of the bucket.
fn because(request: &Explained, explanation: &Explanation) -> Option<String> {
    let limit = explanation.limits.iter().find(|limit| Some(&limit.name) == request.limited_by.as_ref())?;
    let about = About { takes: request.takes.get(&limit.name).copied(), class: Some(&request.class) };
    Some(sentence(request.reason.unwrap_or(Reason::Other), limit, request.held_by.as_ref()?, &about))
}

/// The limit that holds a request, with its key, and the reason.
fn holder(request: &Explained) -> String {
    let key = request.held_by.as_ref().and_then(|holder| holder.key.as_ref());
    let limit = request.limited_by.as_ref().map(|limit| match key {
        Some(key) => format!("{limit} of {}", escaped(key)),
        None => limit.to_string(),
    });
    let reason = request.reason.map(|reason| word(reason).to_owned());
    limit.into_iter().chain(reason).collect::<Vec<_>>().join(": ")
}

/// What a column shows of a request.
type Cell = fn(&Explained) -> String;
type Column = (&'static str, Cell);

/// The listed requests. A column that tells nothing is left out. If classes or clients are shown,
/// the time that a request has waited is left out, too.
fn queue(first: &[Explained]) -> Table {
    let classes = first.iter().any(|request| request.class != first[0].class);
    let clients = first.iter().any(|request| request.client.is_some());
    let columns: Vec<Column> = [
        Some(("request", (|request| request.id.to_string()) as Cell)),
        classes.then_some(("class", |request| request.class.to_string())),
        clients.then_some(("client", |request| request.client.as_deref().map_or(String::new(), escaped))),
        Some(("waits for", holder)),
        (!classes && !clients).then_some(("waited", |request| duration(request.waited_ms))),
        Some(("starts", |request| in_duration(request.eta_ms))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut table = table(&columns.iter().map(|(head, _)| *head).collect::<Vec<_>>());
    for request in first {
        table.add_row(columns.iter().map(|(_, cell)| cell(request)));
    }
    let last = columns.len();
    right_aligned(table, last - 1..last)
}
