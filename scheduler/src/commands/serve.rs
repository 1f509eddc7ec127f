//! `rampmeter serve`

use super::process::open_files::allow_many_files;
use super::process::signal::asked_to_stop;
use super::proxy::{self, Proxies};
use crate::running::{self, Running};
use anyhow::bail;
use rampmeter_config::{self as config, Config, NatsTable, ProxySettings};
use rampmeter_nats::servers::Servers;
use rampmeter_nats_server::Server;
use rampmeter_protocol::name::Name;
use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::pin;

/// What `serve` takes.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// The configuration, in place of `--config`.
    file: Option<PathBuf>,
    /// The configuration.
    #[arg(long, value_name = "FILE", default_value = "rampmeter.toml", env = "RAMPMETER_CONFIG")]
    config: PathBuf,
    /// The NATS server, in place of `nats.url`.
    #[arg(long, value_name = "URL", env = "RAMPMETER_NATS", hide_env_values = true)]
    nats: Option<String>,
    /// The address for health, metrics and permits over HTTP, in place of `http.listen`.
    #[arg(long, value_name = "ADDRESS", env = "RAMPMETER_LISTEN")]
    listen: Option<String>,
    /// Start a private nats-server with `JetStream` beside the scheduler, on the port of
    /// `nats.url`. It requires the user and password of that URL, if it has any.
    #[arg(long, env = "RAMPMETER_EMBEDDED_NATS")]
    embedded_nats: bool,
    /// The data folder of the private nats-server.
    #[arg(long, value_name = "FOLDER", default_value = "rampmeter-data", env = "RAMPMETER_DATA")]
    data: PathBuf,
    /// Show the end of NATS's log if the private nats-server does not start.
    #[arg(long)]
    verbose: bool,
}

