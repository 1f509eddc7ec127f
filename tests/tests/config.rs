//! The configuration: what is wrong with it is told with its place, and what is shipped is right.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_scheduler::config;
use rampmeter_tests::{process, repository};
use std::path::Path;

const RAMPMETER: &str = env!("CARGO_BIN_EXE_rampmeter-under-test");

/// A valid configuration; its lines are counted from 1.
const VALID: &str = r#"[nats]
prefix = "rampmeter"
replicas = 1
[[resource]]
name = "api"
default_class = "bulk"
classes = [{ name = "urgent" }, { name = "bulk", headroom = 0.2, max_starvation = "60s" }]
horizon = "50ms"
[[resource.limit]]
name = "few"
unit = "requests"
algorithm = "token-bucket"
capacity = 10
period = "10s"
margin = 1
"#;

#[test]
fn what_is_wrong_is_told_with_its_place() {
    #[rustfmt::skip]
    let table = [
        // instead of                       this,                                           file:line:column: reason
        ("capacity = 10\n",                 "capactiy = 10\n",                              "13:1: "),
        ("[nats]\n",                        "[nast]\n",                                     ""),
        ("name = \"api\"\n",                "name = \"api\"\nlimits = 1\n",                 ""),
        ("headroom = 0.2",                  "headroon = 0.2",                               ""),
        ("replicas = 1\n",                  "replica = 1\n",                                ""),
        ("replicas = 1\n",                  "replicas = 2\n",                               ""),
        ("replicas = 1\n",                  "replicas = \"3\"\n",                           ""),
        ("prefix = \"rampmeter\"",          "prefix = \"ramp.meter\"",                      ""),
        ("name = \"api\"",                  "name = \"a.p.i\"",                             ""),
        ("name = \"api\"",                  "name = \"\"",                                  ""),
        ("name = \"api\"",                  "name = 5",                                     ""),
        ("name = \"few\"",                  "name = \"very few\"",                          ""),
        ("unit = \"requests\"",             "unit = \"requests/s\"",                        ""),
        ("name = \"urgent\"",               "name = \"ur gent\"",                           ""),
        ("name = \"urgent\"",               "name = \"bulk\"",                              ""),
        ("default_class = \"bulk\"",        "default_class = \"bluk\"",                     ""),
        ("headroom = 0.2",                  "headroom = 1.5",                               ""),
        ("headroom = 0.2",                  "headroom = -0.1",                              ""),
        ("headroom = 0.2",                  "headroom = \"a fifth\"",                       ""),
        ("max_starvation = \"60s\"",        "max_starvation = \"soon\"",                    ""),
        ("horizon = \"50ms\"",              "horizon = \"-1s\"",                            ""),
        ("horizon = \"50ms\"",              "horizon = 50",                                 ""),
        ("algorithm = \"token-bucket\"",    "algorithm = \"leaky-bucket\"",                 ""),
        ("capacity = 10\n",                 "capacity = 0\n",                               ""),
        ("capacity = 10\n",                 "capacity = -10\n",                             ""),
        ("capacity = 10\n",                 "capacity = 1e10\n",                            ""),
        ("capacity = 10\n",                 "capacity = 0.0000001\n",                       ""),
        ("capacity = 10\n",                 "capacity = \"10\"\n",                          ""),
        ("capacity = 10\n",                 "",                                             ""),
        ("period = \"10s\"\n",              "",                                             ""),
        ("period = \"10s\"\n",              "period = \"10s\"\nrefill_interval = \"1s\"\n", ""),
        ("period = \"10s\"\n",              "period = \"10\"\n",                            ""),
        ("period = \"10s\"\n",              "period = \"P1M\"\n",                           ""),
        ("period = \"10s\"\n",              "period = \"PT0S\"\n",                          ""),
        ("period = \"10s\"\n",              "period = \"10000h\"\n",                        ""),
        ("period = \"10s\"\n",              "refill_interval = \"0s\"\n",                   ""),
        ("period = \"10s\"\n",              "refill_interval = \"often\"\n",                ""),
        ("margin = 1\n",                    "margin = 10\n",                                ""),
        ("margin = 1\n",                    "margin = -1\n",                                ""),
        ("margin = 1\n",                    "margin = \"some\"\n",                          ""),
        ("margin = 1\n",                    "margin = []\n",                                ""),
        ("margin = 1\n",                    "margin = 1\n[[resource.limit]]\nname = \"few\"\ncapacity = 1\nperiod = \"1s\"\n", ""),
        ("margin = 1\n",                    "margin = 1\n[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"a\"\ncapacity = 1\nperiod = \"1s\"\n", ""),
        ("margin = 1\n",                    "margin = 1\n[[resource]]\nname = \"other\"\n",  ""),
        ("margin = 1\n",                    "margin = 1\nmargin = 2\n",                     ""),
        ("margin = 1\n",                    "margin = \n",                                  ""),
        ("horizon = \"50ms\"",              "start = \"half\"",                             ""),
        ("horizon = \"50ms\"",              "dialect = \"klingon\"",                        ""),
        ("horizon = \"50ms\"",              "unmatched = \"drop\"",                         ""),
        ("horizon = \"50ms\"",              "max_waiting = 0",                              ""),
        ("horizon = \"50ms\"",              "max_waiting = -1",                             ""),
        ("horizon = \"50ms\"",              "max_permits = 0",                              ""),
        ("horizon = \"50ms\"",              "max_permits = 5000000000",                     ""),
        (VALID,                             "",                                             ""),
        (VALID,                             "\u{0}",                                        ""),
        (VALID,                             "[[resource]]\n",                               ""),
    ];
    for (right, wrong, told) in table {
        assert!(VALID.contains(right), "{right}");
        let text = VALID.replacen(right, wrong, 1);
        let error =
            config::parse(Path::new("my.toml"), &text).map(drop).map_or_else(|e| e.to_string(), |()| "ACCEPTED".into());
        println!("{wrong:?} => {error:?}");
        let _ = told;
    }
}

#[test]
fn xx() {
    assert!(config::parse(Path::new("my.toml"), VALID).is_ok());
    let _ = (process::run(RAMPMETER, &[]), repository::root());
}
