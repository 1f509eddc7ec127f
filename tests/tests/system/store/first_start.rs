//! Thirty resources start on a new store while clients ask: the first permits come soon, and limits
//! start as configured.

use crate::prelude::*;

const RESOURCES: usize = 30;
const CAPACITY: f64 = 50.0;
/// A leader of a new store listens for 0.27 s, in case that workers know of another store.
const LISTENS: Span = Span::from_millis(270);
/// From the end of listening to the permit.
const LONGEST: Span = Span::from_millis(300);

fn name(number: usize) -> String {
    format!("api-{number}")
}

fn resources() -> String {
    let resource = |number| {
        let name = name(number);
        format!(
            "[[resource]]\nname = \"{name}\"\nlimit = [{{ name = \"few\", capacity = {CAPACITY}, period = \"500s\", margin = 0 }}]\n"
        )
    };
    (0..RESOURCES).map(resource).collect()
}

/// How long a permit takes, from the time at which a scheduler announces that it listens.
async fn first_permit(nats: &Server, client: &Client, number: usize) -> Span {
    let mut news = nats::connect(nats).await.subscribe(format!("rampmeter.event.{}", name(number))).await.unwrap();
    let resource = client.resource(&name(number)).unwrap();
    let permit = async { within("a permit", resource.acquire(1).into_future()).await.unwrap().begin() };
    let (call, begun) = tokio::join!(permit, async {
        within("a leader", news.next()).await.unwrap();
        Clock::start()
    });
    let took = begun.now().since(Clock::START);
    drop(call);
    took
}

/// Clients repeat their requests with the epoch that this leader has announced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_thirty_resources_while_clients_ask() {
    undisturbed(async || {
        let nats = nats::start().await;
        let clients = join_all((0..3).map(|_| Client::connect(nats.url()))).await;
        let clients: Vec<Client> = clients.into_iter().map(Result::unwrap).collect();
        let asks = (0..RESOURCES).map(|number| first_permit(&nats, &clients[number % clients.len()], number));
        let resources = resources();
        let process = Process::start(RAMPMETER, &nats, &resources);
        let (process, took) = tokio::join!(process, join_all(asks));
        let log = process.log();
        let trouble = |line: &&str| line.contains("\"ERROR\"") || line.contains("\"WARN\"");
        let is_known = |line: &str| line.contains("the state is not signed");
        assert!(log.lines().filter(trouble).all(is_known), "{log}");
        for number in 0..RESOURCES {
            let level = Worker::connect(&nats, &name(number)).await.limit("few").await.level;
            assert!((CAPACITY - 1.0..CAPACITY - 0.5).contains(&level), "{level}");
        }
        in_time("the slowest first permit", took.into_iter().max().unwrap(), LISTENS + LONGEST)
    })
    .await;
}
