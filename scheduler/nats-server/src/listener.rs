//! The addresses of a running server. The server writes them to a file, because it may choose its
//! ports.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The addresses of a running server, from the file that it writes once it is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) url: String,
    pub(crate) port: u16,
    /// The URL of HTTP monitoring, if it is enabled.
    pub(crate) monitor: Option<String>,
}

#[derive(Deserialize)]
struct PortsFile {
    nats: Vec<String>,
    #[serde(default)]
    monitoring: Vec<String>,
}

impl Listener {
    /// The addresses in the one file of this folder; `None` until the server has written it.
    pub(crate) fn read_from(folder: &Path) -> Option<Self> {
        let file = fs::read_dir(folder).ok()?.next()?.ok()?;
        Self::parse(&fs::read_to_string(file.path()).ok()?)
    }

    /// The addresses in a ports file. `None` for half a file, since the server does not write it in
    /// one step.
    fn parse(text: &str) -> Option<Self> {
        let file: PortsFile = serde_json::from_str(text).ok()?;
        let url = file.nats.into_iter().next()?;
        let (_, port) = url.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let monitor = file.monitoring.into_iter().next();
        Some(Self { url, port, monitor })
    }
}

#[cfg(test)]
mod tests {
    use super::Listener;

    #[test]
    fn a_server_may_have_http_monitoring() {
        let monitor = |text| Listener::parse(text).unwrap().monitor;
        assert_eq!(
            monitor(r#"{"nats":["nats://127.0.0.1:1"],"monitoring":["http://127.0.0.1:2"]}"#).unwrap(),
            "http://127.0.0.1:2"
        );
        assert_eq!(monitor(r#"{"nats":["nats://127.0.0.1:1"]}"#), None);
    }

    #[test]
    fn the_first_client_port_of_a_whole_file_counts() {
        let table = [
            (r#"{"nats":["nats://127.0.0.1:41197"],"monitoring":["http://127.0.0.1:1"]}"#, Some(41197)),
            (r#"{"nats":["tls://127.0.0.1:1","nats://127.0.0.1:2"]}"#, Some(1)),
            (r#"{"nats":["nats://127.0.0.1:411"#, None),
            (r#"{"nats":["nats://127.0.0.1:70000"]}"#, None),
            (r#"{"nats":[]}"#, None),
            ("", None),
        ];
        for (text, port) in table {
            assert_eq!(Listener::parse(text).map(|listener| listener.port), port, "{text}");
        }
    }
}
