//! When limits end at the present pace, in every place that shows it, and limits with `pace`.

use crate::prelude::*;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use rampmeter_scheduler_core::views::Use;
use rampmeter_store::{HOURS, Store, StoredDayUsage};

/// Two weeks have used ten in each hour. What is left lasts for 2.4 h.
const HUB: &str = r#"
[[resource]]
name = "hub"
limit = [
    { name = "in-all", algorithm = "quota", resets = "never", capacity = 24, margin = 0 },
    { name = "a-second", capacity = 1000, period = "1s", margin = 0 },
]
"#;

/// Writes two weeks of use.
async fn write_history(nats: &Server) {
    let (prefix, hub) = (Name::new("rampmeter").unwrap(), Name::new("hub").unwrap());
    let store = Store::open(&nats::connect(nats).await, &prefix, 1).await.unwrap();
    let now = Timestamp::from_millisecond(i64::try_from(unix_ms()).unwrap()).unwrap();
    let today = now.to_zoned(TimeZone::UTC).date();
    let used = Use { clients: Vec::new(), limits: vec![(Name::new("in-all").unwrap(), 10_000_000)] };
    for days_ago in 1..=14 {
        let mut day = StoredDayUsage::default();
        (0..HOURS).for_each(|hour| day.count(hour, &used));
        store.write_use(&hub, today.checked_sub(days_ago.days()).unwrap(), &day, 0).await.unwrap();
    }
}

async fn run(nats: &Server, arguments: &[&str]) -> String {
    process::printed(RAMPMETER, &[arguments, &["--nats", nats.url()]].concat()).await.unwrap()
}

#[tokio::test]
async fn two_weeks_tell_when_a_quota_ends() {
    let nats = nats::start().await;
    write_history(&nats).await;
    let running = scheduler::start(&nats, HUB).await;
    let worker = Worker::connect(&nats, "hub").await;
    let forecast = until("there is a forecast", async || worker.status().await.forecasts.into_iter().next()).await;
    let hours = |at: Option<f64>| at.map(|ms| (ms / 360_000.0).round() / 10.0);
    assert_eq!(
        (&*forecast.limit, hours(forecast.p10_ms), hours(forecast.p50_ms), hours(forecast.p90_ms)),
        ("in-all", Some(2.4), Some(2.4), Some(2.4))
    );
    assert_eq!((forecast.share, forecast.resets_ms), (1.0, None));
    let json: Value = serde_json::from_str(&run(&nats, &["forecast", "hub", "--json"]).await).unwrap();
    assert_eq!((&json[0]["resource"], &json[0]["forecasts"][0]["limit"]), (&json!("hub"), &json!("in-all")));
    let table = run(&nats, &["forecast"]).await;
    assert!(table.contains("in 2.4 h"), "{table}");
    let status = run(&nats, &["status", "hub"]).await;
    assert!(status.replace('\n', " ").contains("`in-all`: at the present pace it probably ends in 2.4 h"), "{status}");
    let (_, metrics) = scheduler::page(&running, "/metrics").await;
    let line = |rest: &str| metrics.lines().find(|line| line.starts_with(rest)).map(str::to_owned);
    let labels = "resource=\"hub\",limit=\"in-all\"";
    let end = line(&format!("rampmeter_forecast_end_seconds{{{labels},quantile=\"0.5\"}} ")).unwrap();
    let secs: f64 = end.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((8500.0..8641.0).contains(&secs), "{end}");
    assert_eq!(
        line(&format!("rampmeter_forecast_ends_in_time_ratio{{{labels}}}")).unwrap().rsplit(' ').next(),
        Some("1.0")
    );
}

#[tokio::test]
async fn a_paced_quota_delays_and_says_so() {
    let nats = nats::start().await;
    let quota: String = HUB.split_inclusive('\n').filter(|line| !line.contains("a-second")).collect();
    let paced = quota.replace("\"never\", capacity = 24", "\"month\", pace = true, capacity = 1000000");
    let _running = scheduler::start(&nats, &paced).await;
    let worker = Worker::connect(&nats, "hub").await;
    let limit = worker.limit("in-all").await;
    let free = limit.free_now.unwrap();
    assert!((100_000.0..=1_000_000.0).contains(&free) && limit.level == 1_000_000.0, "{limit:?}");
    assert!(limit.resets_ms.unwrap() <= 31.0 * 86_400_000.0, "{limit:?}");
    // Free stock starts at once; a hundred more calls come within a minute or two.
    let first = worker.ask(json!({"cost": {"requests": free.floor()}})).await;
    assert_eq!((&first["status"], &first["delay_ms"]), (&json!("granted"), &json!(0.0)));
    worker.send("permit", json!({"id": "later", "mode": "wait", "cost": {"requests": 100}}).to_string()).await;
    let request = until("it waits", async || worker.explanation("").await.first.into_iter().next()).await;
    assert_eq!(serde_json::to_value(request.reason).unwrap(), json!("pace"));
    let explained = run(&nats, &["explain", "hub", "later"]).await;
    assert!(explained.replace('\n', " ").contains("which `pace` spreads over the window"), "{explained}");
}
