//! `rampmeter doctor` in drills: a fault is planted in a pair of schedulers with workers under load,
//! and is named first or second. It says nothing of pairs without a fault.

use crate::prelude::*;
use rampmeter_tests::pair::Member;
use rampmeter_tests::rules;

/// How long a planted fault may stay unnamed.
const NAMED_WITHIN: Duration = Duration::from_secs(30);
/// How far down the list a planted fault may be: what follows from it may come first.
const FIRST_TWO: usize = 2;

/// A resource that the upstream of [`Ward::of_fifty`] serves in full.
const FIFTY: &str = r#"
[[resource]]
name = "hub"
limit = [{ name = "calls", capacity = 50, period = "2s" }]
"#;

/// The same, read as the upstream writes: waits in milliseconds, and what calls took.
fn fifty_in_milliseconds() -> String {
    FIFTY.replace("limit =", "dialect = \"sentinel-hub\"\nlimit =")
}

/// A pair of schedulers, an upstream, and workers.
struct Ward {
    nats: Server,
    pair: Pair,
    upstream: Upstream,
    workers: JoinSet<()>,
}

/// What a worker does again and again.
#[derive(Clone)]
struct Shift {
    asks: BTreeMap<&'static str, f64>,
    /// What the upstream charges, beside one request.
    costs: BTreeMap<&'static str, f64>,
    class: Option<&'static str>,
    rests: Duration,
}

impl Default for Shift {
    fn default() -> Self {
        let asks = BTreeMap::from([("requests", 1.0)]);
        Shift { asks, costs: BTreeMap::new(), class: None, rests: Duration::from_millis(20) }
    }
}

impl Ward {
    /// A pair that has this file in common.
    async fn start(file: &str, upstream: Upstream) -> Self {
        Self::with_files([file, file], upstream).await
    }

    async fn of_fifty(file: &str) -> Self {
        Self::start(file, upstream(&["requests=50/2s"]).await).await
    }

    async fn with_files(files: [&str; 2], upstream: Upstream) -> Self {
        let nats = nats::start().await;
        let files = files.map(|file| scheduler::configuration(nats.url(), file));
        let pair = Pair::start(RAMPMETER, [&files[0], &files[1]]).await;
        standby_is_known(&nats).await;
        Ward { nats, pair, upstream, workers: JoinSet::new() }
    }

    /// Starts workers who ask for permits, call, and settle.
    async fn work(&mut self, workers: usize, shift: Shift) {
        let client = Client::connect(self.nats.url()).await.unwrap();
        for _ in 0..workers {
            let (resource, api, shift) = (client.resource("hub").unwrap(), Api::new(&self.upstream), shift.clone());
            self.workers.spawn(async move {
                loop {
                    let cost = shift.asks.iter().fold(Cost::default(), |cost, (unit, amount)| cost.and(unit, *amount));
                    let asked = resource.acquire(cost);
                    let asked = shift.class.into_iter().fold(asked, |asked, class| asked.class(class));
                    // A refusal is what some of these drills are about.
                    asked.run(|| api.call(&shift.costs)).await.ok();
                    let_pass(shift.rests, "a worker rests").await;
                }
            });
        }
    }

    /// Waits until this many permits were granted.
    async fn granted(&self, least: u64) {
        let worker = Worker::connect(&self.nats, "hub").await;
        until("there is load", async || (worker.status_of_leader().await.counters.granted >= least).then_some(()))
            .await;
    }

    /// Checks that the doctor names one of these faults first or second.
    async fn suffers_from(&self, faults: &[&str]) {
        assert_named(faults, &["--nats", self.nats.url()]).await;
    }
}

/// Waits until the leader has heard of the scheduler that stands by, which it asks for now and then.
async fn standby_is_known(nats: &Server) {
    let worker = Worker::connect(nats, "hub").await;
    let known = async || (worker.status_of_leader().await.standbys == Some(1)).then_some(());
    until("the standby is known", known).await;
}

/// The findings of the doctor with these arguments, by name, and all that it says.
async fn findings(arguments: &[&str]) -> (Vec<String>, String) {
    let (code, said, errors) = process::said(RAMPMETER, &[&["doctor", "--json"], arguments].concat()).await;
    let page: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}{errors}"));
    let findings = page["findings"].as_array().unwrap();
    let is_healthy = findings.is_empty();
    assert_eq!((code, &page["healthy"]), (Some(i32::from(!is_healthy)), &json!(is_healthy)), "{said}");
    (findings.iter().map(|finding| finding["fault"].as_str().unwrap().to_owned()).collect(), said)
}

