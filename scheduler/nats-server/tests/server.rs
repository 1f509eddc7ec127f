//! Runs a real nats-server: ready, restarted, killed, paused, misconfigured.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use async_nats::jetstream;
use nix::unistd::{Pid, getpgid};
use rampmeter_nats_server::{Binary, Options, Server, StartError, Version};

/// Far longer than a server needs to answer, even on a loaded machine.
const ANSWER: Duration = Duration::from_secs(20);

async fn try_start(options: Options) -> Result<Server, StartError> {
    let binary = Binary::find().await.unwrap();
    Server::start(&binary, options).await
}

async fn start(options: Options) -> Server {
    try_start(options).await.unwrap()
}

fn connect(server: &Server) -> io::Result<BufReader<TcpStream>> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).map(BufReader::new)
}

/// The first line that a server sends.
fn greeting(connection: &mut BufReader<TcpStream>, patience: Duration) -> io::Result<String> {
    connection.get_ref().set_read_timeout(Some(patience))?;
    let mut line = String::new();
    connection.read_line(&mut line)?;
    Ok(line)
}

fn greeting_of(server: &Server) -> String {
    greeting(&mut connect(server).unwrap(), ANSWER).unwrap()
}

/// Whether the other end closes the connection. The system does so for a process that dies.
fn is_closed(connection: &mut BufReader<TcpStream>) -> bool {
    match connection.read_to_end(&mut Vec::new()) {
        Ok(_rest) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

async fn jetstream_of(server: &Server) -> jetstream::Context {
    jetstream::new(async_nats::connect(server.url()).await.unwrap())
}

#[tokio::test]
async fn a_started_server_has_jetstream_and_the_version_that_was_found() {
    let binary = Binary::find().await.unwrap();
    let server = Server::start(&binary, Options::default()).await.unwrap();
    assert_eq!(server.url(), format!("nats://127.0.0.1:{}", server.port()));

    let info = greeting_of(&server);

    assert!(info.starts_with("INFO {"), "{info}");
    assert!(info.contains(r#""jetstream":true"#), "{info}");
    let version = format!(r#""version":"{}""#, binary.version());
    assert!(info.contains(&version), "{info}");
    assert!(binary.version() >= Version::OLDEST);
    assert!(server.log_tail().contains("Server is ready"));
}

#[tokio::test]
async fn a_restart_keeps_port_and_store() {
    let mut server = start(Options::default()).await;
    let (port, url, pid) = (server.port(), server.url().to_owned(), server.pid());
    let jetstream = jetstream_of(&server).await;
    jetstream.create_stream("kept").await.unwrap();

    for killed_before in [true, false] {
        if killed_before {
            server.kill().await.unwrap();
        }
        server.restart().await.unwrap();

        assert_eq!((server.port(), server.url()), (port, url.as_str()));
        assert_ne!(server.pid(), pid);
        let jetstream = jetstream_of(&server).await;
        jetstream.get_stream("kept").await.unwrap();
    }
}

#[tokio::test]
async fn a_store_of_the_owner_outlives_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { store: Some(folder.path().to_path_buf()), ..Options::default() };
    let mut first = start(options.clone()).await;
    assert_eq!(first.store(), folder.path());
    jetstream_of(&first).await.create_stream("kept").await.unwrap();
    first.stop().await.unwrap();
    drop(first);

    let second = start(options).await;
    jetstream_of(&second).await.get_stream("kept").await.unwrap();
}

#[tokio::test]
async fn a_store_has_one_server_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { store: Some(folder.path().to_path_buf()), ..Options::default() };
    let mut first = start(options.clone()).await;
    let (process, store) = (first.pid().unwrap(), folder.path().display());

    let error = try_start(options.clone()).await.unwrap_err();
    let expected = format!("the folder {store} is in use by a nats-server that runs (process {process})");
    assert_eq!((error.to_string(), error.log()), (expected, None));
    assert!(greeting_of(&first).starts_with("INFO {"), "the first one goes on");

    first.kill().await.unwrap();
    let second = start(options).await;
    assert!(greeting_of(&second).starts_with("INFO {"));
}

#[tokio::test]
async fn a_killed_server_is_gone_at_once() {
    let mut server = start(Options::default()).await;
    server.kill().await.unwrap();

    assert_eq!(server.pid(), None);
    assert_eq!(connect(&server).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(server.ended().await.unwrap().signal(), Some(9));
    assert_eq!(server.pause().unwrap_err().kind(), ErrorKind::NotFound);
    server.kill().await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_dropped_server_dies_and_a_stopped_one_leaves_nothing_behind() {
    let dropped = start(Options::default()).await;
    let mut connection = connect(&dropped).unwrap();
    greeting(&mut connection, ANSWER).unwrap();
    drop(dropped);
    assert!(is_closed(&mut connection));

    let mut stopped = start(Options::default()).await;
    stopped.stop().await.unwrap();
    let store = stopped.store().to_path_buf();
    assert!(store.exists());
    drop(stopped);
    assert!(!store.parent().unwrap().exists());
}

#[tokio::test]
async fn a_taken_port_is_reported_and_its_log_is_kept() {
    let first = start(Options::default()).await;
    let port = first.port();

    let error = try_start(Options { port, ..Options::default() }).await.unwrap_err();

    assert_eq!(error.to_string(), format!("port {port} on 127.0.0.1 is taken by another program"));
    assert!(error.log().unwrap().contains("address already in use"), "{error:?}");
}

#[tokio::test]
async fn the_configuration_counts_sees_the_environment_and_yields_to_arguments() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let configured = || Options {
        configuration: Some(file.path().to_path_buf()),
        arguments: vec!["-m".to_owned(), "-1".to_owned()],
        environment: vec![("NAME".to_owned(), "ramp".to_owned())],
        ..Options::default()
    };
    let text = "server_name: $NAME\nport: 1\nhttp: 1\njetstream { store_dir: $NATS_STORE }\n";
    std::fs::write(file.path(), text).unwrap();
    let server = start(configured()).await;
    assert!(server.store().join("jetstream").is_dir(), "the store is where the server says");
    let info = greeting_of(&server);
    assert!(info.contains(r#""server_name":"ramp""#) && info.contains(r#""jetstream":true"#));
    let monitor = server.monitor().unwrap();
    assert!(monitor.starts_with("http://") && !monitor.ends_with(":1"), "{monitor}");
    assert_eq!(start(Options::default()).await.monitor(), None);

    std::fs::write(file.path(), "server_nam: ramp\n").unwrap();
    let error = try_start(configured()).await.unwrap_err();
    assert!(error.to_string().contains("server_nam"), "{error}");
}

#[tokio::test]
async fn a_server_that_outlives_the_interrupt_has_a_process_group_of_its_own() {
    for outlives_interrupt in [true, false] {
        let server = start(Options { outlives_interrupt, ..Options::default() }).await;
        let pid = Pid::from_raw(server.pid().unwrap().try_into().unwrap());
        assert_eq!(getpgid(Some(pid)).unwrap() == pid, outlives_interrupt);
    }
}

/// Copies a folder with the dates, as a backup does.
fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

#[tokio::test]
async fn a_name_outlives_clean_stops_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup) = (folder.path().join("store"), folder.path().join("backup"));
    let options = Options { store: Some(store.clone()), name_prefix: Some("private-"), ..Options::default() };
    let name = |server: &Server| {
        let info = greeting_of(server);
        info.split_once(r#""server_name":""#).unwrap().1.split('"').next().unwrap().to_owned()
    };
    let (mut names, mut before) = (BTreeSet::new(), String::new());
    type Touch = fn(&Path, &Path);
    let ends: [(&str, Touch); 6] = [
        ("first", |_, _| ()),
        ("clean", |_, _| ()),
        ("killed", |_, _| ()),
        ("written to", |store, _| std::fs::write(store.join("jetstream/more"), "").unwrap()),
        ("put back", |store, backup| {
            copy(store, backup);
            std::fs::remove_dir_all(store).unwrap();
            copy(backup, store);
            // The newest of the copies, as the mark was.
            copy(&backup.join("clean-stop"), &store.join("copy"));
            std::fs::rename(store.join("copy"), store.join("clean-stop")).unwrap();
        }),
        ("moved", |store, backup| {
            std::fs::remove_dir_all(backup).unwrap();
            std::fs::rename(store, backup).unwrap();
            std::fs::rename(backup, store).unwrap();
        }),
    ];
    for (end, touch) in ends {
        touch(&store, &backup);
        let mut server = start(options.clone()).await;
        assert!(name(&server).starts_with("private-"), "{}", name(&server));
        let is_new = names.insert(name(&server));
        assert_eq!((is_new, name(&server) == before), (end != "clean", end == "clean"), "{end}");
        before = name(&server);
        match end {
            "clean" => server.kill().await.unwrap(),
            _other => server.stop().await.unwrap(),
        }
    }
}
