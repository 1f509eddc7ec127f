//! Orders of operators: freeze, thaw, cancel, purge, delete jobs, apply.

use super::page_error::PageError;
use super::question::{ask, payload};
use super::web_page::{WebPage, check_all, unreadable};
use crate::front_client::FrontClient;
use crate::token::{Caller, PageRight};
use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use rampmeter_config::{Rules, limits_in_force, parse_rules};
use rampmeter_protocol::limit_order::{FreezeOrder, LimitOrder, LimitOrderDone};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::purge::{Purge, Purged};
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::status::{Status, StatusQuery};
use rampmeter_serve::limits::present_rules::{Paint, PresentRules, write, written_by};
use rampmeter_serve::messages::inbound::Endpoint;
use rampmeter_store::RulesRevision;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The name of the page, as the file in faults of rules and as the source in `rampmeter status`.
const PAGE: &str = "page";
/// Bound on how often one order thaws a limit. Each time thaws four thousand keys.
const MAX_THAWS: usize = 64;

type OrderAnswer = Result<Json<Value>, PageError>;

pub(super) async fn thaw(
    State(page): State<Arc<WebPage>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    Json(order): Json<LimitOrder>,
) -> OrderAnswer {
    let name = page.resource(&caller, &resource, PageRight::Operate)?;
    caller.audit("thaw", &name, &payload(&order));
    let limits = thawed(|| ask(&page.front_client, &name, &Endpoint::Thaw, &order)).await?;
    Ok(Json(json!({"limits": limits})))
}

/// Repeats an order while it leaves keys paused. Returns the thawed limits.
async fn thawed<F, E>(mut order: impl FnMut() -> F) -> Result<Vec<Name>, E>
where
    F: Future<Output = Result<LimitOrderDone, E>>,
{
    let mut limits = Vec::new();
    for _ in 0..MAX_THAWS {
        let done = order().await?;
        limits = if limits.is_empty() { done.limits } else { limits };
        if !done.more {
            break;
        }
    }
    Ok(limits)
}

pub(super) async fn freeze(
    State(page): State<Arc<WebPage>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    Json(order): Json<FreezeOrder>,
) -> OrderAnswer {
    let name = page.resource(&caller, &resource, PageRight::Operate)?;
    caller.audit("freeze", &name, &payload(&order));
    let done: LimitOrderDone = ask(&page.front_client, &name, &Endpoint::Freeze, &order).await?;
    Ok(Json(json!({"limits": done.limits})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancellation {
    request: String,
}

pub(super) async fn cancel(
    State(page): State<Arc<WebPage>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    Json(Cancellation { request }): Json<Cancellation>,
) -> OrderAnswer {
    let name = page.resource(&caller, &resource, PageRight::Operate)?;
    let id = page.waiting.id(&request)?;
    caller.audit("cancel", &name, b"");
    let answer: Value = ask(&page.front_client, &name, &Endpoint::Settle, &Settle::unused(id)).await?;
    Ok(Json(json!({"status": answer["status"]})))
}

pub(super) async fn purge(
    State(page): State<Arc<WebPage>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    Json(order): Json<Purge>,
) -> OrderAnswer {
    let name = page.resource(&caller, &resource, PageRight::Operate)?;
    caller.audit("purge", &name, &payload(&order));
    let purged: Purged = ask(&page.front_client, &name, &Endpoint::Purge, &order).await?;
    Ok(Json(json!({"ended": purged.ended})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobDeletion {
    queue: String,
    sequence: u64,
}

/// `POST /page/order/delete-job`. Queues belong to no resource, so tokens limited to resources are refused.
pub(super) async fn delete_job(
    State(page): State<Arc<WebPage>>,
    Extension(caller): Extension<Caller>,
    Json(JobDeletion { queue, sequence }): Json<JobDeletion>,
) -> OrderAnswer {
    caller.check_page(PageRight::Operate).map_err(PageError::forbidden)?;
    check_all(&caller)?;
    caller.audit("delete job", &queue, sequence.to_string().as_bytes());
    let deleted = page.jobs.delete(&queue, sequence).await?;
    Ok(Json(json!({"deleted": deleted})))
}

/// Rules to replace the present ones of some resources.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleChange {
    rules: String,
    /// The revision of which the operator has seen the difference. Without it, nothing is written.
    if_revision: Option<RulesRevision>,
}

pub(super) async fn apply(
    State(page): State<Arc<WebPage>>,
    Extension(caller): Extension<Caller>,
    Json(RuleChange { rules: text, if_revision }): Json<RuleChange>,
) -> OrderAnswer {
    caller.check_page(PageRight::Operate).map_err(PageError::forbidden)?;
    let rules =
        parse_rules(std::path::Path::new(PAGE), &text).map_err(|error| PageError::invalid(error.to_string()))?;
    for name in rules.names() {
        page.resource(&caller, name, PageRight::Operate)?;
    }
    let author = caller.holder().map_or_else(String::new, |holder| holder.name().to_string());
    let rules = written_by(rules, &author, PAGE, &text);
    let store = page.rule_store().await?;
    let mut present = PresentRules::read(&store).await.map_err(unreadable)?;
    present.in_force = limits_in_force_of(&page.front_client, &rules).await?;
    let after = present.rules.with(&rules);
    let difference = present.diff(&after, Paint { coloured: false });
    let Some(expected) = if_revision else {
        return Ok(Json(json!({"revision": present.revision, "difference": difference})));
    };
    if expected != present.revision {
        let why = format!("the rules have revision {}, not {expected}: look at the difference again", present.revision);
        return Err(PageError(StatusCode::CONFLICT, why));
    }
    rules.names().for_each(|name| caller.audit("apply", name, format!("over revision {expected}").as_bytes()));
    let written = write(&store, &present, &after).await;
    let written = written.map_err(|error| PageError(StatusCode::CONFLICT, format!("{error:#}")))?;
    Ok(Json(json!({"written": written})))
}

async fn limits_in_force_of(front_client: &FrontClient, rules: &Rules) -> Result<Rules, PageError> {
    let question = StatusQuery { limits_toml: true, ..StatusQuery::default() };
    let mut in_force = Rules::default();
    for name in rules.names() {
        let status: Status = ask(front_client, name, &Endpoint::Status, &question).await?;
        if let Some(text) = &status.limits_toml {
            let limits = limits_in_force(name, text).map_err(unreadable)?;
            in_force.resources.push(limits);
        }
    }
    Ok(in_force)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_protocol::epoch::Epoch;
    use std::convert::Infallible;

    /// How often a thaw is ordered if the last of this many orders leaves no key paused.
    async fn orders(needed: usize) -> usize {
        let mut given = 0;
        let limits = thawed(|| {
            given += 1;
            let (resource, limits, more) =
                (Name::new("hub").unwrap(), vec![Name::new("each").unwrap()], given < needed);
            std::future::ready(Ok::<_, Infallible>(LimitOrderDone { resource, epoch: Epoch::FIRST, limits, more }))
        });
        assert_eq!(limits.await.unwrap().len(), 1);
        given
    }

    #[tokio::test]
    async fn a_thaw_is_given_again_within_bounds() {
        assert_eq!((orders(1).await, orders(3).await), (1, 3));
        assert_eq!((orders(64).await, orders(1000).await), (MAX_THAWS, MAX_THAWS));
    }
}
