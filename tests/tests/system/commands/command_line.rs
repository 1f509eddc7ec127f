//! The `rampmeter` command: what it prints and how it ends.

use crate::prelude::*;

const HUB: &str = "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 4\nperiod = \"1s\"\n";

/// Exit code, standard output, standard error.
async fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    process::said(RAMPMETER, arguments).await
}

/// Options that many commands share stand below the command's own ones.
#[tokio::test]
async fn help_begins_with_what_is_the_commands_own() {
    let (_, help, _) = run(&["purge", "--help"]).await;
    let places = ["--dry-run", "\nConnection:\n", "--nats", "\nLog:\n", "--log-format"].map(|part| help.find(part));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{help}");
    let (_, overview, _) = run(&["--help"]).await;
    for part in ["Set the levels of limits to zero", "Exit codes:", "the command line is wrong"] {
        assert!(overview.contains(part), "{overview}");
    }
}

#[tokio::test]
async fn shells_complete_and_man_shows_each_command() {
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef rampmeter"), ("fish", "complete -c rampmeter")] {
        let (code, script, _) = run(&["completions", shell]).await;
        assert!(code == Some(0) && script.contains(part) && script.contains("doctor"), "{script}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, _, error) = run(&["man", folder.path().to_str().unwrap()]).await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(folder.path().join("rampmeter-state-init.1")).unwrap();
    assert!(page.contains("Write even if a scheduler leads the resource"), "{page}");
    let (code, page, _) = run(&["man"]).await;
    assert!(code == Some(0) && page.contains("Exit codes:"), "{page}");
}

#[tokio::test]
async fn check_tells_faults_and_resources_as_json() {
    let wrong = format!("[nats]\nurll = \"\"\n{}", HUB.replace("capacity = 4", "capacity = -4"));
    #[rustfmt::skip]
    let table = [
        (HUB, Some(0), json!({"valid": true, "notes": [], "resources": [
            {"name": "hub", "limits": ["few"], "classes": [], "provider": null}]})),
        (&wrong, Some(1), json!({"valid": false, "faults": [
            {"line": 2, "column": 1, "reason": "unknown field `urll`; did you mean `url`?"},
            {"line": 7, "column": 12, "reason": "an amount is a number from 0 to 1e9, not -4e0"}]})),
    ];
    for (text, expected_code, expected) in table {
        let (code, output, _) = run(&["check", "--json", file_with(text).path().to_str().unwrap()]).await;
        let output: Value = serde_json::from_str(&output).unwrap();
        assert_eq!((code, output), (expected_code, expected));
    }
}

#[tokio::test]
async fn the_demo_says_what_it_does_and_what_to_do_next() {
    let (code, output, progress) = run(&["demo", "--seconds", "2", "--workers", "20"]).await;
    assert_eq!(code, Some(0), "{progress}");
    assert!(progress.starts_with("20 workers call an API that allows"), "{progress}");
    let (table, next) = output.split_once("\nWhat next:\n").expect("what to do next");
    assert!(table.contains("with permits"), "{output}");
    assert!(next.contains("rampmeter-under-test check --print-default > rampmeter.toml"), "{output}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{output}");
}

#[tokio::test]
async fn the_demo_has_a_page_while_it_runs_and_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let (opener, opened) = (folder.path().join("xdg-open"), folder.path().join("opened"));
    std::fs::write(&opener, format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display())).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let running = tokio::spawn(async move {
        process::run_in(RAMPMETER, &["demo", "--seconds", "3", "--workers", "5", "--open"], &[("PATH", &path)]).await
    });
    let url =
        until("a browser is opened", async || std::fs::read_to_string(&opened).ok().filter(|url| url.ends_with('\n')));
    let url = url.await;
    let (address, resource) = url.trim().split_once("/#/resource/").unwrap();
    assert_eq!((scheduler::get(address).await.0, resource), (200, "demo"));
    let ended = running.await.unwrap();
    let progress = String::from_utf8(ended.stderr).unwrap();
    assert!(
        ended.status.success() && progress.contains(&format!("as long as the demo runs: {}", url.trim())),
        "{progress}"
    );
}

