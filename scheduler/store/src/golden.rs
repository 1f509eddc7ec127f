//! Texts of records, which every build reads and writes alike.

use super::clock_reading::{BootTime, ClockReading};
use super::record::{KeysRecord, StateRecord, StoredPages};
use super::rules::RulesRevision;
use rampmeter_discovery::{DiscoveredSnapshot, Evidence};
use rampmeter_policy::Resource;
use rampmeter_policy::spec::{Algorithm, Applies, Follow, LimitSpec, ResourceSpec};
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::epoch::Epoch;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::durability::snapshot::{
    CountedUsage, DebitSnapshot, Fate, FreezeSnapshot, KeyPage, KeyPageId, KeySnapshot, KeysSnapshot, LevelSnapshot,
    Offset, OtherKeysSnapshot, PermitSnapshot, RateSnapshot, ReportedUsage, Snapshot, UnsettledCall, UsageSpan,
};
use rampmeter_scheduler_core::scheduler::Scheduler;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// A record in which every field is set.
const FULL: &str = r#"{"epoch":7,"leader":"host-1-2f","nonce":99,"mark":3,"released":false,"successor":"host-2-3a","saved":{"unix_ms":1795000000000,"boot":{"id":"b","ms":5}},"permit_parts":1,"levels":[{"limit":"per-minute","micros":-12500000,"budget":300000,"withheld":[[5000000000,2000000],[6000000000,1000000]]},{"limit":"windowed","micros":0,"budget":0,"taken":{"unix_nanos":1795000000000000000,"spans":[[-7,9000000000,3000000]],"told":{"ends":[-5,1000]}}},{"limit":"deep","micros":-9223372036854775808,"budget":7}],"keys":{"listed":[["per-client","team-a",-3000000],["per-client","\"b\"",-3000000]],"taken":[["per-client","\"b\"",{"unix_nanos":1795000000000000000,"spans":[[-7,9000000000,3000000]],"told":{"ends":[-5,1000]}}]],"known":[["per-client",5000000,null],["per-day",6000000,{"unix_nanos":1795000000000000000,"spans":[[-7,9000000000,3000000]]}]],"others_empty_in":2500000000,"rates":[["per-client",10000000,60000000000]],"pages":[{"epoch":6,"place":2,"serial":11,"age":5000000,"spent":[["per-client",4000000]]}]},"freezes":[["per-minute",null,1500000000,false,true],["windowed",null,1500000000,true,false],["per-client","team-a",1500000000,false,false]],"unsettled":[["d",-7,[["per-day",2000000]],[["per-client","team-a",1000000]]]],"found":[{"name":"abcd1234","unit":"requests","origin":"in-flight","gradual":true,"capacity":5000000,"period":5000000000,"routes":["messages"],"key":["channel"],"age":7}],"rules":12,"server":"NDGM"}"#;
/// Its permits.
const PERMITS: &str = r#"[{"id":"a","start_nanos":-5,"class":"default","client":"team-a","bill":[["per-minute",1000000]],"keyed":[["per-client","team-a",1000000]],"held_until":[["in-flight",26000000000]],"fate":"open"},{"id":"c","start_nanos":-5,"class":"default","client":"team-a","bill":[["per-minute",1000000]],"keyed":[["per-client","team-a",1000000]],"held_until":[["in-flight",26000000000]],"fate":"settled"},{"id":"b","start_nanos":0,"class":"default","bill":[],"fate":"returned"}]"#;
/// The keys of its page.
const PAGE: &str = r#"[11,{"listed":[["per-client","c",-3000000],["per-client","d",-3000000]],"taken":[["per-client","d",{"unix_nanos":1795000000000000000,"spans":[[-7,9000000000,3000000]],"told":{"ends":[-5,1000]}}]],"others_empty_in":null}]"#;

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn amount(micros: u64) -> Amount {
    Amount::from_micros(micros).unwrap()
}

fn usage() -> CountedUsage {
    let at = Offset::from_nanos;
    CountedUsage {
        unix_nanos: 1_795_000_000_000_000_000,
        spans: vec![UsageSpan { from: at(-7), until: at(9_000_000_000), micros: 3_000_000 }],
        places: Vec::new(),
        doubted: false,
        reported: Some(ReportedUsage { window_ends: Some((at(-5), at(1000))) }),
    }
}

