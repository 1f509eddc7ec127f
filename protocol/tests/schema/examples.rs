//! Messages as they are read and written, checked against the schema.

use crate::SCHEMA;
use crate::validator::Schema;
use rampmeter_protocol::answer::Answer;
use rampmeter_protocol::explain::{Explanation, Question};
use rampmeter_protocol::incoming::Incoming;
use rampmeter_protocol::limit_order::{FreezeOrder, LimitOrder, LimitOrderDone};
use rampmeter_protocol::news::News;
use rampmeter_protocol::purge::{Purge, Purged};
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::resources::Resources;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_protocol::token::AccessToken;
use rampmeter_protocol::usage::{DayUsage, UsageQuery};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Reads an example. Checks it, and what the type writes of it, against the schema.
fn check<T: Deserialize<'static> + Serialize>(definition: &str, text: &'static str) {
    let schema = Schema::new(SCHEMA);
    let message: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{definition}: {error}\n{text}"));
    let as_told: Value = serde_json::from_str(text).expect("the type has read it");
    for value in [as_told, serde_json::to_value(&message).expect("messages are plain data")] {
        assert_eq!(schema.fault(definition, &value), None, "{definition}: {value}");
    }
    assert!(schema.is_message(definition), "the schema as a whole has no {definition}");
}

#[test]
fn requests_are_as_the_schema_says() {
    check::<PermitRequest<'_>>("permit_request", "{}");
    check::<PermitRequest<'_>>(
        "permit_request",
        r#"{"id": "0199a7c2-5d1e.A_z:9", "cost": {"requests": 1, "processing-units": 2.5}, "class": "bulk",
            "labels": {"client": "team-a"}, "mode": "wait", "max_wait_ms": 30000.5, "age_ms": 12, "epoch": 7,
            "sent_unix_ms": 1700000000000, "progress": true, "from": "host:1", "left": true, "not": ["team-b"],
            "else_after_ms": 5000, "any_of": [{"labels": {"model": "small"}, "cost": {"requests": 1}, "else_after_ms": 10}, {}]}"#,
    );
    check::<Vec<PermitRequest<'_>>>("permit_requests", r#"[{}, {"mode": "allow"}]"#);
}

#[test]
fn answers_are_as_the_schema_says() {
    for text in [
        r#"{"status":"granted","id":"a","delay_ms":3.0,"valid_ms":5000.0,"lease_ms":90.5,"limited_by":"per-minute","account":"team-a","way":1,
            "charged":[["per-minute",null],["each","x"]],"left":[{"limit":"per-minute","unit":"requests","remaining":2.5,"reset_ms":60.0}],"at_ms":86400123,"epoch":7}"#,
        r#"{"status":"granted","id":"a","delay_ms":0.0,"epoch":0}"#,
        r#"{"status":"queued","id":"a","position":3,"eta_ms":1234.5,"limited_by":"few","at_ms":86400123,"epoch":7}"#,
        r#"{"status":"refused","id":"a","code":"queue_full","message":"no","retry_after_ms":20.0,"limited_by":"few","epoch":7}"#,
        r#"{"status":"refused","code":"unavailable","message":"no","epoch":0}"#,
        r#"{"status":"settled","id":"a","extended":true}"#,
    ] {
        check::<Answer<'_>>("answer", text);
    }
    check::<Vec<Answer<'_>>>("answers", r#"[{"status":"settled","id":"a"}]"#);
}

#[test]
fn settles_are_as_the_schema_says() {
    check::<Settle<'_>>("settle", r#"{"id": "a"}"#);
    check::<Settle<'_>>(
        "settle",
        r#"{"id": "a", "used": true, "cost": {"processing-units": 3.1}, "elapsed_ms": 812, "late_ms": 1.5,
            "response": {"status": 429, "headers": {"retry-after": "1500"}, "quota_spent": true, "code": "busy"}}"#,
    );
    check::<Settle<'_>>(
        "settle",
        r#"{"id": "a", "extend": true, "asked": {"cost": {"requests": 1}, "labels": {"client": "team-a"}}}"#,
    );
    check::<Vec<Settle<'_>>>("settles", r#"[{"id": "a", "used": false}]"#);
}

