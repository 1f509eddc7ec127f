//! Publishing many jobs at once: order, duplicates, failures, and a server that is killed.

use crate::prelude::*;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream;
use futures::TryStreamExt;
use rampmeter_tests::guilds::name;
use std::ops::Range;

const GROUPS: u32 = 7;

/// Jobs with ids, in turn for each group.
fn jobs(numbers: Range<u32>) -> impl Iterator<Item = Job> {
    numbers.map(|number| Job::new(name(number % GROUPS), number.to_string()).id(format!("job-{number}")))
}

/// The payloads in the stream, in order, by subject.
async fn stored(nats: &Server) -> BTreeMap<String, Vec<u32>> {
    let jetstream = jetstream::new(nats::connect(nats).await);
    let stream = jetstream.get_stream("rampmeter-jobs-roles").await.unwrap();
    let all = stream.cached_info().state.messages as usize;
    let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
    let messages: Vec<_> = consumer.messages().await.unwrap().take(all).try_collect().await.unwrap();
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for message in messages {
        let number = String::from_utf8_lossy(&message.payload).parse().unwrap();
        found.entry(message.subject.to_string()).or_default().push(number);
    }
    found
}

/// Checks that the stream has each of these jobs once, and each group in order.
async fn check_stored(nats: &Server, numbers: Range<u32>) {
    let stored = stored(nats).await;
    let all: usize = stored.values().map(Vec::len).sum();
    assert_eq!(all, numbers.len());
    for numbers in stored.values() {
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}

#[tokio::test]
async fn jobs_of_a_batch_with_known_ids_are_duplicates() {
    let nats = nats::start().await;
    let queue = guilds::queue(nats.url()).await;
    for job in jobs(10..13) {
        queue.publish(job).await.unwrap();
    }
    let published = queue.publish_all(jobs(0..20)).await.unwrap();
    let again: Vec<usize> = (0..20).filter(|number| published[*number].duplicate).collect();
    assert_eq!(again, [10, 11, 12]);
    assert_eq!([10, 11, 12].map(|number: usize| published[number].sequence), [1, 2, 3], "where they are");
    assert_eq!(queue.repeated().await.unwrap(), 3);

    let twice = queue.publish_all(jobs(100..110).chain(jobs(100..110))).await.unwrap();
    assert_eq!(twice.iter().filter(|published| published.duplicate).count(), 10, "in one batch, too");
    assert!(queue.publish_all(jobs(0..20)).await.unwrap().iter().all(|published| published.duplicate));
    assert_eq!(queue.repeated().await.unwrap(), 33);
    assert_eq!(stored(&nats).await.values().map(Vec::len).sum::<usize>(), 30);
}

/// The queue has room for five of these jobs.
#[tokio::test]
async fn no_job_is_published_after_one_that_fails() {
    let nats = nats::start().await;
    let queue = Queue::builder().max_bytes(1 << 20).create(nats.url(), "roles").await.unwrap();
    let large = |number: u8| Job::new("a", vec![number; 200 << 10]).id(format!("large-{number}"));
    let small = Job::new("b", "small").id("small");
    let partly = queue.publish_all((0..8).map(large).chain([small.clone()])).await.unwrap_err();
    assert_eq!(partly.error.kind(), QueueErrorKind::Store, "{partly}");
    assert!(partly.to_string().starts_with("5 jobs are published, and the next is not: "), "{partly}");
    let counts = async || queue.status().await.unwrap().iter().map(|group| group.delayed).collect::<Vec<_>>();
    assert_eq!(counts().await, [5], "the small one would have found room");

    for published in &partly.published {
        assert!(queue.delete(published.sequence).await.unwrap());
    }
    queue.publish_all((5..8).map(large).chain([small])).await.unwrap();
    assert_eq!(counts().await, [3, 1]);
}

/// Whatever was under way: each job is there once, and each group is in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_survive_a_server_that_is_killed() {
    let mut nats = nats::start().await;
    let queue = guilds::queue(nats.url()).await;
    let publisher = queue.clone();
    let publishing = tokio::spawn(async move {
        let mut next = 0;
        while next < 20_000 {
            let upto = next + 2000;
            // Jobs that are there already are duplicates.
            while publisher.publish_all(jobs(next..upto)).await.is_err() {}
            next = upto;
        }
    });
    for stored in [1500, 8000] {
        until("jobs are stored", async || {
            let status = queue.status().await.unwrap_or_default();
            (status.iter().map(|group| group.delayed).sum::<usize>() > stored).then_some(())
        })
        .await;
        nats.kill().await.unwrap();
        nats.restart().await.unwrap();
    }
    publishing.await.unwrap();
    check_stored(&nats, 0..20_000).await;
}

/// The stream of an earlier build knows no batches. `init` has it take them.
#[tokio::test]
async fn a_queue_of_an_earlier_build_takes_many_jobs_too() {
    let nats = nats::start().await;
    let queue = guilds::queue(nats.url()).await;
    let jetstream = jetstream::new(nats::connect(&nats).await);
    let config = async || jetstream.get_stream("rampmeter-jobs-roles").await.unwrap().cached_info().config.clone();
    let earlier = stream::Config { allow_atomic_publish: false, ..config().await };
    jetstream.update_stream(earlier).await.unwrap();
    drop(queue);

    let queue = Queue::open(nats.url(), "roles").await.unwrap();
    queue.publish_all(jobs(0..50)).await.unwrap();
    check_stored(&nats, 0..50).await;
    let init = ["jobs", "init", "roles", "--lease", "1s", "--nats", nats.url()];
    assert!(process::run(RAMPMETER, &init).await.status.success());
    assert!(config().await.allow_atomic_publish);
}
