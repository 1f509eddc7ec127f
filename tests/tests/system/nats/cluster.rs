//! The cluster that other tests break: its buckets survive a node that dies or hangs.

use crate::prelude::*;
use async_nats::jetstream::kv;

const BUCKET: &str = "kept";

async fn bucket(cluster: &Cluster) -> kv::Store {
    let config = kv::Config { bucket: BUCKET.to_owned(), num_replicas: NODES, ..kv::Config::default() };
    jetstream::new(cluster.connect().await).create_key_value(config).await.unwrap()
}

async fn until_written(bucket: &kv::Store, key: &str) {
    until("a write", async || bucket.put(key, "".into()).await.ok()).await;
}

#[tokio::test]
async fn a_bucket_outlives_the_death_of_its_leader() {
    let mut cluster = Cluster::start().await;
    let bucket = bucket(&cluster).await;
    until_written(&bucket, "before").await;
    let leader = cluster.leader_of(BUCKET).await;
    let (port, store) = (cluster.nodes()[leader].port(), cluster.nodes()[leader].store().to_owned());
    cluster.node(leader).kill().await.unwrap();
    until_written(&bucket, "meanwhile").await;
    cluster.node(leader).restart().await.unwrap();
    cluster.until_ready().await;
    assert_eq!((cluster.nodes()[leader].port(), cluster.nodes()[leader].store()), (port, &*store));
    for key in ["before", "meanwhile"] {
        assert!(bucket.get(key).await.unwrap().is_some(), "{key}");
    }
}

#[tokio::test]
async fn a_paused_leader_is_replaced_and_may_come_back() {
    let mut cluster = Cluster::start().await;
    let bucket = bucket(&cluster).await;
    let leader = cluster.leader_of(BUCKET).await;
    cluster.node(leader).pause().unwrap();
    until("another node leads", async || (cluster.leader_of(BUCKET).await != leader).then_some(())).await;
    until_written(&bucket, "meanwhile").await;
    cluster.node(leader).resume().unwrap();
    cluster.until_ready().await;
}
