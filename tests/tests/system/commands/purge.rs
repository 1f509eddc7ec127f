//! `rampmeter purge`

use crate::prelude::*;

async fn purge(nats: &Server, arguments: &[&str]) -> Result<String, String> {
    printed_at(nats, &[&["purge"], arguments].concat()).await
}

#[tokio::test]
async fn it_ends_the_waits_of_a_client_of_a_class_and_of_all() {
    let (nats, _running, worker) = Worker::beside_scheduler(SHARED).await;
    worker.ask(json!({ "cost": { "requests": 4 } })).await;
    let asked = |id: &str, client: &str, class: &str| {
        json!({ "id": id, "mode": "wait", "labels": { "client": client }, "class": class }).to_string()
    };
    let mut waiting = Vec::new();
    for (id, client, class) in [("1", "a", "bulk"), ("2", "a", "urgent"), ("3", "b", "bulk"), ("4", "c", "urgent")] {
        waiting.push(worker.send("permit", asked(id, client, class)).await);
    }
    worker.until_queued(4).await;

    assert_eq!(purge(&nats, &["hub", "--client", "nobody"]).await.as_deref(), Ok("hub: 0 waits ended\n"));
    let text = purge(&nats, &["hub", "--client", "a", "--class", "bulk", "--json"]).await.unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer, json!({ "resource": "hub", "epoch": 1, "ended": 1 }));
    assert_eq!(purge(&nats, &["hub", "--class", "bulk"]).await.as_deref(), Ok("hub: 1 wait ended\n"));
    assert_eq!(purge(&nats, &["hub"]).await.as_deref(), Ok("hub: 2 waits ended\n"));

    for answers in &mut waiting {
        let refused = answers.next().await;
        let header = |name: &str| refused.headers.as_ref().unwrap().get(name).map(ToString::to_string);
        assert_eq!(header("Nats-Service-Error-Code").as_deref(), Some("409"));
        let refused = body(&refused);
        assert_eq!((&refused["status"], &refused["code"]), (&json!("refused"), &json!("purged")), "{refused}");
        assert_eq!(refused.get("retry_after_ms"), None, "coming back is the worker's decision");
    }
}

/// Of each command that takes something away, what `--dry-run` and a terminal read of it.
#[tokio::test]
async fn it_is_said_before_it_is_done_and_asked_at_a_terminal() {
    let (nats, _running, worker) = Worker::beside_scheduler(SHARED).await;
    worker.ask(json!({ "cost": { "requests": 1 } })).await;
    #[rustfmt::skip]
    let table = [
        (vec!["purge", "hub"],                            "end 0 waits of `hub`"),
        (vec!["purge", "hub", "--client", "a"],           "end the waits of client `a` among 0 waits of `hub`"),
        (vec!["freeze", "hub", "--for", "2s"],            "pause few (3 of 4 left) of `hub` for 2 s"),
        (vec!["empty", "hub", "few"],                     "set to zero few (3 of 4 left) of `hub`"),
    ];
    for (command, deed) in table {
        let would = printed_at(&nats, &[&*command, &["--dry-run"]].concat()).await;
        assert_eq!(would, Ok(format!("would {deed}\n")), "{command:?}");
        let declined = at_terminal(&nats, &command, "n\n").await;
        assert!(declined.contains(&format!("This will {deed}. Go on? [y/N] ")), "{declined}");
        assert!(declined.contains("rampmeter: nothing was done"), "{declined}");
    }
    assert!(worker.status().await.limits[0].level >= 3.0, "nothing was done");
    assert!(!at_terminal(&nats, &["empty", "hub", "few", "--yes"], "").await.contains("Go on?"));
    assert!(at_terminal(&nats, &["purge", "hub"], "y\n").await.contains("hub: 0 waits ended"));
    let unknown = printed_at(&nats, &["empty", "hub", "fwe", "--dry-run"]).await.unwrap_err();
    assert!(unknown.contains("`hub` has no such limit"), "{unknown}");
    assert!(worker.status().await.limits[0].level < 0.1);
}

/// What a terminal shows of a command whose user types this.
async fn at_terminal(nats: &Server, arguments: &[&str], typed: &str) -> String {
    let command = [&[RAMPMETER], arguments, &["--nats", nats.url()]].concat().join(" ");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).kill_on_drop(true);
    let mut terminal = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keyboard = terminal.stdin.take().unwrap();
    keyboard.write_all(typed.as_bytes()).await.unwrap();
    let shown = within("the command's end", terminal.wait_with_output()).await.unwrap().stdout;
    drop(keyboard);
    String::from_utf8(shown).unwrap()
}