async fn assert_named(faults: &[&str], arguments: &[&str]) {
    let mut last = String::new();
    let looking = async {
        loop {
            let (found, said) = findings(arguments).await;
            if found.iter().take(FIRST_TWO).any(|found| faults.contains(&&**found)) {
                return;
            }
            last = said;
        }
    };
    let looked = tokio::time::timeout(NAMED_WITHIN, looking).await;
    assert!(looked.is_ok(), "{faults:?} was not named first or second: {last}");
}

/// Checks that the doctor has nothing to say.
async fn is_healthy(arguments: &[&str]) -> Result<(), String> {
    let (found, said) = findings(arguments).await;
    if found.is_empty() { Ok(()) } else { Err(said) }
}

#[tokio::test]
async fn nats_is_away() {
    let mut nats = nats::start().await;
    nats.stop().await.unwrap();
    assert_named(&["nats-unreachable"], &["--nats", nats.url()]).await;
}

#[tokio::test]
async fn a_user_without_its_inbox() {
    let nats = shipped::single().await;
    let _process =
        Process::start_with(RAMPMETER, &shipped::configuration(&shipped::url(&nats, "scheduler"), FIFTY), &[]).await;
    let url = shipped::url(&nats, "operator");
    assert_named(&["nats-denied"], &["--nats", &url]).await;
    assert_named(&["no-standby"], &["--nats", &url, "--inbox-prefix", "_INBOX_operator"]).await;
    let of_worker = shipped::url(&nats, "worker");
    assert_named(&["nats-denied"], &["--nats", &of_worker, "--inbox-prefix", "_INBOX_worker"]).await;
}

#[tokio::test]
async fn no_scheduler_and_no_standby() {
    let mut ward = Ward::of_fifty(FIFTY).await;
    ward.work(5, Shift::default()).await;
    ward.granted(10).await;
    ward.pair.process_mut(Member::FIRST).kill().await;
    ward.suffers_from(&["no-standby"]).await;
    ward.pair.process_mut(Member::FIRST.other()).kill().await;
    ward.suffers_from(&["no-scheduler"]).await;
}

#[tokio::test]
async fn two_files() {
    let files = [FIFTY, &FIFTY.replace("50", "40")];
    let mut ward = Ward::with_files(files, upstream(&["requests=50/2s"]).await).await;
    ward.work(5, Shift::default()).await;
    ward.suffers_from(&["schedulers-differ"]).await;
}

#[tokio::test]
async fn rules_that_the_file_does_not_have_and_a_file_that_cannot_be_read() {
    let mut ward = Ward::of_fifty(FIFTY).await;
    ward.work(5, Shift::default()).await;
    assert_eq!(rules::apply(RAMPMETER, &ward.nats, &FIFTY.replace("50", "30"), &[]).await.0, Some(0));
    let file = file_with(FIFTY);
    let arguments = ["--nats", ward.nats.url(), "--config", file.path().to_str().unwrap()];
    assert_named(&["file-differs"], &arguments).await;
    assert!(findings(&arguments).await.1.contains("`calls` is 50 per 2 s in the file, and 30 per 2 s counts"));
    rules::put_by_hand(&ward.nats, "[[resource]]\nname = 5\n").await;
    assert_named(&["rules-refused"], &arguments).await;
    let tokens = "[http]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"/nowhere/tokens.toml\"\n";
    std::fs::write(file.path(), format!("{tokens}{FIFTY}")).unwrap();
    assert_named(&["file-invalid"], &arguments).await;
    assert!(findings(&arguments).await.1.contains("/nowhere/tokens.toml"));
}

#[tokio::test]
async fn a_clock_that_is_fast() {
    let nats = nats::start().await;
    let file = scheduler::configuration(nats.url(), FIFTY);
    let pair = Pair::start_by([40, 40], RAMPMETER, &file).await;
    let mut ward = Ward { nats, pair, upstream: upstream(&["requests=50/2s"]).await, workers: JoinSet::new() };
    ward.work(5, Shift::default()).await;
    ward.suffers_from(&["clock-differs"]).await;
}

#[tokio::test]
async fn a_limit_ten_times_too_high_and_one_too_low() {
    for (written, fault) in [("500", "limit-above-stated"), ("20", "limit-below-stated")] {
        let file = FIFTY.replace("50", written);
        let mut ward = Ward::start(&file, upstream_with(&["requests=50/2s"], Dialect::Ietf).await).await;
        ward.work(20, Shift::default()).await;
        ward.suffers_from(&[fault]).await;
    }
}

/// Declares a drill for each name: another limit beside that of [`FIFTY`], and its fault.
macro_rules! drills {
    ($($name:ident: $limit:literal, $fault:literal;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let mut ward = Ward::of_fifty(&FIFTY.replace("}]", concat!("}, { ", $limit, " }]"))).await;
            ward.work(5, Shift::default()).await;
            ward.suffers_from(&[$fault]).await;
        })*
    };
}