fn levels() -> Vec<LevelSnapshot> {
    let level = |limit: &str, micros, budget| LevelSnapshot {
        limit: name(limit),
        micros,
        budget,
        usage: None,
        pending_debits: Vec::new(),
        rooms: Vec::new(),
    };
    vec![
        LevelSnapshot {
            pending_debits: vec![
                DebitSnapshot { ends_in: Span::from_secs(5), micros: 2_000_000 },
                DebitSnapshot { ends_in: Span::from_secs(6), micros: 1_000_000 },
            ],
            ..level("per-minute", -12_500_000, 300_000)
        },
        LevelSnapshot { usage: Some(usage()), ..level("windowed", 0, 0) },
        level("deep", i64::MIN, 7),
    ]
}

fn listed(key: &str, usage: Option<CountedUsage>) -> KeySnapshot {
    KeySnapshot { limit: name("per-client"), key: key.to_owned(), micros: -3_000_000, usage }
}

fn keys() -> KeysSnapshot {
    let known = |limit: &str, micros, usage| OtherKeysSnapshot { limit: name(limit), micros, usage };
    KeysSnapshot {
        listed: vec![listed("team-a", None), listed("\"b\"", Some(usage()))],
        known: vec![
            known("per-client", 5_000_000, None),
            known("per-day", 6_000_000, Some(CountedUsage { reported: None, ..usage() })),
        ],
        others_empty_in: Some(Offset::from_nanos(2_500_000_000)),
        rates: vec![RateSnapshot {
            limit: name("per-client"),
            capacity_micros: 10_000_000,
            period: Span::from_secs(60),
        }],
        pages: vec![KeyPage {
            id: KeyPageId { epoch: Epoch::new(6), address: 2, serial: 11 },
            age: Span::from_millis(5),
            spent: vec![(name("per-client"), 4_000_000)],
            keys: Some(vec![listed("c", None)]),
        }],
    }
}

fn permits() -> Vec<PermitSnapshot> {
    let returned = PermitSnapshot {
        id: PermitId::new("b").unwrap(),
        start: Offset::ZERO,
        class: name("default"),
        client: None,
        bill: Vec::new(),
        keyed: Vec::new(),
        held_until: Vec::new(),
        fate: Fate::Returned,
    };
    let open = PermitSnapshot {
        id: PermitId::new("a").unwrap(),
        start: Offset::from_nanos(-5),
        client: Some("team-a".to_owned()),
        bill: vec![(name("per-minute"), 1_000_000)],
        keyed: vec![(name("per-client"), "team-a".to_owned(), 1_000_000)],
        held_until: vec![(name("in-flight"), Offset::from_nanos(26_000_000_000))],
        fate: Fate::Open,
        ..returned.clone()
    };
    let settled = PermitSnapshot { id: PermitId::new("c").unwrap(), fate: Fate::Settled, ..open.clone() };
    vec![open, settled, returned]
}

fn snapshot() -> Snapshot {
    let freeze = |limit: &str, key: Option<&str>, spent, ordered| FreezeSnapshot {
        limit: name(limit),
        key: key.map(str::to_owned),
        ends_in: Span::from_millis(1500),
        spent,
        ordered,
    };
    Snapshot {
        levels: levels(),
        keys: keys(),
        freezes: vec![
            freeze("per-minute", None, false, true),
            freeze("windowed", None, true, false),
            freeze("per-client", Some("team-a"), false, false),
        ],
        permits: permits(),
        unsettled: vec![UnsettledCall {
            id: PermitId::new("d").unwrap(),
            start: Offset::from_nanos(-7),
            bill: vec![(name("per-day"), 2_000_000)],
            keyed: vec![(name("per-client"), "team-a".to_owned(), 1_000_000)],
        }],
        new_pages: Vec::new(),
    }
}

fn discovered() -> DiscoveredSnapshot {
    DiscoveredSnapshot {
        name: name("abcd1234"),
        unit: name("requests"),
        evidence: Evidence::InFlight,
        is_gradual: true,
        capacity: amount(5_000_000),
        period: Span::from_secs(5),
        routes: vec!["messages".to_owned()],
        key: vec!["channel".to_owned()],
        age: Span::from_nanos(7),
    }
}

