//! The configuration: faults are reported with their place, and shipped files are valid.

use crate::prelude::*;

/// A valid configuration; its lines count from 1.
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
fn faults_are_reported_with_their_place() {
    let classes: Vec<String> = (0..17).map(|number| format!("{{ name = \"c{number}\" }}")).collect();
    let classes = format!("classes = [{{ name = \"bulk\" }}, {}]", classes.join(", "));
    #[rustfmt::skip]
    let table = [
        // instead of                       this,
        // file:line:column: reason
        ("capacity = 10\n",                 "capactiy = 10\n",                              "13:1: unknown field `capactiy`; did you mean `capacity`?"),
        ("[nats]\n",                        "[nast]\n",                                     "1:2: unknown field `nast`; did you mean `nats`?"),
        ("name = \"api\"\n",                "name = \"api\"\nlimits = 1\n",                 "6:1: unknown field `limits`; did you mean `limit`?"),
        ("replicas = 1\n",                  "user = 1\n",                                  "3:1: unknown field `user`, expected one of `url`, `credentials_file`, `nkey_file`, `tls`, `prefix`, `inbox_prefix`, `inboxes`, `state_key_file`, `replicas`"),
        ("horizon = \"50ms\"",              "uncounted = \"refuze\"",                     "8:13: unknown variant `refuze`; did you mean `refuse`?"),
        ("[[resource.limit]]\n",            "[[limit]]\n",                                 "9:3: unknown field `limit`, expected one of `nats`, `http`, `telemetry`, `proxy`, `resource`; the limits of a resource are [[resource.limit]]"),
        ("replicas = 1\n",                  "tls = { ca = \"a\" }\n",                    "3:9: unknown field `ca`, expected one of `required`, `ca_file`, `cert_file`, `key_file`"),
        ("replicas = 1\n",                  "tls = { cert_file = \"a\" }\n",             "3:7: `cert_file` needs the private key: `key_file`"),
        ("replicas = 1\n",                  "tls = { key_file = \"a\" }\n",              "3:7: `key_file` needs the certificate: `cert_file`"),
        ("replicas = 1\n",                  "replicas = 2\n",                               "3:12: there can be 1, 3 or 5 replicas, not 2"),
        ("prefix = \"rampmeter\"",          "prefix = \"ramp.meter\"",                      "2:10: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
        ("name = \"urgent\"",               "name = \"bulk\"",                              "7:40: there are two classes `bulk`"),
        ("default_class = \"bulk\"",        "default_class = \"bluk\"",                     "6:17: there is no class `bluk`"),
        ("headroom = 0.2",                  "headroom = 1.5",                               "7:61: a headroom is a share from 0 to below 1, not 1.5"),
        ("horizon = \"50ms\"",              "horizon = \"-1s\"",                            "8:11: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\", and is neither negative nor above 584 years"),
        ("capacity = 10\n",                 "capacity = 0\n",                               "13:12: a capacity is above 0"),
        ("capacity = 10\n",                 "capacity = -10\n",                             "13:12: an amount is a number from 0 to 1e9, not -1e1"),
        ("capacity = 10\n",                 "capacity = 0.0000001\n",                       "13:12: an amount has at most 6 decimals, not 0.0000001; round it up"),
        ("capacity = 10\n",                 "",                                             "9:1: missing field `capacity`"),
        ("period = \"10s\"\n",              "",                                             "13:12: the limit needs a `period` or a `refill_interval`"),
        ("period = \"10s\"\n",              "period = \"10s\"\nrefill_interval = \"1s\"\n", "15:19: give `period` or `refill_interval`, not both"),
        ("period = \"10s\"\n",              "period = \"PT0S\"\n",                          "14:10: a period is above 0 and at most 366 days"),
        ("period = \"10s\"\n",              "refill_interval = \"0s\"\n",                   "14:19: a period is above 0 and at most 366 days"),
        ("margin = 1\n",                    "margin = 10\n",                                "15:10: a margin is below the capacity of 10"),
        ("margin = 1\n",                    "margin = \"some\"\n",                          "15:10: a margin is \"auto\" or a number of tokens"),
        ("margin = 1\n",                    "margin = 1\n[[resource.limit]]\nname = \"few\"\ncapacity = 1\nperiod = \"1s\"\n", "17:8: there are two limits `few`"),
        ("margin = 1\n",                    "margin = 1\n[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"a\"\ncapacity = 1\nperiod = \"1s\"\n", "17:8: there are two resources `api`"),
        ("margin = 1\n",                    "margin = 1\n[[resource]]\nname = \"other\"\n",  "17:8: a resource has 1 to 64 limits"),
        ("margin = 1\n",                    "margin = 1\nmargin = 2\n",                     "16:1: duplicate key"),
        ("horizon = \"50ms\"",              "fair_share = \"\"",                            "8:14: a label's key has 1 to 64 characters"),
        ("horizon = \"50ms\"",              "weights = { a = 3 }",                          "8:17: weights need `fair_share`, the label that names clients"),
        ("horizon = \"50ms\"",              "fair_share = \"team\"\nweights = { a = 0 }",    "9:17: a weight is from 0.001 to 1e6, not 0"),
        ("horizon = \"50ms\"",              "fair_share = \"team\"\nweights = { a = nan }",  "9:17: a weight is from 0.001 to 1e6, not NaN"),
        ("horizon = \"50ms\"",              "max_waiting = 0",                              "8:15: a bound is from 1 to 4294967295"),
        ("horizon = \"50ms\"",              "max_permits = 5000000000",                     "8:15: a bound is from 1 to 4294967295"),
        ("horizon = \"50ms\"",              "max_keys = 0",                                 "8:12: a bound is from 1 to 4294967295"),
        ("horizon = \"50ms\"",              "horizon = \"61s\"",                            "8:11: `horizon` is from 0ns to 60s, not 61s"),
        ("horizon = \"50ms\"",              "reservation = \"49ms\"",                        "8:15: `reservation` is from 50ms to 60s, not 49ms"),
        ("horizon = \"50ms\"",              "validity = \"99ms\"",                           "8:12: `validity` is from 100ms to 31622400s, not 99ms"),
        ("horizon = \"50ms\"",              "max_ahead = \"8785h\"",                         "8:13: `max_ahead` is from 0ns to 31622400s, not 31626000s"),
        ("horizon = \"50ms\"",              "discover_key = [\"a\", \"b\", \"c\", \"d\", \"e\"]", "8:16: a key is of at most 4 labels"),
        ("classes = [{ name = \"urgent\" }, { name = \"bulk\", headroom = 0.2, max_starvation = \"60s\" }]", &classes, "7:11: a resource has at most 16 classes"),
        ("margin = 1\n",                    "floor = 0\n",                                  "15:9: a floor is a share of the rate from 0.01 to 1, not 0"),
        ("margin = 1\n",                    "learn = false\nfloor = 0.5\n",                 "16:9: `floor` has no meaning beside `learn = false`"),
        ("horizon = \"50ms\"",              "dialect = \"klingon\"",                        "8:11: there is no dialect `klingon`; there are `sentinel-hub`, `ietf`, `discord`, `openai`, `anthropic`, `github`, `shopify`, `generic`, `plain`"),
        ("horizon = \"50ms\"",              "retry_after_unit = \"minutes\"",              "8:20: `Retry-After` is not in `minutes`, but in `seconds`, `milliseconds`"),
    ];
    check_faults(VALID, &table);
}

#[test]
fn faults_of_a_limit_are_reported_with_their_place() {
    #[rustfmt::skip]
    let table = [
        ("algorithm = \"token-bucket\"",    "algorithm = \"bucket\"",                       "12:13: algorithm `bucket` is not known; there are `token-bucket`, `leaky-bucket`, `fixed-window`, `sliding-window`, `concurrency`, `quota`"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"fixed-window\"\naligned = \"noon\"", "13:11: `noon` is no beginning of a window; there are `epoch`, `first-use`, `day`, `month`"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"fixed-window\"\naligned = \"day\"", "15:10: `period` has no meaning beside the calendar; leave it out"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"fixed-window\"\nresets = \"day\"", "13:10: `resets` is for `algorithm = \"quota\"`; leave it out"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"quota\"\nresets = \"day\"\nzone = \"Berlin\"", "14:8: there is no time zone `Berlin`; zones are called like `Europe/Berlin` or `UTC`"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"quota\"", "13:12: a quota needs `resets`, which says when it is full again: \"day\", \"month\", \"epoch\" or \"first-use\" with a `period`, or \"never\""),
        ("algorithm = \"token-bucket\"",    "algorithm = \"quota\"\nresets = \"noon\"", "13:10: `noon` is no beginning of a window; there are `epoch`, `first-use`, `day`, `month`, `never`"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"quota\"\nresets = \"never\"", "15:10: `period` has no meaning beside a quota that is never reset (`resets` says when one is); leave it out"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"sliding-window\"\nzone = \"UTC\"", "13:8: `zone` is for windows of days and months; leave it out otherwise"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"token-bucket\"\ntime_to_live = \"1s\"", "13:16: `time_to_live` is for `algorithm = \"concurrency\"`; leave it out"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"concurrency\"\ntime_to_live = \"1s\"", "15:10: `period` has no meaning beside `time_to_live`; leave it out"),
        ("algorithm = \"token-bucket\"",    "algorithm = \"sliding-window\"\nrefill_interval = \"1s\"", "13:19: `refill_interval` is for buckets of tokens; give a `period`"),
        ("unit = \"requests\"",             "match = { route = \"^(\" }",                   "11:9: not a regular expression: regex parse error"),
        ("unit = \"requests\"",             "match = { route = 5 }",                        "11:19: a label is matched with a value, a \"prefix*\", a \"^regular expression\" or a list of values"),
        ("unit = \"requests\"",             "match = { route = [] }",                       "11:19: an empty list matches nothing; name the values, or leave the label out"),
        ("unit = \"requests\"",             "key = [\"a\", \"b\", \"c\", \"d\", \"e\"]",        "11:7: a key is of at most 4 labels, not 5"),
        ("unit = \"requests\"",             "key = [\"a\", \"a\"]",                         "11:7: a label is named twice"),
        ("unit = \"requests\"",             "key = [\"\"]",                                 "11:8: a label's key has 1 to 64 characters"),
    ];
    check_faults(VALID, &table);
}

#[test]
fn a_text_that_is_no_configuration_is_refused() {
    #[rustfmt::skip]
    let table = [
        (VALID,                             "",                                             "1:1: there is no [[resource]]"),
        (VALID,                             "\u{0}",                                        "1:2: key with no value"),
        (VALID,                             "[[resource]]\n",                               "1:1: missing field `name`"),
    ];
    check_faults(VALID, &table);
    for (instead, this) in [("capacity = 10\n", ""), ("capacity = 10\n", "capacity = 10\nkey = [5]\n")] {
        let message =
            config::parse(Path::new("rampmeter.toml"), &VALID.replace(instead, this)).unwrap_err().to_string();
        assert_eq!(message.lines().count(), 1, "nothing that follows from it: {message}");
    }
}

#[test]
fn all_faults_are_told_at_once_without_their_consequences() {
    let wrong = r#"[nats]
replicas = 2
[[resource]]
name = "api"
default_class = "bluk"
headroon = 0.2
classes = [{ name = "urgent", headroom = 2 }, { name = "bulk", max_starvation = 60 }]
[[resource.limit]]
name = "few"
capactiy = 10
period = 60
[[resource.limit]]
name = "third"
capacity = 1
period = 60
algorithm = "tokn-bucket"
[[resource.limit]]
name = "more"
capacity = 0
period = "0s"
[[resource.limit]]
name = "more"
capacity = 5
period = "1s"
algorithm = "bucket"
margin = "some"
"#;
    let message = config::parse(Path::new("rampmeter.toml"), wrong).unwrap_err().to_string();
    let expected = [
        "2:12: there can be 1, 3 or 5 replicas, not 2",
        "6:1: unknown field `headroon`, expected one of",
        "7:42: a headroom is a share from 0 to below 1, not 2",
        "7:81: a duration has a unit, such as \"60s\" or \"60ms\"; 60 has none",
        "10:1: unknown field `capactiy`; did you mean `capacity`?",
        "11:10: a duration has a unit, such as \"60s\" or \"60ms\"; 60 has none",
        "15:10: a duration has a unit, such as \"60s\" or \"60ms\"; 60 has none",
        "16:13: algorithm `tokn-bucket` is not known; did you mean `token-bucket`?",
        "19:12: a capacity is above 0",
        "20:10: a period is above 0 and at most 366 days",
        "25:13: algorithm `bucket` is not known; there are",
        "26:10: a margin is \"auto\" or a number of tokens",
    ];
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{message}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("rampmeter.toml:{expected}")), "not {expected}:\n{message}");
    }
}

