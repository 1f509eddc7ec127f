//! What a request through the proxy costs: by its body, by a header, or by nothing at all while no
//! scheduler answers.

use crate::prelude::*;
use rampmeter_proxy::settings::Asking;
use rampmeter_tests::http_proxy::settings;

/// A hundred units, which do not come back while the test runs.
const UNITS: &str = "[[resource]]\nname = \"api\"\nstart = \"full\"\nuncounted = \"allow\"\n\
    [[resource.limit]]\nname = \"units\"\nunit = \"processing-units\"\ncapacity = 100\nperiod = \"8760h\"\nmargin = 0\n";

/// A body whose request costs 20.345053 processing units, as the page of prices says.
const BODY: &str = r#"{
    "input": { "data": [{ "type": "sentinel-1-grd", "processing": { "orthorectify": true } }] },
    "output": { "width": 2000, "height": 2000, "responses": [{ "format": { "type": "image/tiff" } }] },
    "evalscript": "//VERSION=3\nfunction setup() { return { input: ['VV', 'VH'], output: { bands: 2, sampleType: 'UINT16' } } }"
}"#;

/// What is left of the units, in whole numbers.
async fn left(worker: &Worker) -> i64 {
    worker.limit("units").await.level.round() as i64
}

/// The service's own examples write truth values as texts. A body that is not understood costs what its route
/// says, or one unit if that says nothing, and shows.
#[tokio::test]
async fn a_request_to_sentinel_hub_costs_what_its_body_says() {
    let (nats, upstream) = (nats::start().await, RawUpstream::start([]).await);
    let _running = scheduler::start(&nats, UNITS).await;
    let worker = Worker::connect(&nats, "api").await;
    let text = format!("[[proxy]]\nupstream = \"{}\"\nresource = \"api\"\nprice = \"sentinel-hub\"\n", upstream.url());
    let start =
        async |more: &str| ProxyProcess::start(RAMPMETER, &format!("{text}{more}"), &["--nats", nats.url()], &[]).await;
    let post = async |proxy: &ProxyProcess, path: &str, body: &str| {
        let sent = http().post(format!("{}{path}", proxy.url())).body(body.to_owned()).send();
        (sent.await.unwrap().status().as_u16(), left(&worker).await)
    };
    let routed = start("[[proxy.route]]\npath = \"/api/v1/process\"\ncost = { processing-units = 5 }\n").await;
    assert_eq!(post(&routed, "/api/v1/process", BODY).await, (200, 80));
    assert!(upstream.requests()[0].ends_with(BODY));
    assert_eq!(post(&routed, "/api/v1/process", "no body of Sentinel Hub").await, (200, 75));
    assert_eq!(post(&routed, "/api/v1/catalog/search", BODY).await, (200, 75));
    // Bodies that tell a cost are kept whole.
    let proxy = start("replay_bytes = 100\n").await;
    let as_text = BODY.replace("\"orthorectify\": true", "\"orthorectify\": \"true\"");
    assert_eq!(post(&proxy, "/api/v1/process", &(" ".repeat(500_000) + &as_text)).await, (200, 54));
    assert!(!proxy.log().contains("does not tell"), "{}", proxy.log());
    let wrong = BODY.replace("2000", "\"wide\"");
    for left in [53, 52] {
        assert_eq!(post(&proxy, "/api/v1/process", &wrong).await, (200, left));
    }
    assert_eq!(proxy.log().matches("a body does not tell what its request costs").count(), 1, "{}", proxy.log());
    assert!(!proxy.log().contains("wide"), "{}", proxy.log());
    let refusing = start("on_unpriced = \"refuse\"\n").await;
    assert_eq!(post(&refusing, "/api/v1/process", &wrong).await, (422, 52));
}

#[tokio::test]
async fn a_client_may_state_what_its_request_costs() {
    let upstream = RawUpstream::start([]).await;
    let headers = vec![("processing-units".to_owned(), "x-units".parse().unwrap())];
    let asking = Asking { cost_headers: headers, ..Asking::default() };
    let proxy = HttpProxy::start_with(UNITS, rampmeter_proxy::Settings { asking, ..settings(&upstream.url()) }).await;
    let worker = Worker::connect(&proxy.nats, "api").await;
    let get = async |amounts: &[&str]| {
        let request = http().get(proxy.url("/"));
        let request = amounts.iter().fold(request, |request, amount| request.header("x-units", *amount));
        (request.send().await.unwrap().status().as_u16(), left(&worker).await)
    };
    assert_eq!(get(&["30"]).await, (200, 70));
    assert_eq!(get(&["9.5"]).await, (200, 61));
    for wrong in [&["many"][..], &["1", "1"], &["-1"], &["NaN"], &[""]] {
        assert_eq!(get(wrong).await, (400, 61), "{wrong:?}");
    }
    assert_eq!(get(&["1000"]).await, (422, 61));
    assert_eq!(get(&[]).await, (200, 61));
}

