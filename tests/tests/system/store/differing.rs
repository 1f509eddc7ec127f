//! Schedulers of one resource whose configurations differ. Log, readiness, status and metrics tell
//! which scheduler differs, and in which limit.

use crate::prelude::*;
use rampmeter_tests::pair::Member;
use rampmeter_tests::rules;

const HUB: &str = r#"
[[resource]]
name = "hub"
limit = [
    { name = "few", capacity = 4, period = "400h" },
    { name = "many", capacity = 100, period = "400h" },
]
"#;

/// Two schedulers, one of which has twice the capacity of `few`.
async fn two(nats: &Server) -> Pair {
    let another = HUB.replace("capacity = 4", "capacity = 8");
    let [one, other] = [HUB, &another].map(|text| scheduler::configuration(nats.url(), text));
    Pair::start(RAMPMETER, [&one, &other]).await
}

/// What `/readyz` says of differences; `None` if it says nothing.
async fn differing(process: &Process) -> Option<Value> {
    let (_, body) = process.readiness().await?;
    body.get("differing").cloned()
}

/// The names of the leader and of the other one.
async fn names(pair: &Pair, worker: &Worker) -> [String; 2] {
    let leader = worker.status_of_leader().await.leader;
    let member = pair.leader().await;
    let difference = until("the leader knows the other one", async || differing(pair.process(member)).await).await;
    [leader, difference["hub"][0]["scheduler"].as_str().unwrap().to_owned()]
}

#[tokio::test]
async fn which_scheduler_differs_and_in_which_limit_is_told_everywhere() {
    let nats = nats::start().await;
    let pair = two(&nats).await;
    let worker = Worker::connect(&nats, "hub").await;
    let [leader, standby] = names(&pair, &worker).await;
    let leading = pair.leader().await;

    for (member, other) in [(leading, &standby), (leading.other(), &leader)] {
        let process = pair.process(member);
        let difference = until("readiness tells", async || differing(process).await).await;
        assert_eq!(difference, json!({"hub": [{"scheduler": other, "limits": ["few"], "settings": []}]}));
        assert_eq!(process.readiness().await.unwrap().0, 200, "it can serve");
        let page = scheduler::get(&format!("{}/metrics", process.http().unwrap())).await.1;
        let labels = [("resource", "hub"), ("scheduler", other.as_str()), ("limit", "few")];
        assert_eq!(Page::parse(&page).unwrap().value("rampmeter_configuration_differs", &labels), 1.0);
        let log = process.log();
        let warning = log.lines().find(|line| line.contains("another scheduler has another configuration")).unwrap();
        let warning: Value = serde_json::from_str(warning).unwrap();
        let fields = &warning["fields"];
        assert_eq!((&warning["level"], &fields["resource"]), (&json!("WARN"), &json!("hub")));
        assert_eq!((&fields["scheduler"], &fields["differs"]), (&json!(other), &json!("limit `few`")));
    }
    let output = printed_at(&nats, &["status"]).await.unwrap();
    let line = format!(
        "warning: {standby} has another configuration: limit `few`; what counts depends on which scheduler leads\n"
    );
    assert!(output.contains(&line), "{output}");
}

#[tokio::test]
async fn the_same_rules_or_the_same_file_end_the_difference() {
    let nats = nats::start().await;
    let mut pair = two(&nats).await;
    let both = [Member::FIRST, Member::FIRST.other()];
    let all_differ = async |pair: &Pair, differ: bool| {
        until("both tell the same", async || {
            let [one, other] = both.map(|member| pair.process(member));
            let found = [differing(one).await, differing(other).await];
            found.iter().all(|difference| difference.is_some() == differ).then_some(())
        })
        .await;
    };
    all_differ(&pair, true).await;

    assert_eq!(rules::apply(RAMPMETER, &nats, HUB, &[]).await.0, Some(0));
    all_differ(&pair, false).await;
    for process in both.map(|member| pair.process(member)) {
        let ended = || process.log().contains("the other scheduler has the same configuration again").then_some(());
        until("the log tells the end", async || ended()).await;
    }
    assert_eq!(rules::limits(RAMPMETER, &nats, &["reset", "hub"]).await.0, Some(0));
    all_differ(&pair, true).await;

    pair.process_mut(both[1]).kill().await;
    until("the other one is gone", async || {
        let first = pair.process(both[0]);
        differing(first).await.is_none().then_some(())
    })
    .await;
}
