//! `rampmeter init NAME` and `rampmeter proxy`, with nothing else.

use crate::prelude::*;
use rampmeter_tests::raw_upstream::with_status;
use rampmeter_upstream::Preset;

/// The proxy with the preset as it is printed, in front of `upstream`.
async fn proxy(preset: &str, upstream: &str) -> ProxyProcess {
    let text = process::printed(RAMPMETER, &["init", preset]).await.unwrap();
    ProxyProcess::start(RAMPMETER, &format!("[http]\nlisten = \"\"\n{text}"), &["--upstream", upstream], &[]).await
}

/// An upstream with the presets of the simulator. Every path below `/process` is a call, whose query
/// names the labels.
async fn known(preset: Preset) -> Upstream {
    Upstream::start(Config::of(preset)).await.unwrap()
}

/// Makes a call, and says how long its answer took.
async fn timed(request: reqwest::RequestBuilder) -> Duration {
    let clock = Clock::start();
    assert_eq!(request.send().await.unwrap().status(), 200);
    clock.now().since(Clock::START).duration()
}

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
    let proxy = proxy("github", &upstream.url()).await;
    timed(http().post(format!("{}/graphql", proxy.url())).body("{}")).await;
    let search = || http().get(format!("{}/search/issues?q=a", proxy.url())).send();
    assert_eq!(search().await.unwrap().status(), 403);
    let held = tokio::spawn(search());
    for number in 0..20 {
        let took = timed(http().get(format!("{}/repos/a/b/issues/{number}", proxy.url()))).await;
        assert!(took < Duration::from_secs(2), "core call {number} took {took:?}");
    }
    assert!(!held.is_finished(), "the next search waits for the reset");
    held.abort();
}

#[tokio::test]
async fn the_paths_of_github_tell_its_limits_apart() {
    let upstream = known(Preset::named("github").unwrap()).await;
    let proxy = proxy("github", &format!("{}/process", upstream.url())).await;
    let get = |path: &str| http().get(format!("{}{path}", proxy.url()));
    let calls = |path: &'static str, number: usize| join_all((0..number).map(move |_| timed(get(path))));
    let clock = Clock::start();
    calls("/search/code?api=code_search&q=a", 9).await;
    calls("/search/issues?api=search&q=a", 28).await;
    calls("/repos/a/b", 60).await;
    let took = clock.now().since(Clock::START);
    assert!(took < Span::from_secs(20), "{took:?}");
    // The eleventh search of code in a minute waits, and nothing else waits for it.
    let waiting =
        tokio::spawn(join_all((0..3).map(|_| get("/search/code?api=code_search&q=a").send()).collect::<Vec<_>>()));
    let_pass(Duration::from_millis(300), "a request waits").await;
    assert!(!waiting.is_finished());
    assert!(calls("/repos/a/b", 5).await.iter().all(|took| *took < Duration::from_secs(2)));
    waiting.abort();
    assert_eq!(upstream.stats().total.rate_limited, 0);
}

/// A route that the preset does not list has a bucket of its own, which its answers name. Twelve
/// channels are called far below it and below fifty a second.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "figures, shown with --nocapture")]
async fn an_unlisted_route_of_discord_slows_nothing_down() {
    const OWN: &str =
        "dialect = \"discord\"\n[[limit]]\nname = \"f00d\"\nlimit = \"requests=5/5s;first-use\"\nkey = [\"channel\"]\n";
    let upstream = known(OWN.parse().unwrap()).await;
    let proxy = proxy("discord", &format!("{}/process", upstream.url())).await;
    let in_turn = |channel: usize| {
        let url = format!("{}/api/v10/channels/{channel}/pins?channel={channel}", proxy.url());
        async move {
            let mut slowest = Duration::ZERO;
            for _ in 0..8 {
                slowest = slowest.max(timed(http().get(&url)).await);
                let_pass(Duration::from_millis(1250), "a channel is called now and then").await;
            }
            slowest
        }
    };
    let slowest = join_all((0..12).map(in_turn)).await;
    println!("waits of an unlisted route: {slowest:?}");
    assert_eq!(upstream.stats().total.ok, 96);
    assert!(slowest.iter().all(|wait| *wait < Duration::from_millis(700)), "{slowest:?}");
}
