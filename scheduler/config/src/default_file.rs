//! Writes the commented default configuration, of which `deploy/rampmeter.toml` is a copy.

use super::http::{CheckTable, HttpTable, HttpTlsTable};
use super::keys::{Key, Table, line_of};
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

/// Returns a valid configuration with every key, its meaning and its default.
#[must_use]
pub fn default_file() -> String {
    let mut file = HEAD.to_owned();
    write(&mut file, "", &NatsTable::TABLE);
    write(&mut file, "", &HttpTable::TABLE);
    write(&mut file, "#", &HttpTlsTable::TABLE);
    write(&mut file, "#", &CheckTable::TABLE);
    write(&mut file, "", &TelemetryTable::TABLE);
    write(&mut file, "#", &ProxyTable::TABLE);
    write(&mut file, "#", &CredentialTable::TABLE);
    write(&mut file, "#", &RouteTable::TABLE);
    write(&mut file, "", &ResourceTable::TABLE);
    write(&mut file, "#", &HeadersTable::TABLE);
    write(&mut file, "#", &ObjectionTable::TABLE);
    write(&mut file, "#", &ProviderTable::TABLE);
    write(&mut file, "", &LimitTable::TABLE);
    file.push_str(MORE_LIMITS);
    file
}

/// Writes a table. `mark` comments out its head and keys if a first configuration needs none of it.
fn write(file: &mut String, mark: &str, table: &Table) {
    let [head, intro @ ..] = table.about else { return };
    intro.iter().filter(|line| !line.is_empty()).for_each(|line| line_of(file, format_args!("#{line}")));
    line_of(file, format_args!("{mark}{}", head.trim_matches([' ', '`'])));
    table.keys.iter().for_each(|key| key.write(file, mark, &choices(key.name())));
}

/// Returns the choices of a key that are listed by other code.
fn choices(key: &str) -> String {
    match key {
        "tls" => TlsTable::TABLE.keys.iter().map(Key::item).collect(),
        "classes" => ClassTable::TABLE.keys.iter().map(Key::item).collect(),
        "dialect" => Dialect::ALL.iter().map(|dialect| format!("# * \"{dialect}\"\n")).collect(),
        "algorithm" => ALGORITHMS.iter().map(|(name, meaning)| format!("# * \"{name}\": {meaning}\n")).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Shown;
    use crate::parse;
    use std::path::Path;

    /// The keys of a table, and the text before and after the key that is tried.
    type Tried = (&'static [Key], &'static str, &'static str);

    const LIMITED: &str = "\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\nperiod = \"1s\"\n";
    const NAMED: &str =
        "\n[[resource]]\nname = \"api\"\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\nperiod = \"1s\"\n";

    const PLACES: [Tried; 15] = [
        (NatsTable::TABLE.keys, "[nats]\n", NAMED),
        (TlsTable::TABLE.keys, "[nats.tls]\n", NAMED),
        (HttpTable::TABLE.keys, "[http]\n", NAMED),
        (HttpTlsTable::TABLE.keys, "[http.tls]\n", NAMED),
        (CheckTable::TABLE.keys, "[http.check]\nresource = \"api\"\n", NAMED),
        (TelemetryTable::TABLE.keys, "[telemetry]\n", NAMED),
        (ProxyTable::TABLE.keys, "[[proxy]]\nupstream = \"https://a\"\n", NAMED),
        (CredentialTable::TABLE.keys, "[[proxy]]\nupstream = \"https://a\"\n[proxy.credential]\n", NAMED),
        (RouteTable::TABLE.keys, "[[proxy]]\nupstream = \"https://a\"\n[[proxy.route]]\npath = \"/\"\n", NAMED),
        (ResourceTable::TABLE.keys, "[[resource]]\nname = \"api\"\n", LIMITED),
        (ClassTable::TABLE.keys, "[[resource]]\nname = \"api\"\n[[resource.classes]]\nname = \"bulk\"\n", LIMITED),
        (HeadersTable::TABLE.keys, "[[resource]]\nname = \"api\"\n[resource.headers]\n", LIMITED),
        (
            ObjectionTable::TABLE.keys,
            "[[resource]]\nname = \"api\"\n[[resource.objection]]\nstatus = 403\nmeans = \"limit\"\n",
            "\n[[resource.limit]]\nname = \"requests-per-minute\"\ncapacity = 10\nperiod = \"1s\"\n",
        ),
        (
            ProviderTable::TABLE.keys,
            "[[resource]]\nname = \"api\"\n[resource.provider]\nkind = \"sentinel-hub\"\n\
             base_url = \"https://a\"\ntoken_url = \"https://b\"\nclient_id_env = \"C\"\n",
            LIMITED,
        ),
        (
            LimitTable::TABLE.keys,
            "[[resource]]\nname = \"api\"\naccounts = [\"a\"]\n[[resource.limit]]\nname = \"few\"\ncapacity = 10\n",
            "",
        ),
    ];

    /// Further keys that a key needs, if any.
    fn beside(keys: &[Key], name: &str) -> &'static str {
        let is_limit = std::ptr::eq(keys, LimitTable::TABLE.keys);
        match name {
            "trusted_hops" => "trusted_proxies = [\"127.0.0.1\"]\n",
            "cert_file" => "key_file = \"a.pem\"\n",
            "key_file" => "cert_file = \"a.pem\"\n",
            "client_ca_file" => "cert_file = \"a.pem\"\nkey_file = \"b.pem\"\n",
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
            _ if std::ptr::eq(keys, TelemetryTable::TABLE.keys) => "otlp = \"https://a\"\n",
            _ if std::ptr::eq(keys, CredentialTable::TABLE.keys) => "secret_env = \"S\"\n",
            _ if std::ptr::eq(keys, ProviderTable::TABLE.keys) => "client_secret_env = \"D\"\n",
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
