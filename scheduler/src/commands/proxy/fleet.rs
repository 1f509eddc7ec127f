//! The proxies of one process.

use super::{credential, pages::serve, price};
use anyhow::Context;
use futures::future::join_all;
use rampmeter_config::{NatsTable, OnNoScheduler, Pricing, ProxySettings};
use rampmeter_front::forwarded_labels;
use rampmeter_nats::servers::Servers;
use rampmeter_proxy::settings::{Asking, Function, LabelsFn};
use rampmeter_proxy::{Proxy, Settings};
use rampmeter_serve::connection::login;
use rampmeter_telemetry::Spans;
use rampmeter_worker_sdk::Client;
use rampmeter_worker_sdk::policy::{Patience, Unreachable};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Running proxies that share one client of the schedulers.
pub(crate) struct Proxies {
    client: Client,
    proxies: Vec<Proxy>,
}

impl Proxies {
    /// Starts all of `settings`, each of which has an upstream and a resource. Spans go to `spans`. Fails if NATS
    /// refuses, an address is taken, or the system has no certificates.
    pub(crate) async fn start(
        nats: &NatsTable,
        settings: Vec<ProxySettings>,
        spans: Option<Spans>,
    ) -> anyhow::Result<Self> {
        let client = client(nats, &settings).await?;
        let mut proxies = Vec::new();
        for settings in settings {
            proxies.push(start(&client, settings, spans.clone()).await?);
        }
        Ok(Proxies { client, proxies })
    }

    /// Lets held requests finish, and reports every call.
    pub(crate) async fn stop(self) {
        join_all(self.proxies.into_iter().map(Proxy::stop)).await;
        self.client.close().await;
    }
}

async fn client(nats: &NatsTable, settings: &[ProxySettings]) -> anyhow::Result<Client> {
    let servers: Servers = nats.url.parse()?;
    let options = login(nats, &servers)?.name("rampmeter-proxy");
    let builder = Client::builder().options(options).prefix(&nats.prefix).wait_for_server();
    let builder = settings.iter().fold(builder, |builder, proxy| match (&proxy.resource, proxy.on_no_scheduler) {
        (Some(resource), OnNoScheduler::Refuse) => {
            builder.unreachable_for(resource, Unreachable::Fail { after: Patience::default() })
        }
        (Some(resource), OnNoScheduler::SafeRate(rate)) => {
            builder.unreachable_for(resource, Unreachable::SafeRate { after: Patience::default(), rate })
        }
        (Some(_), OnNoScheduler::Wait) | (None, _) => builder,
    });
    builder.connect(&nats.url).await.with_context(|| format!("the proxy's connection to {servers}"))
}

async fn start(client: &Client, proxy: ProxySettings, spans: Option<Spans>) -> anyhow::Result<Proxy> {
    let (upstream, resource) = proxy.upstream.zip(proxy.resource).context("a proxy has an upstream and a resource")?;
    let (listen, origin, encryption, mut pages) = (proxy.listen, proxy.origin, proxy.encryption, proxy.pages);
    let labels: LabelsFn = Function(Arc::new(move |head, address| forwarded_labels(head, address, &origin)));
    let names = (upstream.to_string(), resource.to_string());
    let scheme = if encryption.certificate.is_some() { "https" } else { "http" };
    let price = proxy.price.map(|Pricing::SentinelHub| price::of_sentinel_hub());
    let asking = Asking { labels: Some(labels), price, ..proxy.asking };
    let resource = client.resource(&resource)?;
    let credentials = credential::open(proxy.credentials, &resource);
    let credentials = credentials.with_context(|| format!("the credential of the proxy at {listen}"))?;
    let bound = TcpListener::bind(&listen).await;
    let listener = bound.with_context(|| {
        format!("the proxy can't listen at {listen}; name another address: --listen, or `listen` in [[proxy]]")
    })?;
    pages.hosts.extend(listen.rsplit_once(':').map(|(host, _port)| host.to_owned()));
    let (headers, times, bounds) = (proxy.headers, proxy.times, proxy.bounds);
    let settings = Settings { upstream, asking, headers, credentials, times, bounds, encryption, pages, spans };
    let started = Proxy::start(listener, resource, settings).with_context(|| format!("the proxy at {listen}"))?;
    if let Some(address) = proxy.metrics {
        serve(&address, started.metrics()).await?;
    }
    tracing::info!(upstream = names.0, resource = names.1, "holds requests at {scheme}://{}", started.address());
    Ok(started)
}
