//! Asking a provider while this process leads the resource.
//!
//! Only a leader asks: a fleet of standbys would be a load on an endpoint that limits its rate.
//! What a provider needs for its requests, such as an access token, is kept from one term to the
//! next.

use crate::leadership::token_endpoint::{TokenEndpoint, TokenRequests};
use crate::limits::provider_view::ProviderNews;
use crate::permits::answers::loop_request::LoopRequest;
use crate::permits::loop_handle::{LoopHandle, LoopWatch};
use rampmeter_account::poll_schedule::{PollSchedule, Topic};
use rampmeter_account::{Provider, ProviderError, ProviderSettings};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::time::Time;
use tokio::sync::mpsc;

/// Asks `provider` as often as `settings` say, and tells the loop that leads. Returns when `led` is
/// closed.
pub(crate) async fn keep_asking(
    mut provider: impl Provider,
    (settings, endpoint): (ProviderSettings, Option<TokenEndpoint>),
    clock: Clock,
    mut led: LoopWatch,
) {
    loop {
        let handle = match led.wait_for(Option::is_some).await {
            Ok(handle) => handle.clone(),
            Err(_ended) => return,
        };
        let Some(LoopHandle { orders, .. }) = handle else { continue };
        tokio::select! {
            biased;
            // The end of the term ends the question that is under way.
            changed = led.changed() => if changed.is_err() { return },
            () = ask_for_a_term(&mut provider, (&settings, endpoint.as_ref()), clock, &orders) => {}
        }
    }
}

/// Asks without end: the term's end cancels this.
async fn ask_for_a_term(
    provider: &mut impl Provider,
    (settings, endpoint): (&ProviderSettings, Option<&TokenEndpoint>),
    clock: Clock,
    orders: &mpsc::Sender<LoopRequest>,
) {
    let mut schedule = PollSchedule::new(settings, clock.now());
    let mut requests = TokenRequests::open(endpoint).await;
    loop {
        let (at, topic) = schedule.next();
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(tokio::time::Instant::from_std(clock.instant(at))) => {}
            question = requests.next() => {
                requests.answer(question, provider, clock).await;
                continue;
            }
        }
        let asked = clock.now();
        let answer = ask(provider, topic, asked, clock).await;
        let news = match answer {
            Ok(news) => {
                schedule.succeeded(clock.now(), topic);
                [news, schedule.is_well().then_some(ProviderNews::Well)]
            }
            Err(error) => {
                schedule.failed(clock.now(), topic, rand::random_range(0.5..=1.0));
                [Some(ProviderNews::Trouble(error)), None]
            }
        };
        for news in news.into_iter().flatten() {
            if orders.send(LoopRequest::Provider(news)).await.is_err() {
                // The loop is gone, and `led` will show its end soon.
                return std::future::pending().await;
            }
        }
    }
}

/// What the provider tells; nothing if it has nothing to tell.
async fn ask(
    provider: &mut impl Provider,
    topic: Topic,
    asked: Time,
    clock: Clock,
) -> Result<Option<ProviderNews>, ProviderError> {
    match topic {
        Topic::Contract => Ok(Some(ProviderNews::Limits(provider.limits().await?))),
        Topic::Levels => {
            let levels = provider.levels().await?;
            Ok(levels.map(|levels| ProviderNews::Levels { asked, answered: clock.now(), levels }))
        }
    }
}
