//! `rampmeter proxy`

mod credential;
mod fleet;
mod language_models;
mod pages;
mod price;

use super::process::embedded_nats::PrivateServer;
use super::process::open_files::allow_many_files;
use super::process::signal::asked_to_stop;
use crate::running::{self, Running};
use anyhow::{Context, bail};
pub(super) use fleet::Proxies;
use rampmeter_account::duration;
use rampmeter_config::{self as config, Config, NatsTable, ProxySettings};
use rampmeter_dialects::Reader;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::time::Span;
use rampmeter_proxy::settings::{CodeFn, Function, Upstream};
use rampmeter_serve::telemetry;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

/// What `proxy` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With limits of your own, and no server of any kind:

  rampmeter init openai > rampmeter.toml
  rampmeter proxy rampmeter.toml --upstream https://api.openai.com
  OPENAI_BASE_URL=http://127.0.0.1:9470/v1 python your_program.py

Several proxies share the permits of the schedulers at --nats:

  rampmeter proxy --nats nats://10.0.0.1:4222 --resource openai --upstream https://api.openai.com")]
pub struct ProxyArgs {
    #[allow(rustdoc::broken_intra_doc_links, reason = "the names of tables, in the help")]
    /// The configuration: [[proxy]], and without a NATS server the limits too: [[resource]].
    #[arg(value_name = "FILE", env = "RAMPMETER_CONFIG")]
    file: Option<PathBuf>,
    /// The server behind the proxy, in place of `upstream` in the file.
    #[arg(long, value_name = "URL", env = "RAMPMETER_UPSTREAM")]
    upstream: Option<Upstream>,
    /// The address for clients, in place of `listen` in the file.
    #[arg(long, value_name = "ADDRESS", env = "RAMPMETER_PROXY_LISTEN")]
    listen: Option<String>,
    /// The resource whose permits requests wait for, in place of `resource` in the file.
    #[arg(long, value_name = "NAME")]
    resource: Option<Name>,
    /// How long a request is held before it is answered 429, in place of `max_wait` in the file.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    max_wait: Option<Span>,
    /// The NATS server of the schedulers, in place of `nats.url`. Without either, a scheduler of its own runs inside.
    #[arg(long, value_name = "URL", env = "RAMPMETER_NATS", hide_env_values = true)]
    nats: Option<String>,
    /// The folder of the state of the scheduler inside.
    #[arg(long, value_name = "FOLDER", default_value = "rampmeter-data", env = "RAMPMETER_DATA")]
    data: PathBuf,
    /// Show the end of NATS's log if the private nats-server does not start.
    #[arg(long)]
    verbose: bool,
}

struct Plan {
    /// The external schedulers; `None` if one runs inside.
    elsewhere: Option<NatsTable>,
    config: Option<Config>,
    proxies: Vec<ProxySettings>,
}

/// A scheduler inside this process, with its NATS server.
struct Inside {
    running: Running,
    server: PrivateServer,
}

/// Serves until a signal, then lets held requests finish.
///
/// # Errors
/// If a proxy could not start.
pub async fn run(args: ProxyArgs) -> anyhow::Result<()> {
    allow_many_files();
    let Plan { elsewhere, config, proxies } = plan(&args)?;
    let (mut inside, mut telemetry) = (None, None);
    let nats = match elsewhere {
        Some(nats) => {
            let settings = config.as_ref().and_then(|config| config.telemetry.as_ref());
            telemetry = telemetry::start(settings, Clock::start(), &format!("proxy-{}", std::process::id()))?;
            nats
        }
        None => {
            let config = config.context("the scheduler inside needs a configuration")?;
            let look = format!("RAMPMETER_NATS=$(cat {}/nats-url) rampmeter status", args.data.display());
            let started = Inside::start(config, args.data, args.verbose).await?;
            let page = started.running.http_url().map(|url| format!("; {url}/ is the page"));
            tracing::info!("a scheduler runs inside; see: {look}{}", page.unwrap_or_default());
            let nats = NatsTable::at(&started.server.url);
            inside = Some(started);
            nats
        }
    };
    let own = telemetry.as_ref().map(|(spans, _)| spans.clone());
    let spans = own.or_else(|| inside.as_ref().and_then(|inside: &Inside| inside.running.scheduler.spans()));
    let proxies = Proxies::start(&nats, proxies, spans).await?;
    let mut asked = pin!(asked_to_stop());
    let reason = tokio::select! {
        signal = &mut asked => Ok(signal?),
        broken = broken(&mut inside) => Err(broken),
    };
    tracing::info!(
        "{}: held requests may finish",
        reason.as_ref().copied().unwrap_or("the scheduler inside has ended")
    );
    proxies.stop().await;
    if let Some((_, exporter)) = telemetry {
        exporter.stop().await;
    }
    if let Some(Inside { running, mut server }) = inside {
        running.stop().await?;
        server.server.stop().await?;
    }
    tracing::info!("stopped");
    reason.map(drop)
}