#[tokio::test]
async fn wrong_usage_and_failure_differ() {
    for arguments in [vec![], vec!["sreve"], vec!["serve", "--confg", "x"], vec!["status", "two words"]] {
        let (code, output, error) = run(&arguments).await;
        assert_eq!((code, output.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(error.contains("Usage: ") || error.contains("--help"), "{error}");
    }
    let (code, version, _) = run(&["--version"]).await;
    assert_eq!((code, version), (Some(0), format!("rampmeter {}\n", env!("CARGO_PKG_VERSION"))));
}

/// A sliding window never lends what a class leaves to more urgent ones.
#[tokio::test]
async fn check_tells_what_headroom_takes_for_good() {
    for (algorithm, is_told) in [("sliding-window", true), ("token-bucket", false), ("fixed-window", false)] {
        let text = format!(
            "[[resource]]\nname = \"hub\"\nclasses = [{{ name = \"urgent\" }}, {{ name = \"bulk\", headroom = 0.2 }}]\n\
             [[resource.limit]]\nname = \"per-10s\"\nalgorithm = \"{algorithm}\"\ncapacity = 200\nperiod = \"10s\"\n"
        );
        let (code, output, _) = run(&["check", file_with(&text).path().to_str().unwrap()]).await;
        let note = "note: resource `hub`: class `bulk` gets 20 % less of `per-10s` for good";
        assert_eq!((code, output.contains(note)), (Some(0), is_told), "{algorithm}: {output}");
    }
}

#[tokio::test]
async fn check_tells_what_is_configured() {
    let notes = HUB.replace("[[resource.limit]]", "unmatched = \"refuse\"\n[[resource.limit]]");
    let valid = file_with(&notes);
    let path = valid.path().to_str().unwrap();
    let (code, output, error) = run(&["check", "--config", path]).await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(output.contains("note: resource `hub`: `unmatched` has no effect, because"), "{output}");
    assert!(output.contains("resource `hub`: 1 limit, 1 class"), "{output}");
    assert!(output.ends_with(&format!("{path}: valid\n")), "{output}");
}

#[tokio::test]
async fn check_tells_the_place_of_a_fault() {
    let wrong = file_with(HUB.replace("capacity = 4", "capacity = -4"));
    let path = wrong.path().to_str().unwrap();
    for command in ["check", "serve"] {
        let (code, output, error) = run(&[command, "--config", path]).await;
        assert_eq!((code, output.as_str()), (Some(1), ""));
        let expected = format!("rampmeter: {path}:5:12: an amount is a number from 0 to 1e9, not -4e0\n");
        assert_eq!(error, expected);
    }
    let (code, _, error) = run(&["check", "--config", "/nowhere/rampmeter.toml"]).await;
    assert_eq!(code, Some(1));
    let expected = "rampmeter: /nowhere/rampmeter.toml: can't be read; `rampmeter check --print-default` prints one \
                    to start from: No such file or directory (os error 2)\n";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn an_unknown_name_is_answered_with_the_known_ones() {
    let text = file_with("hello");
    let body = text.path().to_str().unwrap();
    let scenarios = format!("{}/../simulator/scenarios/", env!("CARGO_MANIFEST_DIR"));
    #[rustfmt::skip]
    let table = [
        (vec!["simulate".to_owned(), format!("{scenarios}saturatde.toml")], vec!["saturatde.toml: this scenario can't be read: No such file", "saturated.toml`", "; did you mean `saturated`?"]),
        (vec!["simulate".to_owned(), "nosuch".to_owned()],                  vec!["nosuch: this scenario can't be read: No such file", "scenarios"]),
        (["pu", "--body", body].map(str::to_owned).to_vec(),                vec!["the body is no JSON, from line 1, column 1 on; pass the body of a request to Sentinel Hub"]),
    ];
    for (arguments, expected) in table {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, _, error) = run(&arguments).await;
        assert_eq!(code, Some(1), "{arguments:?}");
        for part in expected {
            assert!(error.contains(part), "{arguments:?} without `{part}`:\n{error}");
        }
    }
}

#[tokio::test]
async fn the_printed_default_is_the_one_that_is_shipped_and_is_valid() {
    let shipped = repository::file("deploy/rampmeter.toml").unwrap().text;
    let (code, printed, error) = run(&["check", "--print-default"]).await;
    assert_eq!((code, printed.as_str(), error.as_str()), (Some(0), shipped.as_str(), ""));
    let (code, _, error) = run(&["check", "--config", file_with(&printed).path().to_str().unwrap()]).await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn serve_says_what_keeps_it_from_starting() {
    let mut gone = nats::start().await;
    gone.stop().await.unwrap();
    let config = file_with(scheduler::configuration(gone.url(), HUB));
    let (code, _, error) = run(&["serve", "--config", config.path().to_str().unwrap()]).await;
    assert_eq!(code, Some(1));
    let said = format!("rampmeter: no NATS server answers at {}; start one, or use --embedded-nats: ", gone.url());
    assert_eq!(error, said + "IO error: Connection refused (os error 111)\n", "each cause once");

    let (nats, running) = scheduler::alone(HUB).await;
    let taken = running.http().unwrap().to_string();
    let config = file_with(scheduler::configuration(nats.url(), HUB));
    let (code, _, error) = run(&["serve", "--config", config.path().to_str().unwrap(), "--listen", &taken]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains(&format!("`http.listen`: can't listen at {taken}")), "{error}");
}
