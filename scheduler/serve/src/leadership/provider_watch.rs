//! Asks a provider while this process leads the resource.
//!
//! Only a leader asks, since a fleet of standbys would burden an endpoint that limits its rate. Parts that a
//! provider needs for its requests, such as an access token, are kept from one term to the next.

use crate::context::ProcessContext;
use crate::leadership::token_endpoint::TokenRequests;
use crate::limits::provider_view::ProviderNews;
use crate::permits::answers::loop_request::LoopRequest;
use crate::permits::loop_handle::{LoopWatch, next_term};
use rampmeter_account::poll_schedule::{PollSchedule, Topic};
use rampmeter_account::{ProviderError, ProviderSettings, SentinelHub};
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Time;
use tokio::sync::mpsc;

/// Asks `provider` as `settings` schedule, and passes its answers to the loop. Returns when `led` is closed.
pub(crate) async fn keep_asking(
    context: ProcessContext,
    resource: Name,
    (mut provider, settings): (SentinelHub, ProviderSettings),
    mut led: LoopWatch,
) {
    while let Some(orders) = next_term(&mut led).await {
        tokio::select! {
            biased;
            // The end of the term ends the question that is under way.
            changed = led.changed() => if changed.is_err() { return },
            () = ask_for_a_term(&context, &resource, (&mut provider, &settings), &orders) => {}
        }
    }
}

/// Asks until it is cancelled at the end of the term.
async fn ask_for_a_term(
    context: &ProcessContext,
    resource: &Name,
    (provider, settings): (&mut SentinelHub, &ProviderSettings),
    orders: &mpsc::Sender<LoopRequest>,
) {
    let clock = context.clock;
    let mut schedule = PollSchedule::new(settings.contract_every, settings.levels_every, clock.now());
    let mut requests = TokenRequests::open(context, resource, settings.share_token).await;
    loop {
        let (at, topic) = schedule.next();
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(tokio::time::Instant::from_std(clock.instant(at))) => {}
            question = requests.next() => {
                requests.answer(question, provider).await;
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

async fn ask(
    provider: &mut SentinelHub,
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
