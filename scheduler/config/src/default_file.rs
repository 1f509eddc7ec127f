//! Writes the commented configuration that users start from. `deploy/rampmeter.toml` is a copy of
//! it.

use super::http::{CheckTable, HttpTable, HttpTlsTable};
use super::keys::{Key, Shown};
use super::limits::algorithm::ALGORITHMS;
use super::limits::objections::{HeadersTable, ObjectionTable};
use super::limits::table::{ClassTable, LimitTable, ResourceTable};
use super::nats::{NatsTable, TlsTable};
use super::provider::ProviderTable;
use super::proxy::credential::CredentialTable;
use super::proxy::{ProxyTable, RouteTable};
use super::telemetry::TelemetryTable;
use rampmeter_dialects::Dialect;

const HEAD: &str = "\
# The configuration of Rampmeter, as `rampmeter check --print-default` prints it.
# `rampmeter check --config FILE` says what is wrong with yours, and where.
#
# A key right behind a `#` is commented out. Its value is the default, or an example if leaving
# the key out has another effect.

";

const CHECK: &str = "\
# The check that reverse proxies make before they let a request through: /check.
";

const HTTP_TLS: &str = "\
# Encryption towards HTTP clients. Without this, listen at loopback or behind TLS.
";

const TELEMETRY: &str = "\
# Traces: a span for each recorded request, with its wait and its reason.
";

const PROXY: &str = "\
# A proxy that holds requests until their permits start: `rampmeter proxy`, or beside the scheduler.
";

const CREDENTIAL: &str = "\
# The secret that the proxy above shows to the upstream, so that its clients need none. Every client
# that reaches the proxy then calls the upstream in its name.
";

const ROUTE: &str = "\
# A kind of requests of the proxy above.
";

const RESOURCE: &str = "\
# One upstream account with its limits.
";

const HEADERS: &str = "\
# Names of headers that no dialect knows. Clients send a header if its name has `ratelimit`, `rate-limit`,
# `retry-after`, `quota` or `throttl` in it.
";

const OBJECTION: &str = "\
# A response that objects to a call, or that does not although it looks so. The first that fits decides.
";

const PROVIDER: &str = "\
# The account's limits, as its own service tells them. Limits below of the same unit and period are
# compared with it. Without any below, all come from there, and nothing is granted before they are
# known.
";

const LIMIT: &str = "\
# A limit. Every call has to fit into all limits whose unit it costs.
# `rampmeter apply` changes limits while schedulers run.
";

const MORE_LIMITS: &str = r#"[[resource.limit]]
name = "processing-units-per-minute"
unit = "processing-units"
capacity = 1000
period = "PT1M"

[[resource.limit]]
name = "processing-units-per-month"
unit = "processing-units"
capacity = 400000
period = "PT744H"
"#;

/// A valid configuration with every key, its meaning and its default.
#[must_use]
pub fn default_file() -> String {
    let mut file = HEAD.to_owned();
    write(&mut file, "[nats]", NatsTable::KEYS);
    write(&mut file, "[http]", HttpTable::KEYS);
    write_commented_out(&mut file, HTTP_TLS, "[http.tls]", HttpTlsTable::KEYS);
    write_commented_out(&mut file, CHECK, "[http.check]", CheckTable::KEYS);
    file.push_str(TELEMETRY);
    write(&mut file, "[telemetry]", TelemetryTable::KEYS);
    write_commented_out(&mut file, PROXY, "[[proxy]]", ProxyTable::KEYS);
    write_commented_out(&mut file, CREDENTIAL, "[proxy.credential]", CredentialTable::KEYS);
    write_commented_out(&mut file, ROUTE, "[[proxy.route]]", RouteTable::KEYS);
    file.push_str(RESOURCE);
    write(&mut file, "[[resource]]", ResourceTable::KEYS);
    write_commented_out(&mut file, HEADERS, "[resource.headers]", HeadersTable::KEYS);
    write_commented_out(&mut file, OBJECTION, "[[resource.objection]]", ObjectionTable::KEYS);
    write_commented_out(&mut file, PROVIDER, "[resource.provider]", ProviderTable::KEYS);
    file.push_str(LIMIT);
    write(&mut file, "[[resource.limit]]", LimitTable::KEYS);
    file.push_str(MORE_LIMITS);
    file
}

fn write(file: &mut String, head: &str, keys: &[Key]) {
    file.push_str(head);
    file.push('\n');
    for key in keys {
        key.write(file, &choices(key.name()));
    }
}

/// The choices of a key that are listed by other code.
fn choices(key: &str) -> String {
    match key {
        "tls" => TlsTable::KEYS.iter().map(Key::item).collect(),
        "classes" => ClassTable::KEYS.iter().map(Key::item).collect(),
        "dialect" => Dialect::ALL.iter().map(|dialect| format!("# * \"{dialect}\"\n")).collect(),
        "algorithm" => ALGORITHMS.iter().map(|(name, meaning)| format!("# * \"{name}\": {meaning}\n")).collect(),
        _ => String::new(),
    }
}

