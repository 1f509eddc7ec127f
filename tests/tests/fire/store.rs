//! The store is taken away, emptied, filled, or put back in time. No second burst follows.

use crate::prelude::*;
use async_nats::jetstream::stream;
use rampmeter_nats_server::Binary;
use rampmeter_tests::drill::{SLOW, hub};

/// The stream behind the KV bucket.
const STREAM: &str = "KV_rampmeter";
/// The server's configuration in all these tests.
const CONFIGURATION: &str = "jetstream { store_dir: $NATS_STORE }\n";
/// Several times as long as any grant budget lasts.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// A server whose configuration can be changed, and a scheduler under load.
struct Stage {
    nats: Server,
    configuration: TempDir,
    process: Process,
    drill: Drill,
}

impl Stage {
    async fn start(run: Run) -> Self {
        let configuration = tempfile::tempdir().unwrap();
        let file = configuration.path().join("nats.conf");
        std::fs::write(&file, CONFIGURATION).unwrap();
        let binary = Binary::find().await.unwrap();
        let options = Options { configuration: Some(file), ..Options::default() };
        let nats = Server::start(&binary, options).await.unwrap();
        let process = Process::start(RAMPMETER, &nats, &hub(SLOW)).await;
        let drill = Drill::begin(run, Plan { period: SLOW, warm: 110, ..plan(nats.url()) }).await;
        Stage { nats, configuration, process, drill }
    }

    async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(nats::connect(&self.nats).await)
    }

    /// Kills the scheduler, so that its successor has only the store.
    async fn replace_scheduler(&mut self) {
        self.process.kill().await;
        self.process.restart();
    }

    /// Adds this to the server's configuration, and restarts it.
    async fn reconfigure_nats(&mut self, more: &str) {
        let file = self.configuration.path().join("nats.conf");
        std::fs::write(file, format!("{CONFIGURATION}{more}")).unwrap();
        self.nats.restart().await.unwrap();
    }

    /// Waits until the scheduler grants again, or says why it does not.
    async fn until_settled(&self) {
        let since = self.drill.now();
        until("the scheduler grants or says why not", async || {
            let body = self.process.readiness().await;
            let why = body.filter(|(status, _)| *status == 503).is_some_and(|(_, body)| has_reason(&body));
            (why || self.drill.witness().first_grant_since(since).is_some()).then_some(())
        })
        .await;
    }

    /// Waits for a burst, which would come at once, and judges.
    async fn check(self) {
        self.until_settled().await;
        let_pass(LONG_ENOUGH, "a second burst would come now").await;
        self.drill.break_off().await.check();
    }
}

fn has_reason(readiness: &Value) -> bool {
    readiness["resources"]["hub"]["reason"].as_str().is_some_and(|reason| !reason.is_empty())
}

/// Checks the effect of `damage` twice: with the leader of before, and with a new one.
async fn check(run: Run, damage: impl AsyncFnOnce(&mut Stage)) {
    let mut stage = Stage::start(run).await;
    damage(&mut stage).await;
    let_pass(LONG_ENOUGH, "the leader finds out, or works on").await;
    stage.replace_scheduler().await;
    stage.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bucket_is_deleted() {
    let delete = async |stage: &mut Stage| {
        stage.jetstream().await.delete_key_value("rampmeter").await.unwrap();
    };
    check(Run::of("store::the_bucket_is_deleted"), delete).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bucket_is_purged() {
    let purge = async |stage: &mut Stage| {
        let stream = stage.jetstream().await.get_stream(STREAM).await.unwrap();
        stream.purge().await.unwrap();
    };
    check(Run::of("store::the_bucket_is_purged"), purge).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bucket_is_full() {
    let fill = async |stage: &mut Stage| {
        let jetstream = stage.jetstream().await;
        let config = jetstream.get_stream(STREAM).await.unwrap().cached_info().config.clone();
        // The stream holds more than that already.
        jetstream.update_stream(stream::Config { max_bytes: 1, ..config }).await.unwrap();
    };
    check(Run::of("store::the_bucket_is_full"), fill).await;
}

/// The store has no record of what was granted meanwhile, when writes are allowed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_denied() {
    let mut stage = Stage::start(Run::of("store::writes_are_denied")).await;
    let user = "{user: all, password: all, permissions: {publish: {deny: \"$KV.>\"}}}";
    stage.reconfigure_nats(&format!("no_auth_user: all\nauthorization {{ users: [{user}] }}\n")).await;
    let_pass(LONG_ENOUGH, "the leader finds out, or works on").await;
    stage.process.kill().await;
    stage.reconfigure_nats("").await;
    stage.process.restart();
    stage.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jetstream_is_empty_after_a_restart() {
    let lose = async |stage: &mut Stage| {
        stage.nats.kill().await.unwrap();
        std::fs::remove_dir_all(stage.nats.store()).unwrap();
        stage.nats.restart().await.unwrap();
    };
    check(Run::of("store::jetstream_is_empty_after_a_restart"), lose).await;
}

/// A copy of the server's data.
async fn back_up(stage: &mut Stage) -> TempDir {
    let kept = nats::back_up(&mut stage.nats).await;
    stage.drill.until_made(10).await;
    kept
}

/// The leader lives on, and knows more than the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_data_come_back_under_a_leader() {
    let mut stage = Stage::start(Run::of("store::old_data_come_back_under_a_leader")).await;
    let kept = back_up(&mut stage).await;
    let_pass(LONG_ENOUGH, "the data grow old").await;
    nats::put_back(&mut stage.nats, &kept).await;
    stage.check().await;
}

/// Only the workers know of the leaders that the data lack.
async fn old_data_come_back_without_a_leader(run: Run, leaders_between: usize) {
    let mut stage = Stage::start(run).await;
    let kept = back_up(&mut stage).await;
    for _ in 0..leaders_between {
        stage.replace_scheduler().await;
        stage.process.until_ready().await;
        stage.drill.until_made(10).await;
    }
    stage.process.kill().await;
    nats::put_back(&mut stage.nats, &kept).await;
    stage.process.restart();
    stage.check().await;
}

drills! { "store"
    old_data_come_back_and_their_writer_led_on(run): old_data_come_back_without_a_leader(run, 0);
    old_data_come_back_and_one_other_has_led(run): old_data_come_back_without_a_leader(run, 1);
    /// Two leaders are one more than the successor's own epoch covers.
    old_data_come_back_and_two_others_have_led(run): old_data_come_back_without_a_leader(run, 2);
}
