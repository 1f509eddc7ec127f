//! `rampmeter init NAME` and `rampmeter proxy`, with nothing else.

use crate::prelude::*;
use rampmeter_tests::raw_upstream::with_status;

/// An answer with these headers, a line each.
fn answer(status: &str, headers: &str) -> Act {
    let headers: String = headers.lines().map(|header| format!("{}\r\n", header.trim())).collect();
    Act::Say(with_status(status, &headers, ""))
}

#[tokio::test]
async fn what_github_says_of_other_apis_does_not_stop_rest() {
    let (soon, reset) = (unix_ms() / 1000 + 40, unix_ms() / 1000 + 3000);
    let spent = format!(
        "x-ratelimit-limit: 5000\nx-ratelimit-used: 4996\nx-ratelimit-remaining: 4\nx-ratelimit-reset: {reset}\nx-ratelimit-resource: graphql"
    );
    let searched = format!(
        "x-ratelimit-limit: 30\nx-ratelimit-used: 30\nx-ratelimit-remaining: 0\nx-ratelimit-reset: {soon}\nx-ratelimit-resource: search"
    );
    let upstream = RawUpstream::start([answer("200 OK", &spent), answer("403 Forbidden", &searched)]).await;
    let preset = process::printed(RAMPMETER, &["init", "github"]).await.unwrap();
    let text = format!("[http]\nlisten = \"\"\n{preset}");
    let proxy = ProxyProcess::start(RAMPMETER, &text, &["--upstream", &upstream.url()], &[]).await;
    http().post(format!("{}/graphql", proxy.url())).body("{}").send().await.unwrap();
    let search = || http().get(format!("{}/search/issues?q=a", proxy.url())).send();
    assert_eq!(search().await.unwrap().status(), 403);
    let held = tokio::spawn(search());
    for number in 0..20 {
        let core = http().get(format!("{}/repos/a/b/issues/{number}", proxy.url())).timeout(Duration::from_secs(2));
        assert_eq!(core.send().await.expect("a core call takes no time").status(), 200, "{number}");
    }
    assert!(!held.is_finished(), "the next search waits for the reset");
    held.abort();
}
