//! The worker SDK against a real scheduler.

use crate::prelude::*;
use async_nats::Subscriber;
use futures::poll;

/// Four requests, and one more every 500 ms.
const HUB: &str = r#"
[[resource]]
name = "hub"
classes = [{ name = "urgent" }, { name = "bulk" }]
default_class = "bulk"
limit = [{ name = "few", capacity = 4, period = "2s", margin = 0 }]
"#;

struct Stage {
    hub: Resource,
    client: Client,
    worker: Worker,
    _scheduler: Running,
    nats: Server,
}

async fn stage() -> Stage {
    let (nats, scheduler) = scheduler::alone(HUB).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let worker = Worker::connect(&nats, "hub").await;
    Stage { hub: client.resource("hub").unwrap(), client, worker, _scheduler: scheduler, nats }
}

/// Waits until the scheduler has counted this many grants, settles and returns.
async fn until_counted(worker: &Worker, expected: (u64, u64, u64)) {
    until("permits are counted", async || {
        let counters = worker.status().await.counters;
        ((counters.granted, counters.settled, counters.returned) == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn acquire_returns_when_the_call_may_be_made() {
    let Stage { hub, worker, .. } = &stage().await;
    let clock = Clock::start();
    for _ in 0..6 {
        let permit = within("a permit", hub.acquire(1).into_future()).await.unwrap();
        assert_eq!(permit.delay(), Duration::ZERO);
        permit.begin().settle(Outcome::status(200));
    }
    let took = clock.now().since(Clock::START);
    assert!(took >= Span::from_millis(1000), "four at once, two more after 500 ms each: {took}");
    until_counted(worker, (6, 6, 0)).await;
}

#[tokio::test]
async fn reserve_promises_a_start_at_once() {
    let Stage { hub, .. } = &stage().await;
    hub.acquire(4).await.unwrap().begin().settle(Outcome::default());
    let permit = hub.reserve(1).await.unwrap();
    assert!(permit.delay() > Duration::from_millis(100) && permit.delay() <= Duration::from_millis(500));
    assert_eq!(permit.limited_by(), Some("few"));
    let permit = permit.ready().await.unwrap();
    assert_eq!(permit.delay(), Duration::ZERO);
    drop(permit.begin());
}

#[tokio::test]
async fn try_acquire_is_yes_or_no() {
    let Stage { hub, client, .. } = &stage().await;
    hub.try_acquire(4).await.unwrap().begin().settle(Outcome::default());
    let error = hub.try_acquire(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused(Code::NotInTime));
    assert_eq!(error.limited_by(), Some("few"));
    assert!(error.retry_after().is_some_and(|after| after <= Duration::from_millis(500)));
    assert_eq!((client.stats().granted, client.stats().denied), (1, 1));
}

#[tokio::test]
async fn a_permit_that_is_dropped_is_given_back_and_a_call_is_not() {
    let Stage { hub, worker, client, .. } = &stage().await;
    drop(hub.acquire(4).await.unwrap());
    until_counted(worker, (1, 0, 1)).await;
    assert_eq!(client.stats().returned, 1);
    drop(hub.try_acquire(4).await.unwrap().begin());
    until_counted(worker, (2, 1, 1)).await;
}

#[tokio::test]
async fn a_request_that_is_dropped_is_cancelled() {
    let Stage { hub, worker, .. } = &stage().await;
    hub.acquire(4).await.unwrap().begin().settle(Outcome::default());
    let mut waiting = hub.acquire(4).into_future();
    assert!((&mut waiting).now_or_never().is_none());
    worker.until_queued(1).await;
    drop(waiting);
    worker.until_queued(0).await;
    until_counted(worker, (1, 1, 1)).await;
}

#[tokio::test]
async fn a_request_that_cannot_be_granted_is_refused_with_a_reason() {
    let Stage { hub, .. } = &stage().await;
    #[rustfmt::skip]
    let table = [
        (hub.acquire(5),                    ErrorKind::Refused(Code::NeverFits),    "exceeds the limit's capacity of 4"),
        (hub.acquire(1).class("none"),      ErrorKind::Refused(Code::UnknownClass), "there are `urgent`, `bulk`"),
        (hub.acquire(Cost::of("tokens", 1)), ErrorKind::Refused(Code::UnknownUnit), "`cost.tokens`"),
        (hub.acquire(Cost::of("a b", 1)),   ErrorKind::InvalidArgument,             "a name is 1 to 64 characters"),
        (hub.acquire(Cost::requests(-1)),   ErrorKind::InvalidArgument,             "from 0 to 1e9"),
    ];
    for (acquire, kind, text) in table {
        let error = within("an error", acquire.into_future()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Sees all messages that ask for permits of the hub.
async fn observer(nats: &Server) -> Subscriber {
    let observer = nats::connect(nats).await;
    let mut seen = observer.subscribe("rampmeter.permit.hub").await.unwrap();
    until("the observer hears", async || {
        observer.publish("rampmeter.permit.hub", "0".into()).await.unwrap();
        seen.next().now_or_never()
    })
    .await;
    seen
}

/// How many requests each of the next messages has, up to this number of requests in total.
async fn requests_in_messages(seen: &mut Subscriber, total: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < total {
        let message = within("a message", seen.next()).await.unwrap();
        let payload: Value = serde_json::from_slice(&message.payload).unwrap();
        sizes.push(payload.as_array().map_or(usize::from(payload.is_object()), Vec::len));
        sizes.retain(|size| *size > 0);
    }
    sizes
}

/// Reaches `driver::MAX_AT_ONCE`: one request wakes the driver, which takes 256 more before it
/// sends.
#[tokio::test]
async fn the_first_of_a_thousand_requests_do_not_wait_for_the_last() {
    let Stage { hub, nats, .. } = &stage().await;
    let mut seen = observer(nats).await;
    let mut asked: Vec<_> = (0..1000).map(|_| hub.acquire(Cost::requests(0)).into_future()).collect();
    for request in &mut asked {
        assert!(poll!(request).is_pending());
    }
    let messages = requests_in_messages(&mut seen, 1000).await;
    assert_eq!(messages[..5], [64, 64, 64, 64, 1], "{messages:?}");
    assert!(join_all(asked).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_client_that_is_closed_ends_all_waiting() {
    let Stage { hub, client, worker, .. } = &stage().await;
    let call = hub.acquire(4).await.unwrap().begin();
    let waiting = hub.acquire(4).into_future();
    client.close().await;
    assert_eq!(within("an error", waiting).await.unwrap_err().kind(), ErrorKind::Closed);
    call.settle(Outcome::status(200));
    until("the call in flight is settled", async || (worker.status().await.counters.settled == 1).then_some(())).await;
}

/// Each thread makes a call that is answered 429 once, and one by hand.
#[tokio::test]
async fn threads_without_a_runtime_wait_for_their_calls() {
    use rampmeter_worker_sdk::blocking;
    let Stage { nats, worker, .. } = &stage().await;
    let url = nats.url().to_owned();
    let work = move || {
        let client = blocking::Client::connect(&url).unwrap();
        let hub = client.resource("hub").unwrap();
        assert_eq!(hub.wait(hub.acquire(9000)).unwrap_err().kind(), ErrorKind::Refused(Code::NeverFits));
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let mut answers = [429, 200].into_iter();
                    let call = || Ok::<_, std::io::Error>((Outcome::status(answers.next().unwrap()), ()));
                    hub.run(1, call).unwrap();
                    hub.wait(hub.acquire(1).deadline(Duration::from_secs(50)))
                        .unwrap()
                        .begin()
                        .settle(Outcome::status(200));
                });
            }
        });
        client.close();
    };
    within("all threads", tokio::task::spawn_blocking(work)).await.unwrap();
    let counters = worker.status().await.counters;
    assert_eq!((counters.granted, counters.settled, counters.upstream_429), (12, 12, 4));
}