/// Serves until a signal, then hands over.
///
/// # Errors
/// If the scheduler could not start, or could not hand over in time.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    allow_many_files();
    let config = configuration(&args)?;
    let (servers, nats) = (config.nats.servers()?, config.nats.clone());
    let proxies = proxies(&config)?;
    let mut embedded = match args.embedded_nats {
        true => Some(super::process::embedded_nats::start(&config.nats.url, args.data, args.verbose).await?),
        false => None,
    };
    let (has_front, has_page) = (config.http.front, config.http.page);
    let mut asked = pin!(asked_to_stop());
    let mut running = tokio::select! {
        running = running::start(config) => running?,
        signal = &mut asked => {
            tracing::info!("{}: stopped before anything was served", signal?);
            return Ok(());
        }
    };
    warn_of_unsigned_state(&nats, embedded.is_some());
    let http = running.http_url().map(str::to_owned);
    http.iter().for_each(|http| tracing::info!("health and metrics at {http}/metrics"));
    let front = http.filter(|_| has_front).map(|url| Front { url, has_page });
    let proxies = match proxies.is_empty() {
        true => None,
        false => Some(Proxies::start(&nats, proxies, running.scheduler.spans()).await?),
    };
    let leaders = running.scheduler.leaders();
    let reason = tokio::select! {
        signal = asked => Ok(signal?),
        () = ended(&mut embedded) => Ok("the end of the embedded nats-server"),
        broken = running.scheduler.broken() => Err(broken),
        never = log_ready(leaders, &servers, front) => match never {},
    };
    let handed_over = hand_over(running, proxies, &reason).await;
    reason?;
    handed_over?;
    if let Some(mut server) = embedded {
        server.stop().await?;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Warns if state is unsigned. An embedded server has no other users that could write it.
fn warn_of_unsigned_state(nats: &NatsTable, is_embedded: bool) {
    if nats.state_key_file.is_none() && !is_embedded {
        let danger = "whoever may write its KV bucket decides what is spent";
        tracing::warn!("the state is not signed: {danger}; see `nats.state_key_file`");
    }
}

/// Logs, once start-up is over, which scheduler leads which resource, and where workers connect.
async fn log_ready(
    leaders: impl Future<Output = Vec<(Name, Option<String>)>>,
    servers: &Servers,
    front: Option<Front>,
) -> Infallible {
    tracing::info!("{}", ready(&leaders.await, servers, front.as_ref()));
    std::future::pending().await
}

struct Front {
    url: String,
    has_page: bool,
}

fn ready(leaders: &[(Name, Option<String>)], servers: &Servers, front: Option<&Front>) -> String {
    let own: Vec<String> =
        leaders.iter().filter(|(_, other)| other.is_none()).map(|(name, _)| format!("`{name}`")).collect();
    let leads = (!own.is_empty()).then(|| format!("leads {}", own.join(", ")));
    let others = leaders
        .iter()
        .filter_map(|(name, other)| Some(format!("stands by for `{name}`, which {} leads", other.as_ref()?)));
    let duties = leads.into_iter().chain(others).collect::<Vec<_>>().join("; ");
    let page = front.filter(|front| front.has_page).map(|front| format!("; the page is {}/", front.url));
    let page = page.unwrap_or_default();
    let front = front.map(|front| format!(" or {}", front.url)).unwrap_or_default();
    format!("ready: {duties}; workers connect to {servers}{front}{page}; see: rampmeter status --nats {servers}")
}

/// Hands over. Proxies stop first, because the requests that they hold need this scheduler's permits.
async fn hand_over(
    running: Running,
    proxies: Option<Proxies>,
    reason: &anyhow::Result<&'static str>,
) -> anyhow::Result<()> {
    match reason {
        Ok(reason) => tracing::info!("{reason}: handing over"),
        Err(broken) => tracing::error!("{broken:#}: handing over what is left"),
    }
    if let Some(proxies) = proxies {
        proxies.stop().await;
    }
    running.stop().await
}

/// Returns the proxies of the file, without those that wait for the URL of an upstream.
fn proxies(config: &Config) -> anyhow::Result<Vec<ProxySettings>> {
    if config.resources.is_empty() {
        bail!("there is no [[resource]]; `rampmeter proxy` runs proxies without a scheduler");
    }
    let mut proxies = config.proxies.clone();
    proxies.retain(|proxy| proxy.upstream.is_some());
    proxy::complete(&mut proxies, Some(config))?;
    Ok(proxies)
}

fn configuration(args: &ServeArgs) -> anyhow::Result<Config> {
    let mut config = config::load(args.file.as_ref().unwrap_or(&args.config))?;
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    if let Some(nats) = &args.nats {
        config.nats.url.clone_from(nats);
    }
    if let Some(listen) = &args.listen {
        config.http.listen.clone_from(listen);
    }
    Ok(config)
}

/// Waits until the embedded server ends. Never returns without one.
async fn ended(embedded: &mut Option<Server>) {
    match embedded {
        Some(server) => drop(server.ended().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_without_an_upstream_is_left_out() {
        let text = "[[proxy]]\nresource = \"api\"\n[[resource]]\nname = \"api\"\n\
                    [[resource.limit]]\nname = \"all\"\ncapacity = 1\nperiod = \"1s\"\n";
        let config = config::parse("rampmeter.toml".as_ref(), text).unwrap();
        assert!(config.proxies.len() == 1 && proxies(&config).unwrap().is_empty());
    }

    #[test]
    fn the_line_at_the_end_of_start_up_names_leaders_and_resources() {
        let name = |name| Name::new(name).unwrap();
        let leaders = [(name("a"), None), (name("b"), Some("scheduler-7".to_owned())), (name("c"), None)];
        let servers = "nats://user:secret@10.0.0.1:4222".parse().unwrap();
        let line = "ready: leads `a`, `c`; stands by for `b`, which scheduler-7 leads; \
                    workers connect to nats://10.0.0.1:4222";
        let see = "; see: rampmeter status --nats nats://10.0.0.1:4222";
        assert_eq!(ready(&leaders, &servers, None), format!("{line}{see}"));
        for (has_page, page) in [(false, ""), (true, "; the page is http://10.0.0.2:80/")] {
            let front = Front { url: "http://10.0.0.2:80".to_owned(), has_page };
            assert_eq!(ready(&leaders, &servers, Some(&front)), format!("{line} or http://10.0.0.2:80{page}{see}"));
        }
    }
}
