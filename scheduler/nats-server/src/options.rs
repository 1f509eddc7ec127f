//! The settings of a server: its port, store, configuration and login.

use std::fmt;
use std::path::PathBuf;

/// The options of a [`Server`](crate::Server).
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0, the default, means any free one.
    pub port: u16,
    /// The folder of `JetStream`'s data. By default a folder that is removed with the server.
    pub store: Option<PathBuf>,
    /// A configuration file of nats-server, for all settings except address, port and store. Its `jetstream` block
    /// needs `store_dir: $NATS_STORE`: a server refuses a store both there and as an argument, and without either takes
    /// a temporary folder. By default, `JetStream` acknowledges a write before it is on disk, as is usual with NATS.
    pub configuration: Option<PathBuf>,
    /// The login required of clients, by default none. A configuration file has its own users.
    pub login: Option<Login>,
    /// Further arguments of nats-server, which override a configuration file.
    pub arguments: Vec<String>,
    /// Further environment variables, to which a configuration file refers as `$NAME`.
    pub environment: Vec<(String, String)>,
    /// Whether the server survives a Ctrl-C, for an owner that needs NATS to stop cleanly; by default it ends at once.
    pub outlives_interrupt: bool,
    /// The prefix of the server's name. The rest is drawn at each start, but after a clean stop the next server in an
    /// untouched store keeps the name: equal names prove that nothing was written between. By default NATS draws all.
    pub name_prefix: Option<&'static str>,
}

/// The login that every client needs. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// User and password.
    User(String, String),
    /// A token.
    Token(String),
}

impl Login {
    pub(crate) fn block(&self) -> String {
        match self {
            Login::User(user, password) => {
                format!("authorization {{ user: {}, password: {} }}\n", quoted(user), quoted(password))
            }
            Login::Token(token) => format!("authorization {{ token: {} }}\n", quoted(token)),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// Quotes a text of a configuration, escaping every byte that could mean something else.
fn quoted(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _other => format!("\\x{byte:02X}"),
    };
    format!("\"{}\"", text.bytes().map(byte).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_login_is_read_as_anything_else() {
        let login = Login::User("a\" }".to_owned(), "$1\n".to_owned());
        assert_eq!(login.block(), "authorization { user: \"a\\x22\\x20\\x7D\", password: \"\\x241\\x0A\" }\n");
        assert_eq!(Login::Token("t1".to_owned()).block(), "authorization { token: \"t1\" }\n");
        assert_eq!(format!("{login:?}"), "Login");
    }
}