#[tokio::test]
async fn a_route_costs_what_a_query_or_a_header_states() {
    let (nats, upstream) = (nats::start().await, RawUpstream::start([]).await);
    let keyed = UNITS.replace("margin = 0\n", "margin = 0\nkey = [\"client\"]\nmatch = { client = \"a b\" }\n");
    let _running = scheduler::start(&nats, &keyed).await;
    let worker = Worker::connect(&nats, "api").await;
    let text = format!(
        "[[proxy]]\nupstream = \"{}\"\nresource = \"api\"\n\
         [[proxy.route]]\npath = \"/tiles/*\"\nlabels = {{ client = \"query:key\" }}\n\
         cost = {{ processing-units = {{ from = \"query:units\", default = 5, min = 2, max = 40 }} }}\n\
         [[proxy.route]]\npath = \"/strict\"\nlabels = {{ client = \"a b\" }}\ncost = {{ processing-units = \"header:x-units\" }}\n",
        upstream.url()
    );
    let proxy = ProxyProcess::start(RAMPMETER, &text, &["--nats", nats.url()], &[]).await;
    let get = async |target: &str, headers: &[&str]| {
        let request = http().get(format!("{}{target}", proxy.url()));
        let request = headers.iter().fold(request, |request, amount| request.header("x-units", *amount));
        let answered = request.send().await.unwrap();
        let status = answered.status().as_u16();
        (status, left(&worker).await, answered.text().await.unwrap())
    };
    #[rustfmt::skip]
    let table = [
        // the target, its header, the status, what is left of the units, and the reason
        ("/tiles/1?units=7&key=a%20b",              &[][..],        200, 93, ""),
        ("/tiles/1?key=a+b",                        &[],            200, 88, ""),
        ("/tiles/1?key=a+b&units=1e6",              &[],            200, 48, ""),
        ("/tiles/1?key=a+b&units=all",              &[],            400, 48, "`units` is not readable: it has no amount, such as 2.5"),
        ("/tiles/1?key=a+b&units=3&key=c",          &[],            400, 48, "`key` is in the query more than once"),
        ("/tiles/1?units=3",                        &[],            200, 48, ""),
        ("/strict?x-units=9",                       &[],            400, 48, "`x-units` is missing, and says what the request costs; the cost has no `default`"),
        ("/strict",                                 &["1", "4"],    200, 44, ""),
    ];
    for (target, headers, status, left, reason) in table {
        let (found, still, text) = get(target, headers).await;
        assert_eq!((found, still), (status, left), "{target}: {text}");
        assert!(text.contains(reason), "{target}: {text}");
    }
}

/// The note is in `check`, in the log, and in the status; a route with a cost ends it.
#[tokio::test]
async fn a_unit_that_no_route_costs_is_told() {
    let note = "no route of this proxy costs `processing-units`, which `units` limits";
    let (nats, upstream) = (nats::start().await, RawUpstream::start([]).await);
    let limits = format!("{UNITS}[[resource.limit]]\nname = \"calls\"\ncapacity = 100\nperiod = \"1s\"\n");
    let proxy = format!("[[proxy]]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"\n", upstream.url());
    let process = Process::start(RAMPMETER, &nats, &format!("{proxy}{limits}")).await;
    assert_eq!(process.log().matches(note).count(), 1, "{}", process.log());
    let worker = Worker::connect(&nats, "api").await;
    let notes = worker.status().await.notes;
    assert!(notes.len() == 1 && notes[0].contains(note), "{notes:?}");
    let status = process::printed(RAMPMETER, &["status", "--nats", nats.url()]).await.unwrap();
    assert!(status.contains(note), "{status}");
    process.stop().await;
    let route = "[[proxy.route]]\npath = \"/*\"\n";
    for (more, is_told) in [
        ("", true),
        (route, true),
        ("cost_headers = { processing-units = \"x-units\" }\n", false),
        ("price = \"sentinel-hub\"\n", false),
        (&*format!("{route}cost = {{ processing-units = \"query:units\" }}\n"), false),
    ] {
        let file = file_with(format!("{proxy}{more}{limits}"));
        let said = process::printed(RAMPMETER, &["check", file.path().to_str().unwrap()]).await.unwrap();
        assert_eq!(said.contains(note), is_told, "{more}: {said}");
    }
}

#[tokio::test]
async fn while_no_scheduler_answers_requests_may_go_at_a_safe_rate() {
    let (nats, upstream) = (nats::start().await, RawUpstream::start([]).await);
    let text = format!(
        "[[proxy]]\nupstream = \"{}\"\nresource = \"api\"\non_unavailable = \"safe-rate\"\nsafe_rate = \"5/1s\"\n",
        upstream.url()
    );
    let proxy = ProxyProcess::start(RAMPMETER, &text, &["--nats", nats.url()], &[]).await;
    let (clock, mut begun) = (Clock::start(), None);
    for _ in 0..6 {
        let answered = within("an answer", http().get(proxy.url()).send()).await.unwrap();
        assert_eq!(answered.status(), 200);
        begun.get_or_insert_with(|| clock.now());
    }
    let took = clock.now().since(begun.unwrap());
    assert!(took >= Span::from_millis(950), "six calls in {took}");
}