impl Inside {
    async fn start(mut config: Config, data: PathBuf, verbose: bool) -> anyhow::Result<Self> {
        let server = PrivateServer::start(Some(data), verbose).await?;
        server.url.clone_into(&mut config.nats.url);
        let running = running::start(config).await?;
        running.ready().await;
        Ok(Inside { running, server })
    }
}

/// Waits until the scheduler inside ends. Never returns without one.
async fn broken(inside: &mut Option<Inside>) -> anyhow::Error {
    match inside {
        Some(Inside { running, server }) => tokio::select! {
            broken = running.scheduler.broken() => broken,
            _ended = server.server.ended() => anyhow::anyhow!("the private nats-server has ended"),
        },
        None => std::future::pending().await,
    }
}

fn plan(args: &ProxyArgs) -> anyhow::Result<Plan> {
    let config = args.file.as_ref().map(|file| config::load(file)).transpose()?;
    for note in config.iter().flat_map(|config| &config.notes) {
        tracing::warn!("{note}");
    }
    let of_file = config.as_ref().filter(|config| config.has_nats).map(|config| config.nats.clone());
    let elsewhere = match &args.nats {
        Some(url) => Some(NatsTable { url: url.clone(), ..of_file.unwrap_or_default() }),
        None => of_file,
    };
    let has_limits = config.as_ref().is_some_and(|config| !config.resources.is_empty());
    if elsewhere.is_none() && !has_limits {
        bail!(
            "there are no limits: name a file with [[resource]], as `rampmeter init` prints one, \
             or the NATS server of running schedulers with --nats"
        );
    }
    let proxies = proxies(args, config.as_ref())?;
    Ok(Plan { elsewhere, config, proxies })
}

/// Returns the proxies of the file, overridden by the command line. Of several, those without an upstream are
/// used only for the resource on the command line. Without a file there is one proxy.
fn proxies(args: &ProxyArgs, config: Option<&Config>) -> anyhow::Result<Vec<ProxySettings>> {
    let mut proxies = config.map(|config| config.proxies.clone()).unwrap_or_default();
    if proxies.len() > 1 {
        let is_asked = |proxy: &ProxySettings| proxy.resource.is_some() && proxy.resource == args.resource;
        proxies.retain(|proxy| proxy.upstream.is_some() || is_asked(proxy));
    }
    if proxies.is_empty() {
        proxies.push(ProxySettings::default());
    }
    if let [one] = &mut proxies[..] {
        one.upstream = args.upstream.clone().or(one.upstream.take());
        one.resource = args.resource.clone().or(one.resource.take());
        one.listen = args.listen.clone().unwrap_or(std::mem::take(&mut one.listen));
        one.times.max_wait = args.max_wait.unwrap_or(one.times.max_wait);
    } else if args.upstream.is_some() || args.listen.is_some() || args.resource.is_some() || args.max_wait.is_some() {
        bail!("the file has several [[proxy]]; write there what the command line says");
    }
    complete(&mut proxies, config)?;
    Ok(proxies)
}