#[test]
fn events_are_as_the_schema_says() {
    for text in [
        r#"{"event":"leader","epoch":7,"leader":"scheduler-a"}"#,
        r#"{"event":"limits","limits":[{"name":"per-minute","capacity":600.0,"period_ms":60000.0}],"epoch":7}"#,
        r#"{"event":"freeze","limits":["each"],"buckets":[["each","x"],["all",null]],"for_ms":3000.0,"epoch":7}"#,
        r#"{"event":"thaw","limits":["per-minute"]}"#,
    ] {
        assert_ne!(serde_json::from_str::<News>(text).unwrap(), News::Other, "{text}");
        check::<News>("event", text);
    }
}

#[test]
fn questions_orders_and_their_answers_are_as_the_schema_says() {
    check::<StatusQuery>("status_question", r#"{"limits_toml": true, "shares": true, "recent": true}"#);
    check::<Status>(
        "status",
        r#"{"resource":"hub","epoch":3,"leader":"scheduler-1","classes":[{"name":"bulk","queued":3,"oldest_ms":1.5}],
            "limits":[{"name":"few","unit":"requests","algorithm":"token-bucket","capacity":10.0,"period_ms":1000.0,
            "margin":1.8,"level":-12.5,"next_free_ms":750.0,"resets_ms":9.0,"likely_free_ms":3.0,"keys":2,"key":"team-a","frozen_ms":0.0,
            "paused_by":"operator",
            "missing_labels":["client"],"learned":{"rate":0.9,"held_back":1.0},
            "told":{"states":9.0,"capacity":9.0,"capacity_for_ms":1.0,"others":2.0,"held_back":1.0,"window_ends_ms":3.0,"window_slack_ms":4.0},
            "found":{"by":"headers","for_ms":5.0,"routes":["messages"],"key":["channel"]},
            "shadow":{"calls":1,"would_wait":2,"would_refuse":3,"longest_wait_ms":4.0}}],
            "counters":{"granted":1,"refused":2,"settled":3,"upstream_429":4,"returned":5,"disbelieved":6,
            "rejections":{"ours":1,"strangers":1,"upstream":1,"quota":1,"unknown":0}},"limited_by":"few",
            "reason":"headroom","held_by":{"key":"a","level":-1.0,"next_free_ms":2.0,"leaves":3.0,"pays_in_ms":4.0,
            "held_back":1.0,"frozen_ms":5.0,"likely_free_ms":6.0},"provider":{"kind":"sentinel-hub","state":"failing","reason":"429",
            "contract_age_ms":1500.5,"notes":["a note"]},"rules":{"revision":2,"counts":true,"by":"ann","at":"2026-01-01",
            "refused":{"revision":3,"reason":"line 1"}},"corrections":[{"kind":"/a|PUT","unit":"units","factor":0.5,
            "calls":7}],"differing":[{"scheduler":"scheduler-2","limits":["few"],"settings":["classes"]}],
            "unreadable":{"header":"retry-after","value":"soon"},
            "forecasts":[{"limit":"few","p10_ms":1.0,"p50_ms":2.0,"p90_ms":3.0,"share":0.5,"resets_ms":4.0,
            "history_hours":24}],
            "limits_toml":"[[resource.limit]]","shares":{"over_ms":300000.0,"classes":[{"name":"bulk","share":1.0,"granted":9,
            "waiting":3}],"clients":[{"name":"team-a","share":0.5,"granted":4,"waiting":2,"starved":1,"wait_p50_ms":10.0,
            "wait_p99_ms":300.0}],"more_clients":7},"since":"2026-01-01T00:00:00Z",
            "recent":{"over_ms":1.0,"granted":9,"settled":8,"returned":1,"refusals":{"queue_full":1},"rejections":{"ours":2},
            "store_losses":1,"undelivered":4,"lost_messages":2,"foreign_replies":3,"clock_ahead_ms":-4.0}}"#,
    );
    check::<Question>("explain_question", r#"{"id": "a"}"#);
    check::<Explanation>(
        "explanation",
        r#"{"resource":"hub","epoch":3,"limits":[],"waiting":2,"more":1,"first":[{"id":"a","state":"waiting",
            "class":"bulk","client":"team-a","takes":{"few":1.0},"limited_by":"few","reason":"turn","position":0,
            "waited_ms":1.0,"eta_ms":-2.0}]}"#,
    );
    check::<Resources>(
        "resources",
        r#"{"resources":[{"name":"hub","limits":[{"name":"few","unit":"requests","algorithm":"token-bucket",
            "capacity":10.0,"period_ms":1000.0}],"classes":["default"],"default_class":"default"}]}"#,
    );
    check::<UsageQuery>("usage_question", r#"{"days_ago": 1}"#);
    check::<DayUsage>(
        "usage",
        r#"{"resource":"hub","day":"2026-11-24","clients":[{"client":"team-a","class":"bulk","calls":2,
            "units":{"units":1.5}}]}"#,
    );
    check::<Purge>("purge", r#"{"client": "team-a", "class": "bulk"}"#);
    check::<Purged>("purged", r#"{"resource":"hub","epoch":3,"ended":2}"#);
    check::<LimitOrder>("limit_order", r#"{"limit": "per-month"}"#);
    check::<LimitOrder>("limit_order", r#"{"account": "team-a"}"#);
    check::<FreezeOrder>("freeze_order", r#"{"limit": "per-minute", "for_ms": 60000.0}"#);
    check::<AccessToken>("access_token", r#"{"status":"token","access_token":"e30.secret","valid_ms":540000.0}"#);
    check::<LimitOrderDone>("limit_order_done", r#"{"resource":"hub","epoch":3,"limits":["few"],"more":true}"#);
}

/// The schema refuses the messages that the types refuse.
#[test]
fn wrong_messages_are_wrong_by_type_and_by_schema() {
    let schema = Schema::new(SCHEMA);
    let requests = [
        json!({"klass": "bulk"}),
        json!({"id": "two words"}),
        json!({"cost": {"requests": -1}}),
        json!({"labels": {"client": 1}}),
        json!({"mode": "maybe"}),
        json!({"max_wait_ms": -1}),
        json!({"age_ms": 4e10}),
        json!({"progress": 1}),
    ];
    for request in requests {
        let text = request.to_string();
        let read = Incoming::<PermitRequest<'_>>::parse(text.as_bytes());
        assert!(matches!(read, Incoming::One(Err(_))), "the type takes {text}");
        assert!(schema.fault("permit_request", &request).is_some(), "the schema takes {text}");
    }
    for order in [json!({}), json!({"for_ms": 0}), json!({"for_ms": 86_400_001}), json!({"for_ms": 1, "limits": "a"})] {
        let text = order.to_string();
        assert!(FreezeOrder::parse(text.as_bytes()).is_err(), "the type takes {text}");
        assert!(schema.fault("freeze_order", &order).is_some(), "the schema takes {text}");
    }
    let settles = [
        json!({}),
        json!({"id": "a", "usd": true}),
        json!({"id": "a", "response": {"headers": {}}}),
        json!({"id": "a", "response": {"status": 70000}}),
        json!({"id": "a", "asked": {"class": "bulk"}}),
    ];
    for settle in settles {
        let text = settle.to_string();
        assert!(serde_json::from_str::<Settle<'_>>(&text).is_err(), "the type takes {text}");
        assert!(schema.fault("settle", &settle).is_some(), "the schema takes {text}");
    }
}