/// All keys of `[http]`; the lines count from 1.
const HTTP: &str = r#"[http]
listen = "127.0.0.1:0"
token_env = "TOKEN"
max_connections = 100
[http.check]
resource = "api"
class = "bulk"
throttle = "2s"
on_unavailable = "allow"
trusted_proxies = ["127.0.0.1/32", "fd00::/8"]
[http.check.labels]
client = "header:x-api-key"
route = "path"
"#;

/// Reaches `http::MAX_HOSTS` and `http::MaxConnections`.
#[test]
fn faults_of_http_are_reported_with_their_place() {
    let environment = "this is the name of an environment variable, of [A-Za-z0-9_], not its value";
    let host = "a host is one name like \"scheduler-a.internal\", without scheme and port";
    let many_hosts = format!("= 100\nhosts = [{}]", ["\"a\""; 65].join(", "));
    let origin = "a label comes from \"header:NAME\", \"query:KEY\", \"path\", \"method\" or \"client-address\"; \
                  in [[proxy]] also from \"body:KEY\" or \"client-certificate\"";
    let sources = "\"header:NAME\" or \"query:KEY\"";
    let cost = "a cost is a number, \"query:KEY\", \"header:NAME\", or { from = \"query:KEY\", default = 1, min = 1, max = 100 }";
    let many_units: Vec<String> = (0..17).map(|unit| format!("u{unit} = 1")).collect();
    let many_units = format!("cost = {{ {} }}", many_units.join(", "));
    #[rustfmt::skip]
    let table = [
        // instead of                   this,                                       line:column:
        // reason
        ("listen =",                    "listne =",                                 "2:1: unknown field `listne`; did you mean `listen`?"),
        ("\"TOKEN\"",                   "\"my-token\"",                             &format!("3:13: {environment}")),
        ("\"TOKEN\"",                   "\"TOKEN\"\ntoken_file = \"f\"",            "4:14: give one of `token_env`, `token_file` and `tokens_file`"),
        ("\"TOKEN\"",                   "\"TOKEN\"\ntokens_file = \"f\"",           "4:15: give one of `token_env`, `token_file` and `tokens_file`"),
        ("= 100",                       "= 100\nhosts = [\"http://a\"]",           &format!("5:10: {host}")),
        ("= 100",                       "= 100\nhosts = [\"a:9480\"]",             &format!("5:10: {host}")),
        ("= 100",                       "= 100\nhosts = [\"*.example\"]",          &format!("5:10: {host}")),
        ("= 100",                       &many_hosts,                              "5:330: at most 64 hosts"),
        ("\"127.0.0.1:0\"",             "\"9480\"",                                 "2:10: `http.listen`: \"9480\" is no address with a port"),
        ("= 100",                       "= 0",                                      "4:19: this is from 1 to 65535, not 0"),
        ("= 100",                       "= 100000",                                 "4:19: this is from 1 to 65535, not 100000"),
        ("= 100",                       "= 100\nfront = false",                     "6:1: `[http.check]` is part of the front; leave out `front = false`"),
        ("resource = \"api\"\n",        "",                                         "5:1: missing field `resource`"),
        ("\"2s\"",                      "\"2m\"",                                   "8:12: this is from 1ms to 60s, not 120s"),
        ("\"127.0.0.1/32\"",            "\"127.0.0.1/33\"",                         "10:20: a network is written like \"127.0.0.1/32\" or \"fd00::/8\""),
        ("on_unavailable = \"allow\"",  "trusted_hops = 0",                        "9:16: this is from 1 to 16, not 0"),
        ("on_unavailable = \"allow\"",  "trusted_hops = 17",                       "9:16: this is from 1 to 16, not 17"),
        ("on_unavailable = \"allow\"\ntrusted_proxies = [\"127.0.0.1/32\", \"fd00::/8\"]", "trusted_hops = 2", "9:16: `trusted_hops` needs `trusted_proxies` with the proxy that asks here"),
        ("\"path\"",                    "\"body\"",                                 &format!("13:9: {origin}")),
        ("\"path\"",                    "\"header:\"",                              &format!("13:9: {origin}")),
        ("\"path\"",                    "\"query:\"",                               &format!("13:9: {origin}")),
        ("on_unavailable = \"allow\"",  "cost = { a = \"path\" }",                  &format!("9:14: a cost is a number, or comes from {sources}")),
        ("on_unavailable = \"allow\"",  "cost = { a = true }",                      &format!("9:14: {cost}")),
        ("on_unavailable = \"allow\"",  "cost = { a = { from = \"query:a\", mix = 1 } }", &format!("9:14: {cost}")),
        ("on_unavailable = \"allow\"",  "cost = { a = -1 }",                        "9:14: an amount is a number from 0 to 1e9, not -1"),
        ("on_unavailable = \"allow\"",  "cost = { a = { from = \"query:a\", min = 2, max = 1 } }", "9:14: `min` is 2, above `max`, which is 1"),
        ("on_unavailable = \"allow\"",  "cost = { \"a b\" = 1 }",                   "9:10: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
        ("on_unavailable = \"allow\"",  &many_units,                                "9:82: a cost has at most 16 units"),
        ("\"path\"",                    "\"header:x y\"",                           &format!("13:9: {origin}")),
        ("route =",                     "\"\" =",                                   "13:1: a label's key has 1 to 64 characters"),
    ];
    let whole =
        format!("{HTTP}{}", VALID.split_once("[[resource]]").map(|(_, rest)| format!("[[resource]]{rest}")).unwrap());
    config::parse(Path::new("my.toml"), &whole).map(drop).unwrap_or_else(|error| panic!("{error}"));
    check_faults(&whole, &table);
}

/// Reaches `telemetry::MAX_SERVICE`.
#[test]
fn faults_of_telemetry_are_reported_with_their_place() {
    let read = |keys: &str| {
        let text = format!("[telemetry]\n{keys}\n{VALID}");
        config::parse(Path::new("rampmeter.toml"), &text)
    };
    let long_name = format!("service = \"{}\"", "x".repeat(65));
    #[rustfmt::skip]
    let table = [
        ("otpl = \"http://a\"",                                  "2:1: unknown field `otpl`; did you mean `otlp`?"),
        ("otlp = \"a:4318\"",                                    "2:8: a URL is written like \"https://host/path\""),
        ("otlp = \"http://user:password@a\"",                    "2:8: the URL has neither a user nor a query"),
        ("otlp = \"http://a\"\nheaders_env = \"KEY\"",          "2:8: the headers would go over the network for all to read; use https://"),
        ("headers_env = \"KEY\"\nheaders_file = \"f\"",         "3:16: give `headers_env` or `headers_file`, not both"),
        ("headers_env = \"a key\"",                              "2:15: this is the name of an environment variable"),
        ("sample = 1.5",                                         "2:10: this is a part from 0 to 1, not 1.5"),
        ("sample = -0.1",                                        "2:10: this is a part from 0 to 1, not -0.1"),
        ("service = \"\"",                                       "2:11: the name of a service has 1 to 64 characters"),
        (&long_name,                                             "2:11: the name of a service has 1 to 64 characters"),
    ];
    for (keys, reason) in table {
        let error = read(keys).unwrap_err().to_string();
        assert!(error.contains(reason), "{keys}: {error}");
    }
    for keys in ["otlp = \"http://collector:4318/base/\"", "otlp = \"https://a\"\nheaders_env = \"KEY\""] {
        let traces = read(keys).unwrap().telemetry.unwrap().traces;
        assert!(traces.path().ends_with("/v1/traces") && !traces.path().contains("//"), "{traces}");
    }
    assert_eq!(read("sample = 0.5").unwrap().telemetry, None);
}

/// Reaches `proxy::MaxWait` and `proxy::MAX_ROUTES`.
#[test]
fn what_a_proxy_is_told_is_bounded() {
    let fault = |keys: &str| {
        let text = format!("[[proxy]]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://a\"\n{keys}\n{VALID}");
        config::parse(Path::new("my.toml"), &text).map(drop).err().map(|error| error.to_string())
    };
    let wait = |hours: usize| fault(&format!("max_wait = \"{hours}h\""));
    let routes = |count: usize| fault(&"[[proxy.route]]\npath = \"/a\"\n".repeat(count));
    assert_eq!([wait(744), routes(256)], [const { None }; 2]);
    let beyond = [(wait(745), "this is from 1ms to"), (routes(257), "at most 256 routes")];
    for (found, expected) in beyond {
        assert!(found.as_ref().is_some_and(|found| found.contains(expected)), "{found:?} instead of {expected}");
    }
}

/// Reaches `rules::MAX_TEXT`.
#[test]
fn a_text_with_rules_is_bounded() {
    let rules = "[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\nperiod = \"1s\"\n";
    let parse = |bytes: usize| {
        let text = format!("{rules}{}", "#".repeat(bytes - rules.len()));
        config::parse_rules(Path::new("my.toml"), &text).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(parse(524_288), Ok(()));
    let error = parse(524_289).unwrap_err();
    assert!(error.contains("rules have at most 524288 bytes, not 524289"), "{error}");
}

/// A resource with a provider; its lines count from 1.
const PROVIDED: &str = r#"[[resource]]
name = "hub"
[resource.provider]
kind = "sentinel-hub"
base_url = "https://services.example"
token_url = "https://services.example/token"
client_id_env = "HUB_ID"
client_secret_env = "HUB_SECRET"
"#;

#[test]
fn faults_of_a_provider_are_reported_with_their_place() {
    let environment = "this is the name of an environment variable, of [A-Za-z0-9_], not its value";
    let network = "client id, secret and token would go over the network for all to read; use https://, or say \
                   `allow_http = true` where the network is private";
    #[rustfmt::skip]
    let table = [
        // instead of                           this,
        // line:column: reason
        ("\"sentinel-hub\"",                    "\"sentinel\"",                                 "4:8: unknown variant `sentinel`, expected `sentinel-hub`"),
        ("kind = \"sentinel-hub\"\n",           "",                                             "3:1: missing field `kind`"),
        ("base_url",                            "url",                                          "5:1: unknown field `url`, expected one of `kind`, `base_url`"),
        ("base_url = \"https://services.example\"\n", "",                                      "3:1: missing field `base_url`"),
        ("token_url = \"https://services.example/token\"\n", "",                               "3:1: missing field `token_url`"),
        ("client_id_env = \"HUB_ID\"\n",        "",                                             "3:1: missing field `client_id_env`"),
        ("client_secret_env = \"HUB_SECRET\"\n", "",                                            "3:1: a client needs `client_secret_env` or `client_secret_file`"),
        ("\"HUB_SECRET\"\n",                    "\"HUB_SECRET\"\nclient_secret_file = \"f\"\n", "9:22: give `client_secret_env` or `client_secret_file`, not both"),
        ("\"HUB_SECRET\"",                      "\"my-secret\"",                                &format!("8:21: {environment}")),
        ("\"HUB_SECRET\"",                      "\"1SECRET\"",                                  &format!("8:21: {environment}")),
        ("https://services.example\"",          "services.example\"",                           "5:12: a URL is written like \"https://host/path\""),
        ("https://services.example\"",          "https://\"",                                   "5:12: a URL is written like \"https://host/path\""),
        ("https://services.example\"",          "https://me:pass@services.example\"",           "5:12: the URL has neither a user nor a query: it is shown in logs"),
        ("https://services.example/token",      "https://services.example/token?key=1",         "6:13: the URL has neither a user nor a query: it is shown in logs"),
        ("https://services.example\"",          "http://services.example\"",                    &format!("5:12: {network}")),
        ("https://services.example/token",      "http://services.example/token",                &format!("6:13: {network}")),
        ("client_id_env",                       "levels_every = \"500ms\"\nclient_id_env",      "7:16: this is from 1s to 86400s, not 500ms"),
        ("client_id_env",                       "timeout = \"1h\"\nclient_id_env",              "7:11: this is from 100ms to 60s, not 3600s"),
        ("\"hub\"",                             "\"hub\"\ndefault_class = \"none\"",            "3:17: there is no class `none`"),
    ];
    check_faults(PROVIDED, &table);
}

#[test]
fn providers_that_are_right_are_taken() {
    let with_limits = "[[resource.limit]]\nname = \"few\"\ncapacity = 1\nperiod = \"1s\"\n";
    let more = "levels_every = \"60s\"\ncontract_every = \"1h\"\ntimeout = \"5s\"\n";
    #[rustfmt::skip]
    let table = [
        // configuration,                                                                   limits
        // of its own
        (PROVIDED.to_owned(),                                                               false),
        (format!("{PROVIDED}{with_limits}"),                                                true),
        (format!("{PROVIDED}{more}"),                                                       false),
        (PROVIDED.replace("client_secret_env = \"HUB_SECRET\"", "client_secret_file = \"/run/secret\""), false),
        (PROVIDED.replace("https://services.example", "http://127.0.0.1:8080"),             false),
        (PROVIDED.replace("https://services.example", "http://[::1]:8080"),                 false),
        (PROVIDED.replace("https://services.example", "http://localhost"),                  false),
        (format!("{PROVIDED}allow_http = true\n").replace("https://", "http://"),           false),
    ];
    for (text, has_limits) in table {
        let config = config::parse(Path::new("my.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let resource = &config.resources[0];
        assert_eq!((resource.resource().is_some(), resource.provider.is_some()), (has_limits, true), "{text}");
    }
}

/// Reaches `objections::MAX_BODY_TEXT`.
#[test]
fn wrong_objections_are_reported_with_what_is_right() {
    let objection = |keys: &str| format!("[[resource.objection]]\n{keys}\n");
    #[rustfmt::skip]
    let table = [
        ("means = \"limit\"",                                       "8:1: an objection needs `status`, `header`, `code` or `body`"),
        ("status = 403",                                            "8:1: missing field `means`"),
        ("means = \"never\"\nstatus = 403",                         "9:9: unknown variant `never`, expected one of `limit`, `pause`, `quota`, `ignore`"),
        ("status = 99\nmeans = \"limit\"",                          "9:10: a status is a number from 100 to 999, or one such as \"5xx\""),
        ("status = \"5x\"\nmeans = \"limit\"",                      "9:10: a status is a number from 100 to 999, or one such as \"5xx\""),
        ("limit = \"nobody\"\nstatus = 403\nmeans = \"limit\"",     "9:9: there is no limit `nobody`; there are `few`"),
        ("pause = \"1s\"\nstatus = 403\nmeans = \"ignore\"",        "9:9: `pause` and `limit` have no meaning beside `means = \"ignore\"`"),
        ("header = \"x y: z\"\nmeans = \"limit\"",                  "9:10: a header's name has letters, digits, `-` and `_`"),
        ("body = \"\"\nmeans = \"limit\"",                          "9:8: a text in a body has 1 to 256 bytes"),
    ];
    let long = format!("body = \"{}\"\nmeans = \"limit\"", "x".repeat(257));
    let long = [(&*long, "9:8: a text in a body has 1 to 256 bytes")];
    for (keys, message) in table.into_iter().chain(long) {
        check_faults(VALID, &[("horizon = \"50ms\"\n", &objection(keys), message)]);
    }
    let wrong = "headers = { remaining = \"a b\" }\n";
    check_faults(VALID, &[("horizon = \"50ms\"\n", wrong, "8:25: a header's name has letters")]);
    let unknown = "headers = { left = \"a\" }\n";
    let expected = "8:13: unknown field `left`, expected one of `limit`";
    check_faults(VALID, &[("horizon = \"50ms\"\n", unknown, expected)]);
}

#[test]
fn headers_that_no_worker_sends_are_remarked() {
    let notes = |keys: &str| {
        let text = VALID.replacen("horizon = \"50ms\"\n", keys, 1);
        config::parse(Path::new("my.toml"), &text).unwrap().notes
    };
    assert_eq!(notes("headers = { remaining = \"X-Quota-Left\" }\n"), Vec::<String>::new());
    for keys in
        ["headers = { remaining = \"x-left\" }\n", "objection = [{ header = \"x-left: 0\", means = \"limit\" }]\n"]
    {
        let notes = notes(keys);
        assert!(matches!(&notes[..], [note] if note.contains("workers pass on no header `x-left`")), "{notes:?}");
    }
}

/// Replaces the first text of each row by the second, and expects this place and reason.
fn check_faults(valid: &str, table: &[(&str, &str, &str)]) {
    for (right, wrong, message) in table {
        assert!(valid.contains(right), "{right}");
        let text = valid.replacen(right, wrong, 1);
        let error = config::parse(Path::new("my.toml"), &text).map(drop).expect_err(wrong).to_string();
        assert!(error.starts_with(&format!("my.toml:{message}")), "{wrong}\n{error}\ninstead of {message}");
    }
}

#[test]
fn valid_values_are_taken() {
    #[rustfmt::skip]
    let table = [
        ("period = \"10s\"",                "period = \"8784h\""),
        ("capacity = 10\n",                 "capacity = 2.5\n"),
        ("headroom = 0.2",                  "headroom = 0"),
        ("horizon = \"50ms\"",              "max_waiting = 1\nmax_permits = 1"),
        ("replicas = 1",                    "replicas = 3\ninbox_prefix = \"_INBOX_a\"\ninboxes = [\"_INBOX_b\"]\nstate_key_file = \"state.key\"\ncredentials_file = \"nats.creds\"\nurl = \"tls://nats:4222\""),
        ("replicas = 1",                    "tls = {}\nnkey_file = \"nats.nk\""),
        ("replicas = 1",                    "tls = { required = false, ca_file = \"a\", cert_file = \"b\", key_file = \"c\" }"),
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
        config.resources[0].resource().unwrap().limits()[0].spec().period.millis()
    };
    assert_eq!(period_ms(&VALID.replace("period = \"10s\"", "refill_interval = \"60ms\"")), 600.0);
    assert_eq!(period_ms(VALID), 10_000.0);
}
