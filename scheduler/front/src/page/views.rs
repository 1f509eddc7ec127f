//! Handlers of the page's queries.

use super::page_error::PageError;
use super::recent_levels::LevelCurve;
use super::waiting::WaitingQuery;
use super::web_page::{WebPage, check_all, unreadable};
use super::what_if::WhatIf;
use crate::token::{Caller, PageRight};
use axum::Json;
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use rampmeter_protocol::name::Name;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Bound on the shown editions, the latest first.
const SHOWN_EDITIONS: usize = 20;

pub(super) async fn overview(
    State(page): State<Arc<WebPage>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, PageError> {
    check_all(&caller)?;
    page.streams.open(page.feed.overview(), caller.party())
}

pub(super) async fn resource(
    State(page): State<Arc<WebPage>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, PageError> {
    let name = page.resource(&caller, &resource, PageRight::View)?;
    let frames = page.feed.resource(&name).ok_or_else(|| PageError::unavailable("it is not observed"))?;
    page.streams.open(frames, caller.party())
}

#[derive(Debug, Deserialize)]
pub(super) struct CurveQuery {
    limit: String,
}

/// `GET /page/history/<resource>?limit=<limit>`
pub(super) async fn history(
    State(page): State<Arc<WebPage>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    Query(CurveQuery { limit }): Query<CurveQuery>,
) -> Result<Json<LevelCurve>, PageError> {
    let name = page.resource(&caller, &resource, PageRight::View)?;
    let curve = page.feed.curve(page.front_client.clock.now(), &name, &limit);
    curve.map(Json).ok_or_else(|| PageError::unavailable("it is not observed"))
}

pub(super) async fn rights(
    State(page): State<Arc<WebPage>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, PageError> {
    caller.check_page(PageRight::View).map_err(PageError::forbidden)?;
    let may_see = |name: &&Name| caller.holder().is_none_or(|holder| holder.check_resource(name).is_ok());
    let resources: Vec<&Name> = page.front_client.resources().filter(may_see).collect();
    let holder = caller.holder().map(|holder| holder.name());
    let all = check_all(&caller).is_ok();
    let jobs = all && page.jobs.are_shown();
    let rights =
        json!({"token": holder, "right": caller.page(), "resources": resources, "overview": all, "jobs": jobs});
    Ok(Json(rights))
}

pub(super) async fn rules(
    State(page): State<Arc<WebPage>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, PageError> {
    check_all(&caller)?;
    let editions = page.rule_store().await?.editions().await.map_err(unreadable)?;
    let shown = editions.iter().take(SHOWN_EDITIONS).map(|edition| {
        let text = edition.text.as_deref().map(String::from_utf8_lossy);
        json!({"revision": edition.revision, "text": text})
    });
    Ok(Json(json!({"editions": shown.collect::<Vec<_>>()})))
}

pub(super) async fn schedulers(
    State(page): State<Arc<WebPage>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, PageError> {
    check_all(&caller)?;
    let shown = page.schedulers.get(&page.front_client, &page.peers, &page.store).await;
    shown.map(Json)
}

pub(super) async fn jobs(
    State(page): State<Arc<WebPage>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, PageError> {
    check_all(&caller)?;
    Ok(Json(page.jobs.list(page.front_client.clock.now()).await))
}

pub(super) async fn waiting(
    State(page): State<Arc<WebPage>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    Json(asked): Json<WaitingQuery>,
) -> Result<Json<Value>, PageError> {
    let name = page.resource(&caller, &resource, PageRight::View)?;
    page.waiting.list(&page.front_client, name, asked).await.map(Json)
}

pub(super) async fn what_if(
    State(page): State<Arc<WebPage>>,
    Path(resource): Path<String>,
    Extension(caller): Extension<Caller>,
    Json(tried): Json<WhatIf>,
) -> Result<Json<Value>, PageError> {
    let name = page.resource(&caller, &resource, PageRight::View)?;
    page.forecasts.run(&page.front_client, &name, tried).await.map(Json)
}
