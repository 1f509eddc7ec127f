//! `docs/protocol.md` and the JSON Schema beside it describe every message as the types do.

mod bounds;
mod examples;
mod names;
mod validator;

use names::names;
use rampmeter_protocol::answer::Answer;
use rampmeter_protocol::code::Code;
use rampmeter_protocol::explain::{Explained, Explanation, Question, State};
use rampmeter_protocol::left::Left;
use rampmeter_protocol::limit_order::{FreezeOrder, LimitOrder, LimitOrderDone};
use rampmeter_protocol::news::LimitNews;
use rampmeter_protocol::price::Price;
use rampmeter_protocol::purge::{Purge, Purged};
use rampmeter_protocol::reason::{Holder, Reason};
use rampmeter_protocol::recent::Recent;
use rampmeter_protocol::request::{Mode, PermitRequest};
use rampmeter_protocol::resources::{LimitInfo, ResourceInfo, Resources};
use rampmeter_protocol::settle::{Asked, Response, Settle};
use rampmeter_protocol::shares::{Share, Shares};
use rampmeter_protocol::status::{
    ClassStatus, Correction, Counters, DifferingScheduler, DiscoveredStatus, Learned, LimitStatus, ProviderState,
    ProviderStatus, RefusedRules, RulesStatus, ShadowStatus, Status, StatusQuery, UpstreamReport,
};
use rampmeter_protocol::token::AccessToken;
use serde_json::Value;
use std::collections::BTreeSet;
use validator::Schema;

const PAGE: &str = include_str!("../../../docs/protocol.md");
const SCHEMA: &str = include_str!("../../../docs/protocol.schema.json");

/// The names of each type, and the definitions of the schema that have them.
fn types() -> Vec<(&'static [&'static str], Vec<&'static [&'static str]>)> {
    vec![
        (&["permit_request"], vec![names::<PermitRequest<'_>>(), names::<Mode>()]),
        (&["permit_request", "price"], vec![names::<Price<'_>>()]),
        (&["granted", "queued", "refused", "settled"], vec![names::<Answer<'_>>()]),
        (&["left"], vec![names::<Left<'_>>()]),
        (&["settle"], vec![names::<Settle<'_>>()]),
        (&["asked"], vec![names::<Asked<'_>>()]),
        (&["response"], vec![names::<Response<'_>>()]),
        (&["limits_event"], vec![names::<LimitNews>()]),
        (&["status_question"], vec![names::<StatusQuery>()]),
        (&["status"], vec![names::<Status>(), names::<ClassStatus>(), names::<Counters>()]),
        (&["status"], vec![names::<ProviderStatus>(), names::<ProviderState>()]),
        (&["status"], vec![names::<RulesStatus>(), names::<RefusedRules>()]),
        (&["status"], vec![names::<Correction>(), names::<DifferingScheduler>()]),
        (&["limit_status"], vec![names::<LimitStatus>(), names::<DiscoveredStatus>(), names::<ShadowStatus>()]),
        (&["limit_status"], vec![names::<Learned>(), names::<UpstreamReport>()]),
        (&["shares"], vec![names::<Shares>()]),
        (&["share"], vec![names::<Share>()]),
        (&["recent"], vec![names::<Recent>()]),
        (&["holder"], vec![names::<Holder>()]),
        (&["explain_question"], vec![names::<Question>()]),
        (&["explanation"], vec![names::<Explanation>()]),
        (&["explained"], vec![names::<Explained>(), names::<State>()]),
        (&["resources"], vec![names::<Resources>(), names::<ResourceInfo>(), names::<LimitInfo>()]),
        (&["purge"], vec![names::<Purge>()]),
        (&["purged"], vec![names::<Purged>()]),
        (&["limit_order"], vec![names::<LimitOrder>()]),
        (&["freeze_order"], vec![names::<FreezeOrder>()]),
        (&["limit_order_done"], vec![names::<LimitOrderDone>()]),
        (&["access_token"], vec![names::<AccessToken>()]),
    ]
}

/// The properties and the fixed values in a schema.
fn said(schema: &Value) -> BTreeSet<String> {
    match schema {
        Value::Object(rules) => rules.iter().flat_map(|(rule, value)| said_by(rule, value)).collect(),
        Value::Array(list) => list.iter().flat_map(said).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => BTreeSet::new(),
    }
}

fn said_by(rule: &str, value: &Value) -> BTreeSet<String> {
    let own: BTreeSet<String> = match (rule, value) {
        ("properties", Value::Object(properties)) => properties.keys().cloned().collect(),
        ("enum", Value::Array(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => BTreeSet::new(),
    };
    own.into_iter().chain(said(value)).collect()
}

fn page_tells(name: &str) -> bool {
    PAGE.contains(&format!("`{name}`"))
}

#[test]
fn page_and_schema_have_every_field() {
    let schema = Schema::new(SCHEMA);
    for (definitions, names) in types() {
        let known: BTreeSet<String> = definitions.iter().flat_map(|name| said(schema.definition(name))).collect();
        for name in names.into_iter().flatten() {
            assert!(known.contains(*name), "docs/protocol.schema.json: {definitions:?} has no `{name}`");
            assert!(page_tells(name), "docs/protocol.md does not tell of `{name}`, of {definitions:?}");
        }
    }
}

#[test]
fn page_and_schema_have_every_code_and_every_reason() {
    let schema = Schema::new(SCHEMA);
    let codes: BTreeSet<String> = Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    assert_eq!(said(&serde_json::json!({ "code": schema.definition("code") })), codes);
    for code in Code::ALL {
        let row = format!("| `{}` | {} |", code.as_str(), code.status());
        assert!(PAGE.contains(&row), "docs/protocol.md has no row that begins with {row}");
    }
    let reasons: BTreeSet<String> = Reason::ALL.iter().map(|reason| reason.as_str().to_owned()).collect();
    assert_eq!(said(&serde_json::json!({ "reason": schema.definition("reason") })), reasons);
    assert!(reasons.iter().all(|reason| page_tells(reason)));
}

#[test]
fn the_page_has_what_the_schema_has() {
    let schema = Schema::new(SCHEMA);
    for definition in schema.definitions() {
        for name in said(schema.definition(definition)) {
            assert!(page_tells(&name), "docs/protocol.md does not tell of `{name}`, of `{definition}`");
        }
    }
}