drills! {
    a_unit_that_no_call_costs: r#"name = "units", unit = "units", capacity = 90, period = "1s""#, "unit-without-cost";
    a_key_that_no_call_carries: r#"name = "team", key = ["team"], capacity = 90, period = "1s""#, "label-missing";
    a_spent_quota: r#"name = "month", algorithm = "quota", capacity = 40, resets = "month""#, "quota-spent";
    a_forgotten_shadow: r#"name = "try", capacity = 5, period = "9s", shadow = true"#, "limit-in-shadow";
}

#[tokio::test]
async fn an_urgent_flood() {
    let file = FIFTY.replace("limit =", "classes = [{ name = \"urgent\" }, { name = \"bulk\" }]\nlimit =");
    let mut ward = Ward::of_fifty(&file).await;
    let of = |class| Shift { class: Some(class), rests: Duration::ZERO, ..Shift::default() };
    ward.work(60, of("urgent")).await;
    ward.granted(100).await;
    ward.work(3, of("bulk")).await;
    ward.suffers_from(&["class-starves"]).await;
}

#[tokio::test]
async fn a_limit_far_above_what_the_upstream_allows() {
    let mut ward = Ward::start(&fifty_in_milliseconds(), upstream(&["requests=10/2s;sliding-window"]).await).await;
    ward.work(10, Shift::default()).await;
    ward.suffers_from(&["limit-too-high", "rejected-limit-too-high"]).await;
}

#[tokio::test]
async fn strangers_on_the_account() {
    let mut ward = Ward::of_fifty(&fifty_in_milliseconds()).await;
    ward.work(10, Shift::default()).await;
    let stranger = Api::new(&ward.upstream);
    ward.workers.spawn(async move {
        loop {
            stranger.call(&BTreeMap::new()).await.ok();
            let_pass(Duration::from_millis(110), "the stranger takes a third of the account").await;
        }
    });
    ward.suffers_from(&["rejected-strangers", "rate-below-written"]).await;
}

#[tokio::test]
async fn calls_that_cost_more_than_their_permits() {
    let units = r#"}, { name = "units", unit = "processing-units", capacity = 60, period = "2s" }]"#;
    let file = fifty_in_milliseconds().replace("}]", units);
    let mut ward = Ward::start(&file, upstream(&["requests=500/2s", "processing-units=60/2s"]).await).await;
    let asks = BTreeMap::from([("requests", 1.0), ("processing-units", 1.0)]);
    ward.work(40, Shift { asks, costs: BTreeMap::from([("processing-units", 30.0)]), ..Shift::default() }).await;
    ward.suffers_from(&["rejected-ours"]).await;
}

#[tokio::test]
async fn a_forgotten_pause() {
    let mut ward = Ward::of_fifty(FIFTY).await;
    ward.work(5, Shift::default()).await;
    ward.granted(10).await;
    let order = ["freeze", "hub", "--for", "10m", "--nats", ward.nats.url()];
    process::printed(RAMPMETER, &order).await.unwrap();
    ward.suffers_from(&["paused-by-operator"]).await;
    let text = process::said(RAMPMETER, &["doctor", "--nats", ward.nats.url()]).await;
    let page = "1. hub: an operator has paused `calls` [standstill]\n   seen: for ";
    assert!(text.0 == Some(1) && text.1.starts_with(page) && text.2.is_empty(), "{text:?}");
    assert!(text.1.contains("\n   mend: rampmeter thaw hub calls\n") && !text.1.contains('\x1b'), "{text:?}");
}

#[tokio::test]
async fn a_worker_that_never_settles() {
    let limit = "}, { name = \"places\", algorithm = \"concurrency\", capacity = 4, time_to_live = \"1s\" }]";
    let mut ward = Ward::of_fifty(&FIFTY.replace("}]", limit)).await;
    let worker = Worker::connect(&ward.nats, "hub").await;
    ward.workers.spawn(async move {
        loop {
            worker.ask(json!({"mode": "wait"})).await;
            let_pass(Duration::from_millis(20), "the call takes its time").await;
        }
    });
    ward.suffers_from(&["calls-unsettled"]).await;
}

#[tokio::test]
async fn more_requests_than_may_wait() {
    let mut ward = Ward::of_fifty(&FIFTY.replace("limit =", "max_waiting = 5\nlimit =")).await;
    ward.work(60, Shift { rests: Duration::from_millis(200), ..Shift::default() }).await;
    ward.suffers_from(&["queue-full"]).await;
}

#[tokio::test]
async fn an_unreadable_header() {
    let mut ward = Ward::of_fifty(FIFTY).await;
    ward.work(5, Shift::default()).await;
    let worker = Worker::connect(&ward.nats, "hub").await;
    worker.ask(json!({"id": "a"})).await;
    let response = json!({"status": 200, "headers": {"x-ratelimit-remaining": "plenty"}});
    worker.settle(json!({"id": "a", "response": response})).await;
    ward.suffers_from(&["header-unreadable"]).await;
}