/// Gives proxies without a resource the file's only one. Those of language models count the tokens that it limits.
/// Fails if a proxy has no upstream or no unambiguous resource, or would show its credential to the network.
pub(super) fn complete(proxies: &mut [ProxySettings], config: Option<&Config>) -> anyhow::Result<()> {
    let resources = config.map_or(&[][..], |config| &config.resources);
    for proxy in proxies {
        if proxy.upstream.is_none() {
            bail!("the proxy at {} has no upstream: --upstream, or `upstream` in [[proxy]]", proxy.listen);
        }
        if proxy.shows_secret_to_all() {
            bail!(
                "the credential of the proxy at {} would go over the network for all to read: use https://, or \
                 `allow_http = true` where the network is private",
                proxy.listen
            );
        }
        match (&proxy.resource, resources) {
            (Some(_), _) => {}
            (None, [only]) => proxy.resource = Some(only.name().clone()),
            (None, _) => bail!("the proxy at {} has no resource: --resource, or `resource` in [[proxy]]", proxy.listen),
        }
        let of_file = resources.iter().find(|resource| Some(resource.name()) == proxy.resource.as_ref());
        if let Some(resource) = of_file {
            proxy.asking.codes = Some(resource.reader.clone()).filter(Reader::reads_bodies).map(codes);
            language_models::complete(proxy, resource)?;
        }
    }
    Ok(())
}

fn codes(reader: Reader) -> CodeFn {
    Function(Arc::new(move |status, text: &str| reader.code_in(status, text).map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io::Write;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ProxyArgs,
    }

    const LIMITS: &str =
        "[[resource]]\nname = \"a\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"1s\"\n";
    const PROXY: &str = "[[proxy]]\nupstream = \"http://b\"\nlisten = \"127.0.0.1:1\"\n";

    /// What the proxies with this file and these arguments do, or why not.
    fn planned(file: &str, arguments: &str) -> String {
        let mut config = tempfile::NamedTempFile::new().unwrap();
        config.write_all(file.as_bytes()).unwrap();
        let path = config.path().to_str().unwrap().to_owned();
        let of_file = (!file.is_empty()).then_some(&*path);
        let line = std::iter::once("proxy").chain(of_file).chain(arguments.split_whitespace());
        let args = Line::parse_from(line).args;
        let args = ProxyArgs { nats: args.nats.filter(|_| arguments.contains("--nats")), ..args };
        match plan(&args) {
            Err(error) => format!("{error:#}"),
            Ok(Plan { elsewhere, proxies, .. }) => {
                let text_of = |proxy: &ProxySettings| {
                    let (upstream, resource) = (proxy.upstream.as_ref().unwrap(), proxy.resource.as_ref().unwrap());
                    format!("{} {resource} {upstream}", proxy.listen)
                };
                let proxies: Vec<String> = proxies.iter().map(text_of).collect();
                format!("{} at {}", proxies.join(", "), elsewhere.map_or("itself".to_owned(), |nats| nats.url))
            }
        }
    }

    #[test]
    fn the_file_or_the_command_line_says_what_there_is_to_do() {
        let nats = "[nats]\nurl = \"nats://c:1\"\n";
        let starts = |file: &str, arguments: &str, expected: &str| {
            let found = planned(file, arguments);
            assert!(found.starts_with(expected), "{file} {arguments}: {found}");
        };
        starts(LIMITS, "--upstream http://b", "127.0.0.1:9470 a http://b at itself");
        starts(&format!("{PROXY}{LIMITS}"), "", "127.0.0.1:1 a http://b at itself");
        starts(
            &format!("{PROXY}{LIMITS}"),
            "--listen 127.0.0.1:2 --upstream http://x",
            "127.0.0.1:2 a http://x at itself",
        );
        starts(&format!("{nats}{PROXY}{LIMITS}"), "", "127.0.0.1:1 a http://b at nats://c:1");
        starts(&format!("{nats}{PROXY}{LIMITS}"), "--nats nats://d:1", "127.0.0.1:1 a http://b at nats://d:1");
        starts("", "--nats nats://d:1 --upstream http://b --resource r", "127.0.0.1:9470 r http://b at nats://d:1");
        starts(PROXY, "", "there are no limits");
        starts(LIMITS, "", "the proxy at 127.0.0.1:9470 has no upstream");
        starts("", "--nats nats://d:1 --upstream http://b", "the proxy at 127.0.0.1:9470 has no resource");
        starts(&format!("{PROXY}{PROXY}{LIMITS}"), "--listen 127.0.0.1:2", "the file has several");
    }
}
