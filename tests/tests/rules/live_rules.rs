//! Limits that people change while schedulers run.

use crate::prelude::*;
use rampmeter_store::{RuleStore, RulesRevision, StoreError};
use rampmeter_tests::rules::{apply, limits, put_by_hand};

/// Ten calls, and then nothing for hours.
const HUB: &str = r#"
[[resource]]
name = "hub"
start = "full"
limit = [{ name = "few", capacity = 10, period = "400h", margin = 0 }]
"#;

/// Rules of `hub` with these limits, by name and capacity.
fn rules(limits: &[(&str, u64)]) -> String {
    let limit = |(name, capacity): &(&str, u64)| {
        format!("[[resource.limit]]\nname = \"{name}\"\ncapacity = {capacity}\nperiod = \"400h\"\nmargin = 0\n")
    };
    format!("[[resource]]\nname = \"hub\"\n{}", limits.iter().map(limit).collect::<String>())
}

fn capacities(status: &Status) -> Vec<(&str, f64)> {
    status.limits.iter().map(|limit| (&*limit.name, limit.capacity)).collect()
}

/// Takes this many tokens of every limit.
async fn spend(worker: &Worker, requests: u64) {
    let answer = worker.ask(json!({"mode": "allow", "cost": {"requests": requests}})).await;
    assert_eq!(answer["status"], "granted", "{answer}");
}

async fn leader(worker: &Worker) -> String {
    worker.status().await.leader
}