fn record() -> StateRecord {
    let snapshot = snapshot();
    StateRecord {
        epoch: Epoch::new(7),
        leader: "host-1-2f".to_owned(),
        nonce: 99,
        checkpoint: 3,
        released: false,
        successor: Some("host-2-3a".to_owned()),
        standbys: Vec::new(),
        saved: ClockReading { unix_ms: 1_795_000_000_000, boot: Some(BootTime { id: "b".to_owned(), ms: 5 }) },
        permit_parts: 1,
        levels: snapshot.levels,
        keys: KeysRecord::of(&snapshot.keys),
        freezes: snapshot.freezes,
        unsettled: snapshot.unsettled,
        discovered: vec![discovered()],
        rules_revision: RulesRevision::new(12),
        server: Some("NDGM".to_owned()),
    }
}

/// Returns the keys of the pages that the full record names.
fn pages() -> StoredPages {
    vec![Some(vec![listed("c", None)])]
}

/// Checks that `value` is written as `text` and read from it.
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, text: &str) {
    assert_eq!(serde_json::to_string(value).unwrap(), text);
    assert_eq!(&serde_json::from_str::<T>(text).unwrap(), value);
}

#[test]
fn a_full_record_stays_as_it_is() {
    check(&record(), FULL);
    check(&permits(), PERMITS);
    check(&(11, KeysRecord::listing(&[listed("c", None), listed("d", Some(usage()))])), PAGE);
    assert_eq!(record().snapshot(permits(), pages()), snapshot());
}

