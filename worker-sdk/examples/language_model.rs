//! A client of a language model with limits for requests and tokens a minute. The tokens of an
//! answer are known only afterwards. Each call therefore asks for the most that it may take, and
//! settles with what it took. Waiting requests get the rest.
//!
//! ```sh
//! rampmeter upstream --listen 127.0.0.1:9490 --dialect openai --limit requests=600/60s --limit tokens=90000/60s
//! cargo run -p rampmeter-worker-sdk --example language_model -- language-model http://127.0.0.1:9490 20 10
//! ```
//!
//! with the server's URL in `RAMPMETER_NATS`, and these limits of the resource `language-model`:
//!
//! ```toml
//! [[resource]]
//! name = "language-model"
//! dialect = "openai"
//!
//! [[resource.limit]]
//! name = "requests"
//! unit = "requests"
//! capacity = 600
//! period = "60s"
//!
//! [[resource.limit]]
//! name = "tokens"
//! unit = "tokens"
//! capacity = 90000
//! period = "60s"
//! ```

use rampmeter_worker_sdk::{Client, Cost, Outcome, Resource};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The most that an answer may take: what is sent as `max_tokens`.
const MAX_ANSWERED: u32 = 800;

/// Totals of some conversations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Calls that were answered.
    pub answered: u32,
    /// Calls that were answered 429.
    pub rejected: u32,
    /// Tokens that calls asked for.
    pub estimated: u32,
    /// Tokens that calls took.
    pub taken: u32,
}

impl Summary {
    fn and(self, other: Summary) -> Summary {
        Summary {
            answered: self.answered + other.answered,
            rejected: self.rejected + other.rejected,
            estimated: self.estimated + other.estimated,
            taken: self.taken + other.taken,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { answered, rejected, estimated, taken } = self;
        write!(f, "{answered} answers, {rejected} × 429; asked for {estimated} tokens, took {taken}")
    }
}

/// The service's report on an answer, like `usage` of a real one.
struct Completion {
    outcome: Outcome,
    took: u32,
}

impl rampmeter_worker_sdk::call::Reply for Completion {
    fn outcome(&self) -> Outcome {
        self.outcome.clone().cost(Cost::requests(1).and("tokens", self.took))
    }
}

/// Holds some conversations at once, with `turns` calls each of `model` at `url`.
///
/// # Errors
/// If a call can't be made.
pub async fn converse(model: &Resource, url: &str, conversations: u32, turns: u32) -> Result<Summary, Error> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let talking = (0..conversations).map(|number| talk(model, &http, url, number * turns..(number + 1) * turns));
    let summaries = futures::future::try_join_all(talking).await?;
    Ok(summaries.into_iter().fold(Summary::default(), Summary::and))
}

/// One conversation, question by question.
async fn talk(model: &Resource, http: &reqwest::Client, url: &str, numbers: Range<u32>) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    for number in numbers {
        summary = summary.and(ask(model, http, url, number).await?);
    }
    Ok(summary)
}

/// One question and its answer.
async fn ask(model: &Resource, http: &reqwest::Client, url: &str, number: u32) -> Result<Summary, Error> {
    let prompt = 50 + number * 7919 % 150;
    let estimate = prompt + MAX_ANSWERED;
    let calls = AtomicU32::new(0);
    let call = || {
        calls.fetch_add(1, Ordering::Relaxed);
        complete(http, url, prompt, number)
    };
    // A call that is answered 429 is repeated.
    let completion = model.acquire(Cost::requests(1).and("tokens", estimate)).run(call).await?;
    let rejected = calls.into_inner() - 1;
    Ok(Summary { answered: 1, rejected, estimated: estimate, taken: completion.took })
}

/// The call itself. The request tells the imitated service how long its answer is; a real service decides that itself.
async fn complete(http: &reqwest::Client, url: &str, prompt: u32, number: u32) -> Result<Completion, reqwest::Error> {
    let took = prompt + 20 + number * 104_729 % MAX_ANSWERED;
    let response = http.get(format!("{url}/process?tokens={took}")).send().await?;
    let outcome = Outcome::status(response.status().as_u16());
    let headers = response.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let outcome = headers.fold(outcome, |outcome, (name, value)| outcome.header(name, value));
    let took = if outcome.is_success() { took } else { 0 };
    response.bytes().await?;
    Ok(Completion { outcome, took })
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Error> {
    let nats = std::env::var("RAMPMETER_NATS").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let mut arguments = std::env::args().skip(1);
    let resource = arguments.next().unwrap_or_else(|| "language-model".to_owned());
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:9490".to_owned());
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u32>());
    let (conversations, turns) = (number(20)?, number(10)?);
    let client = Client::builder().name("language-model").wait_for_server().connect(nats).await?;
    println!("{}", converse(&client.resource(&resource)?, &url, conversations, turns).await?);
    Ok(())
}
