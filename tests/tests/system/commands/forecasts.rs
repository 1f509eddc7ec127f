//! When limits end at the present pace, in every place that shows it.

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
    let run = async |arguments: &[&str]| printed_at(&nats, arguments).await.unwrap();
    let json: Value = serde_json::from_str(&run(&["forecast", "hub", "--json"]).await).unwrap();
    assert_eq!((&json[0]["resource"], &json[0]["forecasts"][0]["limit"]), (&json!("hub"), &json!("in-all")));
    let table = run(&["forecast"]).await;
    assert!(table.contains("in 2.4 h"), "{table}");
    let status = run(&["status", "hub"]).await;
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