/// Applies `text`, which has to succeed.
async fn applied(nats: &Server, text: &str) -> String {
    let (code, said) = apply(RAMPMETER, nats, text, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    said
}

#[tokio::test]
async fn a_raised_limit_lets_waiting_requests_go() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    spend(&worker, 10).await;
    applied(&nats, &rules(&[("few", 10)])).await;
    let mut waiting = worker.send("permit", json!({"id": "a", "mode": "wait", "progress": true}).to_string()).await;
    assert_eq!(waiting.body().await["status"], "queued");

    // A limit with a faster refill: hours of refill are there at once.
    let faster = rules(&[("few", 10)]).replace("400h", "1s");
    let clock = Clock::start();
    let begun = clock.now();
    let said = applied(&nats, &faster).await;
    let granted = until("the request is granted", async || {
        let answer = waiting.body().await;
        (answer["status"] == "granted").then_some(answer)
    })
    .await;
    assert_eq!(granted["id"], "a");
    // The rules take effect within a second. A busy machine may need two more for the command.
    assert!(clock.now().since(begun) < Span::from_secs(3));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["resource `hub`", "  ~ few: period \"400h\" → \"1s\""]);
    assert!(lines[2].starts_with("written as revision ") && lines[2].ends_with(", in place of 1"), "{said}");
    assert!(lines[3].starts_with("`hub` follows it after ") && lines[3].contains(", led by scheduler-"), "{said}");
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_a_revision_that_has_passed_is_refused() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    let (code, said) = apply(RAMPMETER, &nats, &rules(&[("few", 5)]), &["--dry-run"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        said,
        "resource `hub`: these rules in place of the configuration's limits\n  ~ few: capacity 10 → 5\n\
         valid; nothing was written, and the rules of revision 0 still count\n"
    );
    assert_eq!(capacities(&worker.status().await), [("few", 10.0)]);
    assert_eq!(limits(RAMPMETER, &nats, &["get"]).await.1.lines().next(), Some("# revision 0"));

    let (code, said) = apply(RAMPMETER, &nats, &rules(&[("few", 5)]), &["--if-revision", "0"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = apply(RAMPMETER, &nats, &rules(&[("few", 6)]), &["--if-revision", "0"]).await;
    let refused = "rampmeter: the rules have revision 1, not 0: they were changed; look at the difference again\n";
    assert_eq!((code, said.as_str()), (Some(1), refused));
    assert_eq!(capacities(&worker.status().await), [("few", 5.0)]);
    let said = applied(&nats, &rules(&[("few", 5)])).await;
    assert_eq!(said, "nothing changes; the rules of revision 1 count\n");
    // Two people have read the same difference: the second is refused with a message.
    let client = nats::connect(&nats).await;
    let store = RuleStore::existing(&client, &Name::new("rampmeter").unwrap()).await.unwrap().unwrap();
    store.write(&rules(&[("few", 6)]), RulesRevision::new(1)).await.unwrap();
    assert!(matches!(store.write(&rules(&[("few", 7)]), RulesRevision::new(1)).await, Err(StoreError::Superseded)));
    assert!(matches!(store.delete(RulesRevision::new(1)).await, Err(StoreError::Superseded)));
}

#[tokio::test]
async fn a_person_shows_and_resets_limits() {
    let (nats, running, worker) = Worker::beside_scheduler(HUB).await;
    assert_eq!(worker.status().await.rules, None);
    let (code, said) = apply(RAMPMETER, &nats, &rules(&[("few", 5), ("more", 50)]), &["--by", "ada"]).await;
    assert_eq!(code, Some(0), "{said}");
    let counts = worker.status().await.rules.unwrap();
    assert_eq!((counts.revision, counts.counts, counts.by.as_deref()), (1, true, Some("ada")));

    let (code, text) = limits(RAMPMETER, &nats, &["get", "hub"]).await;
    assert!(code == Some(0) && text.contains("by = \"ada\"") && text.contains("sha256 = \""), "{text}");
    assert_eq!(applied(&nats, &text).await, "nothing changes; the rules of revision 1 count\n", "{text}");
    let (_, json) = limits(RAMPMETER, &nats, &["get", "--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["revision"], &json["resources"][0]["limits"][1]["capacity"]), (&json!(1), &json!(50)));
    let (code, said) = limits(RAMPMETER, &nats, &["get", "other"]).await;
    let none =
        "rampmeter: no running scheduler owns resource `other`, and no limits were applied to it; there is `hub`\n";
    assert_eq!((code, said.as_str()), (Some(1), none));

    let differ = [
        format!(
            "the file of {} still says 10 in 1440000s for `few`, which the rules replace (as it was read at the start)",
            leader(&worker).await
        ),
        format!("the file of {} has no `more`, which the rules have", leader(&worker).await),
    ];
    assert_eq!(counts.differ, differ);
    let (_, shown, _) = process::said(RAMPMETER, &["status", "--nats", nats.url()]).await;
    assert!(shown.contains(&format!("note: {}\n", differ[0])), "{shown}");

    let (code, said) = limits(RAMPMETER, &nats, &["reset", "hub"]).await;
    let change = "resource `hub`: the configuration's limits in place of these rules\n  ~ few: capacity 5 → 10\n  \
                  - more: capacity = 50, margin = 0, period = \"400h\"\n";
    assert!(code == Some(0) && said.starts_with(change), "{said}");
    let status = worker.status().await;
    assert_eq!(capacities(&status), [("few", 10.0)]);
    assert!(!status.rules.unwrap().counts);
    scheduler::stop(running).await;
}

/// The author is the user of NATS, unless `--as` says another.
#[tokio::test]
async fn rules_name_their_author_and_defaults() {
    let (nats, _running, worker) = Worker::beside_scheduler(HUB).await;
    let by = async || worker.status().await.rules.unwrap().by.unwrap();
    let file = file_with(rules(&[("few", 5)]));
    let url = nats.url().replace("nats://", "nats://grace:secret@");
    let arguments = ["apply", file.path().to_str().unwrap(), "--nats", &url];
    let (code, said, errors) = process::said(RAMPMETER, &arguments).await;
    assert_eq!((code, by().await.as_str()), (Some(0), "grace"), "{said}{errors}");
    let sliding = rules(&[("few", 6)]).replace("capacity", "algorithm = \"sliding-window\"\ncapacity");
    let (code, said) = apply(RAMPMETER, &nats, &sliding, &["--as", "ada"]).await;
    assert_eq!((code, by().await.as_str()), (Some(0), "ada"), "{said}");
    let change = "  ~ few: algorithm \"token-bucket\" (the default) → \"sliding-window\", capacity 5 → 6\n";
    assert!(said.contains(change), "{said}");
}

#[tokio::test]
async fn limits_get_prints_what_counts_whichever_source_it_has() {
    let nats = nats::start().await;
    let two = format!("{HUB}{}", HUB.replace("\"hub\"", "\"tiles\"").replace("\"400h\"", "\"PT1M\""));
    let _running = scheduler::start(&nats, &two).await;
    applied(&nats, &rules(&[("few", 5)])).await;
    let (code, said) = limits(RAMPMETER, &nats, &["get"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (head, tiles) = said.split_once("# These limits count, by the configuration: none were applied.\n").unwrap();
    assert!(head.starts_with("# revision 1\n\n# These limits were applied, and count.\n[[resource]]\n"), "{said}");
    assert!(head.contains("capacity = 5\n"), "{said}");
    let own = "[[resource]]\nname = \"tiles\"\n\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\nmargin = 0\n\
               period = \"1m\"\n";
    assert_eq!(tiles, own);
    // The printed rules can be applied, and then nothing but their source has changed.
    let same = applied(&nats, own).await;
    let first = "resource `tiles`: these rules in place of the configuration's limits\nwritten as revision 2";
    assert!(same.starts_with(first), "{same}");
    let (_, json) = limits(RAMPMETER, &nats, &["get", "--json", "tiles"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["revision"], &json["resources"][0]["source"]), (&json!(2), &json!("rules")));
}

#[tokio::test]
async fn a_resource_that_no_scheduler_has_is_refused_unless_it_is_said_to_be_new() {
    let (nats, running) = scheduler::alone(HUB).await;
    let typo = rules(&[("few", 5)]).replace("\"hub\"", "\"hbu\"");
    let (code, said) = apply(RAMPMETER, &nats, &typo, &[]).await;
    let refused = "rampmeter: no scheduler has a resource `hbu`, and `--new` is for those to come; schedulers have `hub`; \
                   did you mean `hub`?\n";
    assert_eq!((code, said.as_str()), (Some(1), refused));
    assert_eq!(limits(RAMPMETER, &nats, &["get"]).await.1.lines().next(), Some("# revision 0"));
    let (code, said) = apply(RAMPMETER, &nats, &typo, &["--new"]).await;
    let later = "`hbu`: no running scheduler owns resource `hbu`; did you mean `hub`?; there is `hub`; the rules count";
    assert!(code == Some(0) && said.contains(later), "{said}");
    let (_, said) = limits(RAMPMETER, &nats, &["get", "hbu"]).await;
    assert!(said.contains("# These limits were applied. No scheduler leads the resource now.\n"), "{said}");
    let (code, said) = apply(RAMPMETER, &nats, &typo.replace("capacity = 5", "capacity = 6"), &[]).await;
    assert!(code == Some(0) && said.contains("  ~ few: capacity 5 → 6"), "it is known by its rules: {said}");
    scheduler::stop(running).await;
}

#[tokio::test]
async fn apply_warns_of_limits_that_count_no_request_without_a_cost() {
    let (nats, _running) = scheduler::alone(HUB).await;
    let typo = rules(&[("few", 5)]).replace("name = \"few\"", "name = \"few\"\nunit = \"request\"");
    let said = applied(&nats, &typo).await;
    let note = "note: no limit of `hub` counts `requests`: requests without a `cost` are refused, unless the \
                configuration says `uncounted = \"allow\"`\n";
    assert!(said.starts_with(note), "{said}");
    let worker = Worker::connect(&nats, "hub").await;
    assert_eq!(worker.ask(json!({})).await["code"], "unknown_unit");
}

#[tokio::test]
async fn a_successor_has_the_rules_of_its_predecessor() {
    let nats = nats::start().await;
    let mut leader = Process::start(RAMPMETER, &nats, HUB).await;
    let standby = Process::start(RAMPMETER, &nats, HUB).await;
    let worker = Worker::connect(&nats, "hub").await;
    let first = worker.status().await.leader;
    applied(&nats, &rules(&[("other", 6), ("few", 7)])).await;
    spend(&worker, 5).await;
    let bad = put_by_hand(&nats, "[[resource]]\nname = \"hub\"\n").await;
    leader.kill().await;
    let status =
        until("another leads", async || Some(worker.status_of_leader().await).filter(|status| status.leader != first))
            .await;
    assert_eq!(capacities(&status), [("other", 6.0), ("few", 7.0)]);
    let levels: Vec<f64> = status.limits.iter().map(|limit| limit.level).collect();
    assert!(levels[0] < 1.1 && levels[1] < 2.1, "what was spent under them stays spent: {levels:?}");

    // A scheduler that starts only now finds the last good rules too.
    leader.restart();
    leader.until_ready().await;
    standby.stop().await;
    let status = until("the first leads again", async || {
        Some(worker.status_of_leader().await).filter(|status| status.leader != first && status.epoch > Epoch::new(2))
    })
    .await;
    assert_eq!(capacities(&status), [("other", 6.0), ("few", 7.0)]);
    let rules = status.rules.unwrap();
    assert_eq!((rules.revision, rules.refused.unwrap().revision), (1, bad));
    leader.stop().await;
}

#[tokio::test]
async fn shadow_limits_are_measured_and_delay_no_request() {
    let (nats, running, worker) = Worker::beside_scheduler(HUB).await;
    let shadow = rules(&[("few", 10), ("maybe", 3)]).replacen("margin = 0\n", "margin = 1\n", 1) + "shadow = true\n";
    applied(&nats, &shadow).await;
    for _ in 0..5 {
        spend(&worker, 1).await;
    }
    spend(&worker, 4).await;
    let measured = worker.limit("maybe").await.shadow.unwrap();
    assert_eq!((measured.calls, measured.would_wait, measured.would_refuse), (6, 0, 3), "allow is yes or no");
    let (_, metrics) = scheduler::page(&running, "/metrics").await;
    let line = "rampmeter_shadow_would_refuse_total{resource=\"hub\",limit=\"maybe\",unit=\"requests\"} 3";
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
    // Once enforced, it is a limit without any charges.
    applied(&nats, &shadow.replace("shadow = true\n", "")).await;
    assert_eq!(worker.limit("maybe").await.shadow, None);
    assert_eq!(worker.ask(json!({"mode": "allow", "cost": {"requests": 4}})).await["code"], "never_fits");
    scheduler::stop(running).await;
}