/// Limits that the upstream keeps, each in a pair of its own.
#[rustfmt::skip]
const HEALTHY: [(&str, &str, &str); 7] = [
    // the limit, more of it and of the resource, and what the upstream enforces
    ("capacity = 40, period = \"1s\"",                                      "",         "requests=40/1s"),
    ("capacity = 40, period = \"1s\", algorithm = \"sliding-window\"",      "",         "requests=40/1s;sliding-window"),
    ("capacity = 40, period = \"1s\", algorithm = \"fixed-window\"",        "",         "requests=40/1s;fixed-window"),
    ("capacity = 20, time_to_live = \"9s\", algorithm = \"concurrency\"",   "",         "requests=1000/1s"),
    ("capacity = 100000, resets = \"month\", algorithm = \"quota\"",        "",         "requests=1000/1s"),
    ("capacity = 40, period = \"1s\"",                                      CLASSES,    "requests=40/1s"),
    ("capacity = 40, period = \"1s\" }, { name = \"many\", capacity = 100, period = \"4s\"", "", "requests=40/1s"),
];
const CLASSES: &str = "classes = [{ name = \"urgent\" }, { name = \"bulk\", headroom = 0.2 }]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_said_of_healthy_pairs() {
    for (limit, more, policy) in HEALTHY {
        undisturbed(async || {
            let resource = format!("[[resource]]\nname = \"hub\"\n{more}limit = [{{ name = \"few\", {limit} }}]\n");
            // Another resource, which nobody calls.
            let file = format!("{resource}{}", resource.replace("hub", "idle"));
            let mut ward = Ward::start(&file, upstream(&[policy]).await).await;
            ward.work(8, Shift::default()).await;
            ward.granted(150).await;
            let config = file_with(&file);
            let arguments = ["--nats", ward.nats.url(), "--config", config.path().to_str().unwrap()];
            is_healthy(&arguments).await.map_err(|said| format!("{limit}: {said}"))
        })
        .await;
    }
}

#[tokio::test]
async fn nothing_is_said_of_clients_over_http() {
    let ward = Ward::of_fifty(FIFTY).await;
    let url = ward.pair.process(Member::FIRST).http().unwrap();
    let post = async |path: &str, body: Value| {
        let answer = http().post(format!("{url}{path}")).json(&body).send().await.unwrap();
        answer.json::<Value>().await.unwrap()
    };
    for _ in 0..30 {
        let permit = post("/v1/permit/hub", json!({})).await;
        assert_eq!(permit["status"], "granted", "{permit}");
        post("/v1/settle/hub", json!({"id": permit["id"], "response": {"status": 200}})).await;
    }
    is_healthy(&["--nats", ward.nats.url()]).await.unwrap();
    let text = process::printed(RAMPMETER, &["doctor", "hub", "--nats", ward.nats.url()]).await;
    assert_eq!(text, Ok("nothing is wrong\n".to_owned()));
}

#[tokio::test]
async fn nothing_is_said_of_a_preset_of_a_service() {
    let preset = process::printed(RAMPMETER, &["init", "github"]).await.unwrap().replace("\"github\"", "\"hub\"");
    let preset = preset.replace("dialect = \"hub\"", "dialect = \"github\"");
    let nats = nats::start().await;
    let file = format!("[nats]\nurl = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n{preset}", nats.url());
    let _pair = Pair::start(RAMPMETER, [&file, &file]).await;
    standby_is_known(&nats).await;
    let worker = Worker::connect(&nats, "hub").await;
    for number in 0..30 {
        let (id, cost) = (number.to_string(), json!({"requests": 1, "points": 1}));
        let permit = worker.ask(json!({"id": id, "cost": cost, "mode": "wait"})).await;
        assert_eq!(permit["status"], "granted", "{permit}");
        worker.settle(json!({"id": id, "response": {"status": 200}})).await;
    }
    is_healthy(&["--config", file_with(&file).path().to_str().unwrap()]).await.unwrap();
}

#[tokio::test]
async fn nothing_is_said_of_a_proxy_with_a_server_of_its_own() {
    let upstream = upstream(&["requests=1000/1s"]).await;
    let file = format!("[http]\nlisten = \"\"\n{FIFTY}");
    let proxy = ProxyProcess::start(RAMPMETER, &file, &["--upstream", &upstream.url()], &[]).await;
    for _ in 0..30 {
        assert_eq!(http().get(format!("{}/process", proxy.url())).send().await.unwrap().status(), 200);
    }
    let url = std::fs::read_to_string(proxy.data().join("nats-url")).unwrap();
    is_healthy(&["--nats", url.trim()]).await.unwrap();
}
