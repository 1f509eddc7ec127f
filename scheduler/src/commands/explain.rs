//! `rampmeter explain`

use super::nats_arg::NatsArg;
use super::output;
use super::output::human::{count, duration, escaped, in_duration, wrapped};
use super::output::reasons::{About, sentence, word};
use super::output::table::{table, text_width};
use super::schedulers::Schedulers;
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

/// Prints why requests wait.
///
/// # Errors
/// If NATS can't be reached, no scheduler answers, or the scheduler does not know the request.
pub async fn run(args: ExplainArgs) -> anyhow::Result<()> {
    let schedulers = Schedulers::connect(&args.nats, "rampmeter-explain").await?;
    let question = Question { id: args.id, class: args.class, client: args.client, limit: args.limit };
    let explanation: Explanation = schedulers.ask(Subjects::explain, &question, &args.resource).await?;
    output::show(args.json, &explanation, render)
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
    format!("{about}{}\n{}", queue(&explanation.first), left_out(explanation))
}

fn waiting(explanation: &Explanation) -> String {
    match explanation.waiting {
        1 => "1 request waits\n".to_owned(),
        waiting => format!("{} requests wait\n", count(waiting)),
    }
}

/// Returns a line on how many requests are not listed.
fn left_out(explanation: &Explanation) -> String {
    let more = count(explanation.more);
    match (explanation.more, &explanation.request) {
        (0, _) => String::new(),
        (_, Some(_)) => format!("and {more} more ahead of it\n"),
        (_, None) => format!("and {more} more\n"),
    }
}

/// Explains why a request waits, in lines of `columns` columns.
fn describe(request: &Explained, explanation: &Explanation, columns: usize) -> String {
    let client = request.client.as_ref().map_or(String::new(), |client| format!(", client `{}`", escaped(client)));
    let labels = labels(request);
    let labels = if labels.is_empty() { labels } else { format!(", labels {labels}") };
    let title = format!("`{}`, class `{}`{client}{labels}", request.id, request.class);
    let when = duration(request.eta_ms.abs());
    match request.state {
        State::Returned => format!("{title}: given back or cancelled\n"),
        State::Granted if request.eta_ms < 0.0 => format!("{title}: started {when} ago\n"),
        State::Granted => format!("{title}: will start in {when}\n"),
        State::Waiting => format!(
            "{title}\nhas waited {}, will probably start {}{}\n{}{}\n",
            duration(request.waited_ms),
            in_duration(request.eta_ms),
            too_late(request),
            because(request, explanation).map_or(String::new(), |because| wrapped(&because, columns) + "\n"),
            ahead(request.position),
        ),
    }
}

fn labels(request: &Explained) -> String {
    let labels = request.labels.iter().map(|(key, value)| format!("{}={}", escaped(key), escaped(value)));
    labels.collect::<Vec<_>>().join(" ")
}

/// Explains what helps a request that gives up before its start.
fn too_late(request: &Explained) -> String {
    let Some(gives_up) = request.gives_up_ms.filter(|gives_up| *gives_up < request.eta_ms) else {
        return String::new();
    };
    let needed = ((request.waited_ms + request.eta_ms) / 1e3).ceil();
    format!(
        ", but gives up {}: send fewer requests ahead of it, or raise its `max_wait` to {needed} s",
        in_duration(gives_up)
    )
}

fn ahead(position: u64) -> String {
    match position {
        0 => "no request is ahead of it".to_owned(),
        1 => "1 request is ahead of it".to_owned(),
        many => format!("{} requests are ahead of it", count(many)),
    }
}

/// Explains what holds a request, with the state of the bucket.
fn because(request: &Explained, explanation: &Explanation) -> Option<String> {
    let limit = explanation.limits.iter().find(|limit| Some(&limit.name) == request.limited_by.as_ref())?;
    let about = About { takes: request.takes.get(&limit.name).copied(), class: Some(&request.class) };
    Some(sentence(request.reason.unwrap_or(Reason::Other), limit, request.held_by.as_ref()?, &about))
}

/// Formats the limit that holds a request, with its key, and the reason.
fn holder(request: &Explained) -> String {
    let key = request.held_by.as_ref().and_then(|holder| holder.key.as_ref());
    let limit = request.limited_by.as_ref().map(|limit| match key {
        Some(key) => format!("{limit} of {}", escaped(key)),
        None => limit.to_string(),
    });
    let reason = request.reason.map(|reason| word(reason).to_owned());
    limit.into_iter().chain(reason).collect::<Vec<_>>().join(": ")
}

type Cell = fn(&Explained) -> String;
type Column = (&'static str, Cell);

/// Formats the listed requests, without empty columns. Classes, labels or clients replace the time waited.
fn queue(first: &[Explained]) -> String {
    let classes = first.iter().any(|request| request.class != first[0].class);
    let labelled = first.iter().any(|request| !request.labels.is_empty());
    let clients = !labelled && first.iter().any(|request| request.client.is_some());
    let columns: Vec<Column> = [
        Some(("request", (|request| request.id.to_string()) as Cell)),
        classes.then_some(("class", |request| request.class.to_string())),
        labelled.then_some(("labels", labels)),
        clients.then_some(("client", |request| request.client.as_deref().map_or(String::new(), escaped))),
        Some(("waits for", holder)),
        (!classes && !clients && !labelled).then_some(("waited", |request| duration(request.waited_ms))),
        Some(("starts", |request| in_duration(request.eta_ms))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let head: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let rows = first.iter().map(|request| columns.iter().map(move |(_, cell)| cell(request)));
    table(&head, [columns.len() - 1], rows)
}
