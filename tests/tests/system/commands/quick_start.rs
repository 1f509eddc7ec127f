//! The quick start of docs/configuration.md: its lines, as they are printed.

use crate::clients::examples;
use crate::prelude::*;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use rampmeter_tests::python;
use rampmeter_upstream::Policy;

/// The commands of the quick start, without their comments.
fn commands() -> Vec<String> {
    let page = repository::file("docs/configuration.md").unwrap().text;
    let (_, section) = page.split_once("\n## Quick start\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(|line| line.split('#').next().unwrap().trim().to_owned()).collect()
}

/// The command that begins with `start`.
fn command(start: &str) -> String {
    let found = commands().into_iter().find(|command| command.starts_with(start));
    found.unwrap_or_else(|| panic!("the quick start has no `{start}`"))
}

/// A folder like a clone of the repository, with `rampmeter` on the PATH.
struct Shell {
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Shell {
    fn new(environment: Vec<(&'static str, String)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let link = |from: &Path, to| std::os::unix::fs::symlink(from, folder.path().join(to)).unwrap();
        link(Path::new(RAMPMETER), "rampmeter");
        link(&repository::root().join("tests"), "tests");
        Shell { folder, environment }
    }

    fn command(&self, line: &str) -> Command {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.folder.path()).env("PATH", path);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs a line to its end, and returns its output.
    async fn run(&self, line: &str) -> String {
        let output = within(line, self.command(line).output()).await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a line that runs until its process is stopped.
    fn begin(&self, line: &str, output: &str) -> Child {
        let output = std::fs::File::create(self.folder.path().join(output)).unwrap();
        let errors = output.try_clone().unwrap();
        self.command(&format!("exec {line}")).stdout(output).stderr(errors).spawn().unwrap()
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(file)).unwrap()
    }
}

async fn stop(mut child: Child) {
    signal::kill(Pid::from_raw(child.id().unwrap().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(within("it stops", child.wait()).await.unwrap().success());
}

/// The path in the URL that the Python worker calls by default.
fn path_of_calls() -> String {
    let worker = repository::file("tests/python/worker.py").unwrap().text;
    let (_, after) = worker.split_once(":9490").unwrap();
    after.split('"').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quick_start_runs_as_printed_without_a_429() {
    let packages = python::packages(env!("CARGO_TARGET_TMPDIR"), "worker").await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nats = format!("nats://{free}");
    let mut shell = Shell::new(vec![
        ("RAMPMETER_NATS", nats.clone()),
        ("RAMPMETER_LISTEN", "127.0.0.1:0".to_owned()),
        ("PYTHONPATH", packages.display().to_string()),
    ]);
    shell.run(&command("rampmeter check")).await;
    let serving = shell.begin(&command("rampmeter serve"), "serve.txt");
    let playing = shell.begin(&format!("{} --listen 127.0.0.1:0", command("rampmeter upstream")), "upstream.txt");
    until("NATS listens", async || TcpStream::connect(free).await.ok()).await;
    let upstream = until("the upstream tells its URL", async || {
        shell.read("upstream.txt").split_once(" enforces ").map(|(url, _)| url.to_owned())
    })
    .await;
    let api = format!("{upstream}{}", path_of_calls());
    shell.environment.push(("API_URL", api.clone()));

    let output = shell.run(&command("python3")).await;
    examples::worker::work(&nats, &api, 20, Duration::from_secs(60)).await.unwrap();
    let status = shell.run(&command("rampmeter status")).await;

    assert_eq!(output.lines().filter(|line| line.starts_with("200 ")).count(), 20, "{output}");
    assert!(status.contains("sentinel-hub"), "{status}");
    let counters = Worker::at(&nats, "sentinel-hub").await.status().await.counters;
    assert_eq!((counters.granted, counters.refused, counters.upstream_429), (40, 0, 0));
    let (_, stats) = scheduler::get(&format!("{upstream}/stats")).await;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!((&stats["ok"], &stats["sent"]), (&40.into(), &40.into()), "{stats}");
    assert_eq!(stats["policies"][1]["spent"], 80.0, "calls cost the upstream what their permits say: {stats}");
    stop(playing).await;
    stop(serving).await;
}

/// The upstream of the quick start allows what the printed configuration says, and no less.
#[tokio::test]
async fn the_upstream_of_the_quick_start_has_the_printed_limits() {
    let printed = process::run(RAMPMETER, &["check", "--print-default"]).await.stdout;
    let config = config::parse(Path::new("printed.toml"), &String::from_utf8(printed).unwrap()).unwrap();
    let resource = config.resources[0].resource().unwrap();
    let upstream = command("rampmeter upstream");
    let enforced = upstream.split("--limit ").skip(1).map(|limit| limit.trim().parse::<Policy>().unwrap());
    let enforced: Vec<_> = enforced.collect();
    for limit in resource.limits().iter().map(|limit| limit.spec()) {
        let same = |policy: &&Policy| {
            let (capacity, period) = (limit.capacity.units(), limit.period.duration());
            (policy.unit().as_str(), policy.capacity().to_f64(), policy.period()) == (&*limit.unit, capacity, period)
        };
        // A trial does not last a month.
        let expected = usize::from(!limit.name.ends_with("-month"));
        assert_eq!(enforced.iter().filter(same).count(), expected, "{}: {upstream}", limit.name);
    }
    let help = process::run(RAMPMETER, &["upstream", "--help"]).await.stdout;
    assert!(String::from_utf8(help).unwrap().contains(":9490]"), "the workers call another address");
}

#[test]
fn cargo_install_brings_the_command_rampmeter() {
    let install = command("cargo install");
    let folder = install.rsplit(' ').next().unwrap();
    let manifest: toml::Table = repository::file(&format!("{folder}/Cargo.toml")).unwrap().text.parse().unwrap();
    let binaries = manifest["bin"].as_array().unwrap();
    assert!(binaries.iter().any(|binary| binary["name"].as_str() == Some("rampmeter")), "{install}");
}