#[tokio::test]
async fn an_acquire_that_is_purged_fails_and_is_not_asked_again() {
    let (nats, _running, worker) = Worker::beside_scheduler(SHARED).await;
    worker.ask(json!({ "cost": { "requests": 4 } })).await;
    let client = Client::connect(nats.url()).await.unwrap();
    let acquiring = tokio::spawn(client.resource("hub").unwrap().acquire(1).into_future());
    worker.until_queued(1).await;
    assert_eq!(purge(&nats, &["hub"]).await.as_deref(), Ok("hub: 1 wait ended\n"));
    let error = within("an answer", acquiring).await.unwrap().expect_err("it is given up");
    assert_eq!((error.kind(), error.retry_after()), (ErrorKind::Refused(Code::Purged), None), "{error}");
    worker.until_queued(0).await;
}

#[tokio::test]
async fn what_cannot_be_purged_is_said() {
    let (nats, _running) = scheduler::alone(SHARED).await;
    let table: [(&[&str], &str); 4] = [
        (&["nowhere"], "no running scheduler owns resource `nowhere`"),
        (&["hub", "--class", "urgnt"], "`class`: no such class; there are `urgent`, `bulk`"),
        (&["other", "--client", "a"], "`client`: the resource has no `fair_share`"),
        (&["no such name"], "invalid value"),
    ];
    for (arguments, expected) in table {
        let errors = purge(&nats, arguments).await.unwrap_err();
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
    let worker = Worker::connect(&nats, "hub").await;
    for wrong in [r#"{"klass": "bulk"}"#, "[]", "nonsense"] {
        let refused = body(&worker.request("purge", wrong).await);
        assert_eq!(refused["code"], "invalid_request", "{wrong}: {refused}");
    }
}

/// Purges come faster than they end. All are answered, and no more than 16 wait for their turn.
///
/// Reaches `purges::MAX_PURGES`.
#[tokio::test]
async fn purges_beyond_the_bound_are_refused() {
    const ORDERS: usize = 1000;
    let (_nats, _running, worker) = Worker::beside_scheduler(SHARED).await;
    let mut answers = worker.send("purge", "").await;
    for _ in 1..ORDERS {
        worker.send_also(&answers, "purge", "").await;
    }
    let (mut done, mut refused) = (0, 0);
    for _ in 0..ORDERS {
        let answer = answers.body().await;
        match answer["code"].as_str() {
            None => done += 1,
            Some("queue_full") => {
                refused += 1;
                let expected = "16 orders to end waits are being carried out; ask again later";
                assert_eq!(answer["message"], expected);
            }
            Some(_) => panic!("{answer}"),
        }
    }
    assert!(done >= 16 && refused > 0, "{done} are carried out, {refused} are refused");
}

/// Nearly all places in line. A client that holds many places does not get the last free ones.
const MANY: usize = 99_000;

#[allow(clippy::print_stdout, reason = "what was measured, with --nocapture")]
async fn ends_many() -> Result<(), String> {
    let (_nats, _running, worker) = Worker::beside_scheduler(SHARED).await;
    worker.ask(json!({ "cost": { "requests": 4 } })).await;
    // A client may hold at most four times as many places as are free, so there are a hundred.
    let asked = |number: usize| json!({ "mode": "wait", "labels": { "client": (number % 100).to_string() } });
    let array = Value::Array((0..1000).map(asked).collect()).to_string();
    let answers = worker.send("permit", array.clone()).await;
    for _ in 1..MANY / 1000 {
        worker.send_also(&answers, "permit", array.clone()).await;
    }
    worker.until_queued(MANY as u64).await;
    let clock = Clock::start();
    let purged = body(&worker.request("purge", "").await);
    let took = clock.now().since(Clock::START);
    println!("{MANY} waits ended in {took}");
    assert_eq!(purged["ended"], MANY);
    in_time("all waits", took, Span::from_secs(5))
}

#[tokio::test]
async fn nearly_all_waits_that_there_can_be_are_ended_soon() {
    undisturbed(ends_many).await;
}
