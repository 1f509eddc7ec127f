//! A service that admits as many requests as a resource's limits allow, in all its processes together.
//!
//! With the server's URL in `RAMPMETER_NATS`:
//!
//! ```sh
//! cargo run -p rampmeter-worker-sdk --features tower --example axum_layer -- my-api 127.0.0.1:8080
//! curl -i -H 'x-client: me' 127.0.0.1:8080
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use axum::Router;
use axum::routing::get;
use http::request::Parts;
use rampmeter_worker_sdk::Client;
use rampmeter_worker_sdk::call::Acquire;
use rampmeter_worker_sdk::middleware::tower::ServerLayer;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("RAMPMETER_NATS").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let resource = std::env::args().nth(1).unwrap_or_else(|| "my-api".to_owned());
    let listen = std::env::args().nth(2).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let client = Client::builder().name("my-api").wait_for_server().connect(url).await?;
    let layer = ServerLayer::new(client.resource(&resource)?).asking(terms).wait(Duration::from_millis(500));
    let app = Router::new().route("/", get(async || "a tile\n")).layer(layer);
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

/// Sets the labels that limits can match on or key by.
fn terms(acquire: Acquire, head: &Parts) -> Acquire {
    let client = head.headers.get("x-client").and_then(|client| client.to_str().ok());
    let acquire = acquire.label("client", client.unwrap_or("anonymous"));
    acquire.label("route", head.uri.path()).label("method", head.method.as_str())
}
