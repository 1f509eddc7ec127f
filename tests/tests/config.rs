//! The configuration: what is wrong with it is told with its place, and what is shipped is right.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_scheduler::config;
use std::path::Path;

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
        ("capacity = 10\n",                 "capactiy = 10\n",                              "13:1: unknown field `capactiy`, expected one of `name`, `unit`"),
        ("[nats]\n",                        "[nast]\n",                                     "1:2: unknown field `nast`, expected one of `nats`, `http`, `resource`"),
        ("name = \"api\"\n",                "name = \"api\"\nlimits = 1\n",                 "6:1: unknown field `limits`, expected one of `name`, `unmatched`"),
        ("headroom = 0.2",                  "headroon = 0.2",                               "7:50: unknown field `headroon`, expected one of `name`, `headroom`, `max_starvation`"),
        ("replicas = 1\n",                  "replica = 1\n",                                "3:1: unknown field `replica`, expected one of `url`, `credentials_file`, `prefix`, `replicas`"),
        ("replicas = 1\n",                  "replicas = 2\n",                               "3:12: there can be 1, 3 or 5 replicas, not 2"),
        ("replicas = 1\n",                  "replicas = \"3\"\n",                           "3:12: invalid type: string \"3\""),
        ("prefix = \"rampmeter\"",          "prefix = \"ramp.meter\"",                      "2:10: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
        ("name = \"api\"",                  "name = \"a.p.i\"",                             "5:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
        ("name = \"api\"",                  "name = \"\"",                                  "5:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
        ("name = \"api\"",                  "name = 5",                                     "5:8: invalid type: integer `5`, expected a string"),
        ("name = \"few\"",                  "name = \"very few\"",                          "10:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
        ("unit = \"requests\"",             "unit = \"requests/s\"",                        "11:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
        ("name = \"urgent\"",               "name = \"ur gent\"",                           "7:21: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
        ("name = \"urgent\"",               "name = \"bulk\"",                              "7:40: there are two classes `bulk`"),
        ("default_class = \"bulk\"",        "default_class = \"bluk\"",                     "6:17: there is no class `bluk`"),
        ("headroom = 0.2",                  "headroom = 1.5",                               "7:61: a headroom is a share from 0 to below 1, not 1.5"),
        ("headroom = 0.2",                  "headroom = -0.1",                              "7:61: a headroom is a share from 0 to below 1, not -0.1"),
        ("headroom = 0.2",                  "headroom = \"a fifth\"",                       "7:61: invalid type: string \"a fifth\""),
        ("max_starvation = \"60s\"",        "max_starvation = \"soon\"",                    "7:83: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
        ("horizon = \"50ms\"",              "horizon = \"-1s\"",                            "8:11: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\", and is neither negative nor above 584 years"),
        ("horizon = \"50ms\"",              "horizon = 50",                                 "8:11: invalid type: integer `50`, expected a string"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"leaky-bucket\"",                 "12:13: algorithm `leaky-bucket` is not known; this version knows `token-bucket`"),
        ("capacity = 10\n",                 "capacity = 0\n",                               "13:12: a capacity is above 0"),
        ("capacity = 10\n",                 "capacity = -10\n",                             "13:12: an amount is a number from 0 to 1e9, not -1e1"),
        ("capacity = 10\n",                 "capacity = 1e10\n",                            "13:12: an amount is a number from 0 to 1e9, not 1e10"),
        ("capacity = 10\n",                 "capacity = 0.0000001\n",                       "13:12: an amount has at most 6 decimals, not 0.0000001; round it up"),
        ("capacity = 10\n",                 "capacity = \"10\"\n",                          "13:12: invalid type: string \"10\""),
        ("capacity = 10\n",                 "",                                             "9:1: missing field `capacity`"),
        ("period = \"10s\"\n",              "",                                             "13:12: the limit needs a `period` or a `refill_interval`"),
        ("period = \"10s\"\n",              "period = \"10s\"\nrefill_interval = \"1s\"\n", "15:19: give `period` or `refill_interval`, not both"),
        ("period = \"10s\"\n",              "period = \"10\"\n",                            "14:10: a duration is written as ISO 8601"),
        ("period = \"10s\"\n",              "period = \"P1M\"\n",                           "14:10: a duration is written as ISO 8601"),
        ("period = \"10s\"\n",              "period = \"PT0S\"\n",                          "14:10: a period is above 0 and at most 366 days"),
        ("period = \"10s\"\n",              "period = \"10000h\"\n",                        "14:10: a period is above 0 and at most 366 days"),
        ("period = \"10s\"\n",              "refill_interval = \"0s\"\n",                   "14:19: a period is above 0 and at most 366 days"),
        ("period = \"10s\"\n",              "refill_interval = \"often\"\n",                "14:19: a duration is written as ISO 8601"),
        ("margin = 1\n",                    "margin = 10\n",                                "15:10: a margin is below the capacity of 10"),
        ("margin = 1\n",                    "margin = -1\n",                                "15:10: an amount is a number from 0 to 1e9, not -1e0"),
        ("margin = 1\n",                    "margin = \"some\"\n",                          "15:10: a margin is \"auto\" or a number of tokens"),
        ("margin = 1\n",                    "margin = []\n",                                "15:10: a margin is \"auto\" or a number of tokens"),
        ("margin = 1\n",                    "margin = 1\n[[resource.limit]]\nname = \"few\"\ncapacity = 1\nperiod = \"1s\"\n", "17:8: there are two limits `few`"),
        ("margin = 1\n",                    "margin = 1\n[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"a\"\ncapacity = 1\nperiod = \"1s\"\n", "17:8: there are two resources `api`"),
        ("margin = 1\n",                    "margin = 1\n[[resource]]\nname = \"other\"\n",  "17:8: a resource has 1 to 64 limits"),
        ("margin = 1\n",                    "margin = 1\nmargin = 2\n",                     "16:1: duplicate key"),
        ("margin = 1\n",                    "margin = \n",                                  "15:10: string values must be quoted"),
        ("horizon = \"50ms\"",              "start = \"half\"",                             "8:9: unknown variant `half`, expected `full` or `empty`"),
        ("horizon = \"50ms\"",              "dialect = \"klingon\"",                        "8:11: unknown variant `klingon`, expected one of `sentinel-hub`"),
        ("horizon = \"50ms\"",              "unmatched = \"drop\"",                         "8:13: unknown variant `drop`, expected `allow` or `refuse`"),
        ("horizon = \"50ms\"",              "fair_share = \"\"",                            "8:14: a label's key has 1 to 64 characters"),
        ("horizon = \"50ms\"",              "weights = { a = 3 }",                          "8:17: weights need `fair_share`, the label whose values they are"),
        ("horizon = \"50ms\"",              "fair_share = \"team\"\nweights = { a = 0 }",    "9:17: a weight is from 0.001 to 1e6, not 0"),
        ("horizon = \"50ms\"",              "fair_share = \"team\"\nweights = { a = nan }",  "9:17: a weight is from 0.001 to 1e6, not NaN"),
        ("horizon = \"50ms\"",              "fair_share = \"team\"\nweights = [3]",          "9:11: invalid type: sequence"),
        ("horizon = \"50ms\"",              "max_waiting = 0",                              "8:15: a bound is from 1 to 4294967295"),
        ("horizon = \"50ms\"",              "max_waiting = -1",                             "8:15: invalid value: integer `-1`"),
        ("horizon = \"50ms\"",              "max_permits = 0",                              "8:15: a bound is from 1 to 4294967295"),
        ("horizon = \"50ms\"",              "max_permits = 5000000000",                     "8:15: a bound is from 1 to 4294967295"),
        (VALID,                             "",                                             "1:1: there is no [[resource]]"),
        (VALID,                             "\u{0}",                                        "1:2: key with no value"),
        (VALID,                             "[[resource]]\n",                               "1:1: missing field `name`"),
    ];
    for (right, wrong, told) in table {
        assert!(VALID.contains(right), "{right}");
        let text = VALID.replacen(right, wrong, 1);
        let error = config::parse(Path::new("my.toml"), &text).map(drop).expect_err(wrong).to_string();
        assert!(error.starts_with(&format!("my.toml:{told}")), "{wrong}\n{error}\ninstead of {told}");
    }
}

#[test]
fn what_is_right_is_taken() {
    #[rustfmt::skip]
    let table = [
        ("period = \"10s\"",                "period = \"PT10S\""),
        ("period = \"10s\"",                "period = \"8784h\""),
        ("period = \"10s\"",                "refill_interval = \"250ms\""),
        ("margin = 1\n",                    "margin = \"auto\"\n"),
        ("margin = 1\n",                    "margin = 0.5\n"),
        ("margin = 1\n",                    ""),
        ("unit = \"requests\"\n",           ""),
        ("algorithm = \"token-bucket\"\n",  ""),
        ("capacity = 10\n",                 "capacity = 2.5\n"),
        ("headroom = 0.2",                  "headroom = 0"),
        ("horizon = \"50ms\"",              "start = \"empty\"\ndialect = \"sentinel-hub\"\nunmatched = \"allow\""),
        ("horizon = \"50ms\"",              "fair_share = \"client\"\nweights = { team-a = 3, team-b = 0.5 }"),
        ("horizon = \"50ms\"",              "max_waiting = 1\nmax_permits = 1"),
        ("replicas = 1",                    "replicas = 3\ncredentials_file = \"nats.creds\"\nurl = \"tls://nats:4222\""),
        ("[nats]\n",                        "[http]\nlisten = \"\"\n[nats]\n"),
    ];
    for (right, other) in table {
        let text = VALID.replacen(right, other, 1);
        config::parse(Path::new("my.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

#[test]
fn a_refill_interval_is_a_period_for_one_token() {
    let period_ms = |text: &str| {
        let config = config::parse(Path::new("my.toml"), text).unwrap();
        config.resources[0].limits()[0].period().millis()
    };
    assert_eq!(period_ms(&VALID.replace("period = \"10s\"", "refill_interval = \"60ms\"")), 600.0);
    assert_eq!(period_ms(VALID), 10_000.0);
}
