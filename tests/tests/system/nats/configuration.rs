//! The shipped configuration of nats-server. It is valid, requires every secret, and keeps what it
//! acknowledges. Three nodes with it are a cluster on which a scheduler can lead.

use crate::prelude::*;
use rampmeter_nats_server::Binary;
use rampmeter_tests::cluster::Seat;
use rampmeter_tests::repository::file;
use std::net::Ipv4Addr;

/// A seat for a node that never runs.
fn seat() -> Seat {
    let routes = [1, 2, 3].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    Seat { name: "node".to_owned(), listen: routes[0], routes }
}

/// The server's complaint about a configuration, if there is one.
async fn fault(configuration: &Path, variables: &[(String, String)]) -> Option<String> {
    let binary = Binary::find().await.unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(binary.path());
    command.arg("-t").arg("-c").arg(configuration).stdin(Stdio::null()).kill_on_drop(true);
    command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
    let output = within("a check", command.output()).await.unwrap();
    (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn every_file_is_valid_and_wants_all_its_variables() {
    let store = ("NATS_STORE".to_owned(), "/nowhere".to_owned());
    let of_one = [vec![store.clone()], shipped::passwords()].concat();
    let of_jobs = [vec![store.clone()], shipped::passwords_with_jobs()].concat();
    let of_three = [vec![store], shipped::variables(&seat())].concat();
    let with_jobs = shipped::folder_with_jobs("");
    let table = [
        (shipped::path("single.conf"), of_one),
        (with_jobs.path().join("single.conf"), of_jobs),
        (shipped::path("cluster.conf"), of_three),
        (shipped::path("../compose/nats.conf"), vec![]),
    ];
    for (path, variables) in table {
        let name = path.display();
        assert_eq!(fault(&path, &variables).await, None, "{name}");
        for missing in 0..variables.len() {
            let mut variables = variables.clone();
            let (variable, _) = variables.remove(missing);
            let fault = fault(&path, &variables).await.unwrap_or_else(|| panic!("{name} is valid without {variable}"));
            assert!(fault.contains(&format!("'{variable}'")), "{fault}");
        }
    }
}

#[test]
fn the_readme_tells_every_variable() {
    let readme = file("deploy/README.md").unwrap().text;
    let variables = [shipped::variables(&seat()), shipped::passwords_with_jobs()].concat();
    let variables = variables.into_iter().map(|(name, _)| name);
    for name in variables.chain(["NATS_STORE".to_owned()]) {
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
}

async fn check_that_writes_are_synced(server: &Server) {
    let jsz = format!("{}/jsz?config=true", server.monitor().expect("a monitoring port"));
    let jsz: Value = http().get(jsz).send().await.unwrap().json().await.unwrap();
    assert_eq!(jsz["config"]["sync_always"], true, "{jsz}");
    let store = jsz["config"]["store_dir"].as_str().unwrap();
    assert!(Path::new(store).starts_with(server.store()), "{store}");
}

#[tokio::test]
async fn one_node_has_every_write_on_disk_before_it_acknowledges_it() {
    check_that_writes_are_synced(&shipped::single().await).await;
}

/// A node's answer to another that has no password.
async fn welcome(seat: &Seat) -> String {
    let mut route = TcpStream::connect(seat.listen).await.unwrap();
    route.write_all(b"CONNECT {\"name\":\"stranger\",\"cluster\":\"rampmeter\"}\r\nPING\r\n").await.unwrap();
    let mut said = Vec::new();
    within("the connection is closed", route.read_to_end(&mut said)).await.ok();
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn three_nodes_keep_three_replicas_and_let_no_stranger_in() {
    let cluster = shipped::cluster().await;
    for node in cluster.nodes() {
        check_that_writes_are_synced(node).await;
    }
    for seat in cluster.seats() {
        let said = welcome(seat).await;
        assert!(said.contains("Authorization Violation"), "{said}");
    }

    let urls = cluster.nodes().each_ref().map(|node| shipped::url(node, "scheduler")).join(",");
    let text = shipped::configuration(&urls, HUNDRED).replace("[nats]", "[nats]\nreplicas = 3");
    let scheduler = scheduler::start_by(&text).await;

    let client = shipped::login("scheduler").connect(cluster.urls().as_slice()).await.unwrap();
    let state = nats::bucket_of(&client).await.status().await.unwrap();
    assert_eq!(state.info.config.num_replicas, NODES);
    let worker = Client::builder().options(shipped::login("worker")).inbox_prefix("_INBOX_worker");
    let worker = worker.connect(cluster.nodes()[1].url()).await.unwrap();
    let permit = within("a permit", worker.resource("hub").unwrap().acquire(1).into_future()).await.unwrap();
    permit.begin().settle(Outcome::status(200));
    worker.close().await;
    scheduler::stop(scheduler).await;
}
