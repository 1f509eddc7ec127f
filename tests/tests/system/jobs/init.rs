//! Operators make queues, and workers open them. A queue that another party has made in another way
//! is refused with the difference.

use crate::prelude::*;
use async_nats::jetstream::consumer::push;
use async_nats::jetstream::{Context, stream};
use rampmeter_jobs::{QueueError, Worker};

async fn init(nats: &Server, options: &[&str]) -> Result<String, String> {
    printed_at(nats, &[&["jobs", "init", "roles"], options].concat()).await
}

async fn context(nats: &Server) -> Context {
    jetstream::new(nats::connect(nats).await)
}

async fn start(nats: &Server, class: &str) -> Result<Worker, QueueError> {
    let queue = Queue::open(nats.url(), "roles").await?;
    let discord = Client::connect(nats.url()).await.unwrap().resource("discord").unwrap();
    let worker = queue.worker(discord).class(class);
    worker.start(async |_| Ok::<_, Failure>(Outcome::status(204))).await
}

#[tokio::test]
async fn a_queue_is_made_by_an_operator_alone() {
    let nats = nats::start().await;
    let missing = Queue::open(nats.url(), "roles").await.unwrap_err();
    assert_eq!(missing.kind(), QueueErrorKind::Missing, "{missing}");
    assert!(missing.to_string().contains("rampmeter jobs init roles"), "{missing}");

    for _ in 0..2 {
        let message = init(&nats, &["--class", "urgent", "--max-mib", "8", "--lease", "2s"]).await.unwrap();
        assert_eq!(message, "the queue `roles` is ready\n", "once and again");
    }
    start(&nats, "urgent").await.unwrap().stop().await;
    let missing = start(&nats, "usual").await.unwrap_err();
    assert_eq!(missing.kind(), QueueErrorKind::Missing, "{missing}");
    assert!(missing.to_string().contains("`batons-usual`"), "{missing}");

    let queue = Queue::open(nats.url(), "roles").await.unwrap();
    let usual = || Job::new("a", "a role").class("usual");
    queue.publish(usual().class("urgent")).await.unwrap();
    let errors = [queue.publish(usual()).await.unwrap_err(), queue.publish_all([usual()]).await.unwrap_err().error];
    for missing in errors {
        assert_eq!(missing.kind(), QueueErrorKind::Missing, "{missing}");
        assert!(missing.to_string().contains("rampmeter jobs init roles --class usual"), "{missing}");
    }

    let refused = init(&nats, &["--max-mib", "9", "--remember-ids", "1m"]).await.unwrap_err();
    for difference in ["`duplicate_window` is 600000000000, not 60000000000", "`max_bytes` is 8388608, not 9437184"] {
        assert!(refused.contains(difference), "{refused}");
    }
}

#[tokio::test]
async fn a_queue_has_bounds_and_a_full_one_refuses_jobs() {
    let nats = nats::start().await;
    init(&nats, &["--max-mib", "1"]).await.unwrap();
    let queue = Queue::open(nats.url(), "roles").await.unwrap();
    let large = vec![b'x'; 250 << 10];
    for _ in 0..4 {
        queue.publish(Job::new("a", large.clone())).await.unwrap();
    }
    let full = queue.publish(Job::new("a", large.clone())).await.unwrap_err();
    assert!(full.to_string().contains("maximum bytes exceeded"), "{full}");
    assert_eq!(queue.status().await.unwrap()[0].delayed, 4, "none was lost");
    assert!(queue.delete(1).await.unwrap());
    queue.publish(Job::new("a", large)).await.unwrap();

    let too_large = queue.publish(Job::new("a", vec![b'x'; (256 << 10) + 1])).await.unwrap_err();
    assert_eq!(too_large.kind(), QueueErrorKind::InvalidArgument, "{too_large}");
}

/// The stream copies every job to a subject of its maker's choice.
#[tokio::test]
async fn a_stream_of_another_party_is_refused_with_the_difference() {
    let nats = nats::start().await;
    let republish = stream::Republish {
        source: "rampmeter.jobs.roles.>".to_owned(),
        destination: "elsewhere.>".to_owned(),
        headers_only: false,
    };
    let config = stream::Config {
        name: "rampmeter-jobs-roles".to_owned(),
        subjects: vec!["rampmeter.jobs.roles.>".to_owned()],
        republish: Some(republish),
        ..stream::Config::default()
    };
    context(&nats).await.create_stream(config).await.unwrap();
    let opened = Queue::open(nats.url(), "roles").await.unwrap_err();
    assert_eq!(opened.kind(), QueueErrorKind::Differs, "{opened}");
    for message in [opened.to_string(), init(&nats, &[]).await.unwrap_err()] {
        assert!(message.contains("the stream `rampmeter-jobs-roles` has another configuration: "), "{message}");
        assert!(message.contains("`republish` is {") && message.contains("not unset"), "{message}");
    }
}

/// The consumer delivers every lane lease to a subject of its maker's choice.
#[tokio::test]
async fn a_consumer_of_another_party_is_refused_with_the_difference() {
    let nats = nats::start().await;
    init(&nats, &[]).await.unwrap();
    let stream = context(&nats).await.get_stream("rampmeter-lanes-roles").await.unwrap();
    let config = push::Config {
        durable_name: Some("batons-usual".to_owned()),
        deliver_subject: "elsewhere".to_owned(),
        ..push::Config::default()
    };
    stream.create_consumer(config).await.unwrap();
    let refused = start(&nats, "usual").await.unwrap_err();
    assert_eq!(refused.kind(), QueueErrorKind::Differs, "{refused}");
    assert!(refused.to_string().contains(r#"`deliver_subject` is "elsewhere", not unset"#), "{refused}");
}
