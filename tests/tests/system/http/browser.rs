//! Requests that a web page of strangers has a browser send to this host.

use crate::prelude::*;
use rampmeter_tests::front::check;

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_page_of_strangers_gets_no_permit() {
    let (nats, front) = Front::alone("", &few(100, "400h")).await;
    let own = format!("http://{}", front.address());
    #[rustfmt::skip]
    let table = [
        // headers, body, status
        (vec![JSON],                                                            "{}",       200),
        (vec![("content-type", "application/json; charset=utf-8")],             "{}",       200),
        (vec![],                                                                "",         200),
        (vec![JSON, ("origin", own.as_str())],                                  "{}",       200),
        (vec![JSON, ("sec-fetch-site", "same-origin")],                         "{}",       200),
        (vec![],                                                                "{}",       415),
        (vec![("content-type", "text/plain")],                                  "{}",       415),
        (vec![("content-type", "application/x-www-form-urlencoded")],           "{}",       415),
        (vec![JSON, ("origin", "https://page.example")],                        "{}",       403),
        (vec![JSON, ("origin", "null")],                                        "{}",       403),
        (vec![("origin", "https://page.example")],                              "",         403),
        (vec![("sec-fetch-site", "cross-site")],                                "",         403),
        (vec![JSON, ("host", "rebound.example")],                               "{}",       421),
    ];
    for (headers, body, status) in &table {
        let response = front.post_with("/v1/permit/api", headers, *body).await;
        assert_eq!(response.status, *status, "{headers:?}: {response:?}");
        let settled = front.post_with("/v1/settle/api", headers, *body).await;
        let settle_status = if *status == 200 { 400 } else { *status };
        assert_eq!(settled.status, settle_status, "{headers:?}: a settle needs an id: {settled:?}");
    }
    let granted = table.iter().filter(|(.., status)| *status == 200).count();
    let counted = Worker::connect(&nats, "api").await.status().await.counters.granted;
    assert_eq!(usize::try_from(counted).unwrap(), granted, "a refused page is charged for nothing");
}

#[tokio::test]
async fn a_name_that_was_made_to_lead_here_reads_nothing() {
    let nats = nats::start().await;
    let with_check = format!("hosts = [\"scheduler-a\"]\n{}", check("api"));
    let front = Front::start(&nats, &with_check, &few(100, "400h")).await;
    for page in ["/healthz", "/readyz", "/metrics", "/check", "/elsewhere"] {
        let rebound = front.get(page, &[("host", "rebound.example:9480")]).await;
        let remedy = "`rebound.example` is no name of this server; if it is one, add it to `hosts` in [http]\n";
        assert_eq!((rebound.status, rebound.body.as_str()), (421, Some(remedy)), "{page}");
        let cross_site = front.get(page, &[("sec-fetch-site", "cross-site")]).await;
        assert_eq!(cross_site.status, 403, "{page}");
    }
    for host in ["127.0.0.1:1", "localhost", "[::1]:9480", "scheduler-a:9480"] {
        assert_eq!(front.get("/readyz", &[("host", host)]).await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_proxy_passes_on_where_its_own_client_comes_from() {
    let (_nats, front) = Front::alone(&check("api"), &few(100, "400h")).await;
    let page = [("origin", "https://page.example"), ("sec-fetch-site", "cross-site")];
    let passed_on = [page[0], page[1], ("x-original-uri", "/tiles")];
    assert_eq!(front.get("/check", &passed_on).await.status, 200);
    assert_eq!(front.get("/check", &page).await.status, 403, "no proxy has said anything");
    assert_eq!(front.get("/readyz", &passed_on).await.status, 403, "no proxy asks for this");
}
