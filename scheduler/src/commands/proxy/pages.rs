//! The pages `/metrics` and `/healthz` of a proxy.

use anyhow::Context;
use axum::Router;
use axum::routing::get;
use rampmeter_front::metrics::exposition;
use rampmeter_proxy::metrics::Metrics;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Serves `/metrics` and `/healthz` at `address` until the process ends. Fails if the address is not available.
pub(super) async fn serve(address: &str, metrics: Arc<Metrics>) -> anyhow::Result<()> {
    let bound = TcpListener::bind(address).await;
    let listener = bound.with_context(|| format!("the proxy's metrics: can't listen at {address}"))?;
    tracing::info!("metrics of the proxy at http://{}/metrics", listener.local_addr()?);
    let page = move || async move { exposition::respond(&metrics.render()) };
    let router = Router::new().route("/metrics", get(page)).route("/healthz", get(|| async { "ok\n" }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(())
}