/// Writes a table with all keys commented out, because a first configuration does not need it.
fn write_commented_out(file: &mut String, intro: &str, head: &str, keys: &[Key]) {
    let example = |key: &Key| match key.shown {
        Shown::Given(value) => Key { shown: Shown::Example(value), ..*key },
        Shown::Default(_) | Shown::Example(_) | Shown::Table => *key,
    };
    let keys: Vec<Key> = keys.iter().map(example).collect();
    file.push_str(intro);
    write(file, &format!("#{head}"), &keys);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use std::path::Path;

    /// The keys of a table, and the text before and after the key that is tried.
    type Tried = (&'static [Key], &'static str, &'static str);

    const LIMITED: &str = "\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\nperiod = \"1s\"\n";
    const NAMED: &str =
        "\n[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\nperiod = \"1s\"\n";

    const PLACES: [Tried; 15] = [
        (NatsTable::KEYS, "[nats]\n", NAMED),
        (TlsTable::KEYS, "[nats.tls]\n", NAMED),
        (HttpTable::KEYS, "[http]\n", NAMED),
        (HttpTlsTable::KEYS, "[http.tls]\n", NAMED),
        (CheckTable::KEYS, "[http.check]\nresource = \"api\"\n", NAMED),
        (TelemetryTable::KEYS, "[telemetry]\n", NAMED),
        (ProxyTable::KEYS, "[[proxy]]\nupstream = \"https://a\"\n", NAMED),
        (CredentialTable::KEYS, "[[proxy]]\nupstream = \"https://a\"\n[proxy.credential]\n", NAMED),
        (RouteTable::KEYS, "[[proxy]]\nupstream = \"https://a\"\n[[proxy.route]]\npath = \"/\"\n", NAMED),
        (ResourceTable::KEYS, "[[resource]]\nname = \"api\"\n", LIMITED),
        (ClassTable::KEYS, "[[resource]]\nname = \"api\"\n[[resource.classes]]\nname = \"bulk\"\n", LIMITED),
        (HeadersTable::KEYS, "[[resource]]\nname = \"api\"\n[resource.headers]\n", LIMITED),
        (
            ObjectionTable::KEYS,
            "[[resource]]\nname = \"api\"\n[[resource.objection]]\nstatus = 403\nmeans = \"limit\"\n",
            "\n[[resource.limit]]\nname = \"requests-per-minute\"\ncapacity = 10\nperiod = \"1s\"\n",
        ),
        (
            ProviderTable::KEYS,
            "[[resource]]\nname = \"api\"\n[resource.provider]\nkind = \"sentinel-hub\"\n\
             base_url = \"https://a\"\ntoken_url = \"https://b\"\nclient_id_env = \"C\"\n",
            LIMITED,
        ),
        (LimitTable::KEYS, "[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\n", ""),
    ];

    /// Further keys that a key needs, if any.
    fn beside(keys: &[Key], name: &str) -> &'static str {
        let is_limit = std::ptr::eq(keys, LimitTable::KEYS);
        match name {
            "trusted_hops" => "trusted_proxies = [\"127.0.0.1\"]\n",
            "cert_file" => "key_file = \"a.pem\"\n",
            "key_file" => "cert_file = \"a.pem\"\n",
            "client_ca_file" => "cert_file = \"a.pem\"\nkey_file = \"b.pem\"\n",
            "ride_for" => "on_kv_loss = \"ride\"\n",
            "weights" => "fair_share = \"client\"\n",
            "client_secret_file" | "secret_file" | "oauth" => "",
            "safe_rate" => "on_unavailable = \"safe-rate\"\n",
            "period" | "refill_interval" => "",
            "drain_velocity" => "algorithm = \"leaky-bucket\"\n",
            "aligned" => "algorithm = \"fixed-window\"\nperiod = \"1s\"\n",
            "zone" => "algorithm = \"fixed-window\"\naligned = \"day\"\n",
            "resets" => "algorithm = \"quota\"\n",
            "time_to_live" => "algorithm = \"concurrency\"\n",
            "otlp" => "",
            _ if std::ptr::eq(keys, TelemetryTable::KEYS) => "otlp = \"https://a\"\n",
            _ if std::ptr::eq(keys, CredentialTable::KEYS) => "secret_env = \"S\"\n",
            _ if std::ptr::eq(keys, ProviderTable::KEYS) => "client_secret_env = \"D\"\n",
            _ if is_limit => "period = \"1s\"\n",
            _ => "",
        }
    }

    fn read(text: &str) -> String {
        let config = parse(Path::new("tried.toml"), text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        format!("{config:?}")
    }

    #[test]
    fn a_default_that_is_written_down_changes_nothing_and_examples_are_valid() {
        let mut defaults = 0;
        for (keys, before, behind) in PLACES {
            for key in keys {
                let beside = beside(keys, key.name());
                let with = |value| read(&format!("{before}{beside}{} = {value}\n{behind}", key.name()));
                match key.shown {
                    Shown::Default(value) => {
                        assert_eq!(with(value), read(&format!("{before}{beside}{behind}")), "{}", key.name());
                        defaults += 1;
                    }
                    Shown::Example(value) => drop(with(value)),
                    // These keys are in the file itself, or in the text before.
                    Shown::Given(_) | Shown::Table => {}
                }
            }
        }
        assert!(defaults > 20, "{defaults}");
    }

    #[test]
    fn the_file_is_valid_has_every_key_and_fits_into_the_width_of_a_page() {
        let file = default_file();
        read(&file);
        for key in PLACES.into_iter().flat_map(|(keys, ..)| keys) {
            let written =
                [format!("\n{} = ", key.name()), format!("\n#{} = ", key.name()), format!("`{} = ", key.name())];
            let is_table = matches!(key.shown, Shown::Table);
            assert!(is_table || written.iter().any(|line| file.contains(line)), "{}", key.name());
            assert!(key.doc.iter().all(|line| line.len() < 100), "{}", key.name());
        }
    }
}
