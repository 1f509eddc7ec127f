//! The table of docs/http.md says by which path a limit or a route matches each spelling.

use crate::prelude::*;
use rampmeter_config::{LabelSource, OriginSettings};
use rampmeter_proxy::Settings;
use rampmeter_proxy::route::{Route, Routes};
use rampmeter_proxy::settings::Asking;
use rampmeter_tests::front::check;
use rampmeter_tests::http_proxy::{raw, settings};

/// Each spelling of the table, and the path that it counts as; nothing if it is refused.
fn table() -> Vec<(String, Option<String>)> {
    let page = repository::file("docs/http.md").unwrap().text;
    let (_, table) = page.split_once("| path | counts as |\n|---|---|\n").unwrap();
    let rows = table.lines().map_while(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "));
    let rows: Vec<_> = rows
        .map(|(written, outcome)| {
            let path = (outcome != "400").then(|| outcome.trim_matches('`').to_owned());
            (written.to_owned(), path)
        })
        .collect();
    assert!(rows.len() > 12, "{rows:?}");
    rows
}

#[tokio::test]
async fn a_spelling_counts_for_check_as_the_table_says() {
    let nats = nats::start().await;
    let check = check("api").replace("[http.check.labels]", "normalise = true\n[http.check.labels]");
    let front = Front::start(&nats, &check, &few(100, "1s")).await;
    let origin = OriginSettings {
        trusted_proxies: vec!["127.0.0.1/32".parse().unwrap()],
        trusted_hops: None,
        normalise: true,
        labels: vec![("route".to_owned(), LabelSource::Path)],
    };
    for (written, path) in table() {
        let request = http::Request::get("/check").header("x-original-uri", &written).body(()).unwrap();
        let labels = rampmeter_front::labels(&request.into_parts().0, [127, 0, 0, 1].into(), &origin);
        assert_eq!(labels.ok().and_then(|labels| labels.get("route").map(str::to_owned)), path, "{written}");
        let status = front.get("/check", &[("x-original-uri", &written)]).await.status;
        assert_eq!(status, if path.is_some() { 200 } else { 400 }, "{written}");
    }
}

#[tokio::test]
async fn a_spelling_takes_the_route_of_a_proxy_that_the_table_says() {
    let paths: BTreeSet<String> = table().into_iter().filter_map(|(_, path)| path).collect();
    let route = |path: &String| Route {
        methods: Vec::new(),
        host: None,
        path: path.parse().unwrap(),
        class: None,
        labels: Vec::new(),
        cost: Vec::new(),
    };
    let upstream = RawUpstream::start([]).await;
    let asking =
        Asking { routes: Routes::new(paths.iter().map(route).collect()), normalise: true, ..Asking::default() };
    let proxy = HttpProxy::start_with(AMPLE, Settings { asking, ..settings(&upstream.url()) }).await;
    let mut passed = BTreeMap::new();
    for (written, path) in table() {
        let head = format!("GET {written} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let answer = within("it is answered", raw(proxy.address(), head.as_bytes(), |_| false)).await;
        let status = if path.is_some() { "200" } else { "400" };
        assert_eq!(answer.split(' ').nth(1), Some(status), "{written}: {answer}");
        path.into_iter().for_each(|path| *passed.entry(path).or_insert(0) += 1);
    }
    for (path, count) in passed {
        let line =
            format!("rampmeter_proxy_requests_total{{route=\"{path}\",class=\"default\",end=\"forwarded\"}} {count}");
        proxy.until_metric(&line).await;
    }
    let sent = upstream.requests().iter().filter(|request| request.starts_with("GET /%74iles ")).count();
    assert_eq!(sent, 1, "the upstream gets a path as it was written");
}