#[test]
fn parts_of_records_stay_as_they_are() {
    // Earlier builds also stored what others used of a window.
    let before = r#"{"ends":[-5,1000],"others":[[4000000,1000,null],[1,9,7]],"expected":5000000}"#;
    assert_eq!(serde_json::from_str::<ReportedUsage>(before).unwrap(), usage().reported.unwrap());
    check(&ReportedUsage::default(), "{}");
    check(&levels()[2], r#"{"limit":"deep","micros":-9223372036854775808,"budget":7}"#);
    let by_headers = DiscoveredSnapshot { evidence: Evidence::Headers, is_gradual: false, ..discovered() };
    let by_headers = DiscoveredSnapshot { routes: Vec::new(), key: Vec::new(), ..by_headers };
    let text =
        r#"{"name":"abcd1234","unit":"requests","origin":"headers","capacity":5000000,"period":5000000000,"age":7}"#;
    check(&by_headers, text);
}

#[test]
fn a_discovered_limit_of_an_unknown_kind_is_left_out() {
    let other = FULL.replace(r#""origin":"in-flight""#, r#""origin":"hearsay""#);
    let expected = StateRecord { discovered: Vec::new(), ..record() };
    assert_eq!(serde_json::from_str::<StateRecord>(&other).unwrap(), expected);
}

#[test]
fn an_earlier_record_is_read_and_written_alike() {
    let golden = r#"{"epoch":7,"leader":"host-1-2f","nonce":99,"mark":3,"released":false,"saved":{"unix_ms":1795000000000,"boot":{"id":"b","ms":5}},"permit_parts":1,"levels":[{"limit":"per-minute","micros":-12500000,"budget":300000,"withheld":[[5000000000,2000000]]}],"keys":{"listed":[["per-client","team-a",-3000000]],"known":[["per-day",5000000,null]],"others_empty_in":2500000000,"rates":[["per-client",1000000,2000000000]]},"freezes":[["per-minute",null,1500000000,false,true],["per-client","team-a",2000000000,true,false]],"rules":12,"server":"NDGM"}"#;
    let record: StateRecord = serde_json::from_str(golden).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), golden);
    assert_eq!((&record.successor, record.discovered.len(), record.keys.listed_keys().len()), (&None, 0, 1));
    // Earlier builds also stored what was learned of limits and costs, and the stated capacity.
    let lessons =
        r#""budget":300000,"learned":{"unit":"requests","loss":250000},"stated":{"written":4,"capacity":3,"age":7}"#;
    let costs = r#""costs":[["/a|PUT","units",500000,7]],"rules":12"#;
    let before = golden.replace(r#""budget":300000"#, lessons).replace(r#""rules":12"#, costs);
    assert_eq!(serde_json::from_str::<StateRecord>(&before).unwrap(), record);
    // Still earlier builds did not store who ordered a freeze.
    let earlier = golden.replace("false,true],", "false],").replace("true,false]]", "true]]");
    let unordered = FreezeSnapshot { ordered: false, ..record.freezes[0].clone() };
    assert_eq!(serde_json::from_str::<StateRecord>(&earlier).unwrap().freezes, [unordered, record.freezes[1].clone()]);
}

/// A damaged or old record leaves a successor its debts and its freezes, and no stock.
#[test]
fn a_successor_without_stock_has_learned_as_much() {
    let [stock, debt] = [9_000_000, -12_500_000].map(|micros| {
        let mut record = record();
        record.levels[0].micros = micros;
        [record.snapshot(permits(), pages()), record.cautious_snapshot(pages())]
    });
    let micros = |snapshots: &[Snapshot; 2]| snapshots.each_ref().map(|snapshot| snapshot.levels[0].micros);
    assert_eq!((micros(&stock), micros(&debt)), ([9_000_000, -300_000], [-12_500_000, -12_800_000]));
    let [whole, cautious] = stock;
    assert_eq!(cautious.freezes, whole.freezes);
    let doubted = CountedUsage { doubted: true, ..usage() };
    assert_eq!((&cautious.levels[1].usage, &cautious.keys.listed[1].usage), (&Some(doubted.clone()), &Some(doubted)));
    assert_eq!((cautious.keys.known, cautious.permits, cautious.unsettled), (Vec::new(), Vec::new(), Vec::new()));
    assert_eq!((cautious.keys.others_empty_in, cautious.keys.pages), (whole.keys.others_empty_in, whole.keys.pages));
}

/// Returns a resource with the limits in the full record.
fn resource() -> Resource {
    let limit = |limit: &str| LimitSpec::new(name(limit), name("requests"), amount(40_000_000), Span::from_secs(60));
    let applies = Applies { key: vec!["client".to_owned()], ..Applies::default() };
    let windowed = LimitSpec { algorithm: Algorithm::SlidingWindow, ..limit("windowed") };
    let spec = ResourceSpec::new(
        name("api"),
        vec![limit("per-minute"), windowed, LimitSpec { applies, ..limit("per-client") }],
    );
    Resource::new(&ResourceSpec { follow: Follow::Headers, ..spec }).unwrap()
}

/// Returns the snapshot of a scheduler that restores the full record with `part` in place of `usual`.
fn restored(usual: &str, part: &str) -> Snapshot {
    assert_eq!([FULL, PERMITS].concat().matches(usual).count(), 1, "{usual}");
    let record: StateRecord = serde_json::from_str(&FULL.replace(usual, part)).unwrap();
    let permits = serde_json::from_str(&PERMITS.replace(usual, part)).unwrap();
    let now = Time::ORIGIN + Span::from_secs(100);
    Scheduler::<()>::restore(resource(), Epoch::new(8), now, now, &record.snapshot(permits, pages()))
        .snapshot(now, usize::MAX)
}

/// Checks that `impossible` text in a part of the record has the effect of `without`.
fn check_ignored(part: &str, (usual, impossible): (&str, &str), without: &str) {
    let odd = part.replace(usual, impossible);
    assert_eq!(restored(part, &odd), restored(part, without), "{odd}");
    assert_ne!(restored(part, part), restored(part, without), "{part}");
}

#[test]
fn values_that_no_limit_can_have_are_ignored() {
    const TOO_MUCH: &str = "1000000000000001";
    let rates = r#","rates":[["per-client",10000000,60000000000]]"#;
    for capacity in ["0", TOO_MUCH] {
        check_ignored(rates, (",10000000", &format!(",{capacity}")), "");
    }
    for period in ["0", "18446744073709551615"] {
        check_ignored(rates, ("60000000000", period), "");
    }
    let charges = r#""bill":[["per-minute",1000000]],"keyed":[["per-client","team-a",1000000]],"held_until":[["in-flight",26000000000]],"fate":"open""#;
    check_ignored(charges, ("1000000", TOO_MUCH), r#""bill":[],"fate":"open""#);
}
