//! The NATS servers of a setting, and the user to log in as.

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Name prefix of the servers that `serve --embedded-nats` and `proxy` run. Unlike ids, such names survive clean stops.
pub const PRIVATE: &str = "rampmeter-private-";

/// One or more servers of one cluster, separated by commas: `nats://user:password@host:4222` or
/// `nats://token@host:4222`. Any of them may be down at startup; the client discovers others.
///
/// `Display` omits users, passwords and tokens, so that messages can show the servers.
///
/// ```
/// use rampmeter_nats::servers::Servers;
///
/// let servers: Servers = "nats://worker:secret@a:4222,nats://b:4222".parse()?;
/// assert_eq!(servers.to_string(), "nats://a:4222,nats://b:4222");
/// # Ok::<(), rampmeter_nats::servers::ServersError>(())
/// ```
#[derive(Clone)]
pub struct Servers {
    addresses: Vec<ServerAddr>,
}

/// Why a setting contains no servers. The setting is not shown: it may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServersError {
    /// The setting contains no server.
    #[error("the URL of the NATS server is not like nats://user:password@host:4222 or nats://token@host:4222")]
    NoUrl,
    /// A user, password or token is not UTF-8 after percent-decoding (`%41`).
    #[error("a user, a password or a token in the URL of the NATS server is not UTF-8")]
    NoText,
}

/// The user to log in as. It has no `Debug`, which would show the password.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// User and password.
    User(String, String),
    /// A token.
    Token(String),
}

impl Servers {
    /// Returns the addresses without logins, which the client logs when it connects.
    #[must_use]
    pub fn addresses(&self) -> Vec<ServerAddr> {
        self.addresses.iter().cloned().map(without_login).collect()
    }

    /// Adds the login of the first address that has one. It applies to all servers, discovered ones
    /// included; the client itself ignores the user in a URL.
    ///
    /// If one address begins with `tls://`, all servers have to speak TLS. The client itself would
    /// send the password in plain text to a server that it discovered later.
    ///
    /// # Errors
    /// [`ServersError::NoText`].
    pub fn authenticated(&self, options: ConnectOptions) -> Result<ConnectOptions, ServersError> {
        let encrypted = self.addresses.iter().any(ServerAddr::tls_required);
        let options = if encrypted { options.require_tls(true) } else { options };
        Ok(match self.login()? {
            Some(Login::User(user, password)) => options.user_and_password(user, password),
            Some(Login::Token(token)) => options.token(token),
            None => options,
        })
    }

    /// Returns the login of the first address that has one.
    ///
    /// # Errors
    /// [`ServersError::NoText`].
    pub fn login(&self) -> Result<Option<Login>, ServersError> {
        let named = self.addresses.iter().find_map(|server| Some((server.username()?, server.password())));
        let Some((user, password)) = named else { return Ok(None) };
        let user = decoded(user)?;
        Ok(Some(match password {
            Some(password) => Login::User(user, decoded(password)?),
            None => Login::Token(user),
        }))
    }
}

fn decoded(text: &str) -> Result<String, ServersError> {
    percent_decode_str(text).decode_utf8().map(Cow::into_owned).map_err(|_| ServersError::NoText)
}

impl FromStr for Servers {
    type Err = ServersError;

    fn from_str(text: &str) -> Result<Self, ServersError> {
        let addresses: Option<Vec<ServerAddr>> = text.split(',').map(address).collect();
        Ok(Servers { addresses: addresses.ok_or(ServersError::NoUrl)? })
    }
}

/// Parses an address up to the port. What follows `/`, `?` or `#` is likely part of a password.
fn address(text: &str) -> Option<ServerAddr> {
    let address: ServerAddr = text.trim().parse().ok()?;
    let url = address.clone().into_inner();
    let is_whole = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    (is_whole && !address.host().is_empty()).then_some(address)
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.addresses().into_iter().map(|address| address.into_inner().to_string()).collect();
        f.write_str(&texts.join(","))
    }
}

fn without_login(address: ServerAddr) -> ServerAddr {
    let mut url = address.into_inner();
    // The calls fail for a URL without a host, which has neither user nor password.
    url.set_username("").and_then(|()| url.set_password(None)).ok();
    ServerAddr::from_url(url).expect("what is left is still an address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_and_a_login() {
        #[rustfmt::skip]
        let table = [
            // url                                          shown
            // login
            ("nats://a:4222",                               "nats://a:4222",                    "none"),
            ("a",                                           "nats://a",                         "none"),
            ("nats://u:p@a:4222",                           "nats://a:4222",                    "u with p"),
            ("nats://u:@a:4222",                            "nats://a:4222",                    "token u"),
            ("tls://u:p@a:1,tls://b:2, tls://c:3",          "tls://a:1,tls://b:2,tls://c:3",    "u with p"),
            ("nats://a:1,nats://u:p@b:2",                   "nats://a:1,nats://b:2",            "u with p"),
            ("nats://u:%40%2f|@[::1]:4222",                 "nats://[::1]:4222",                "u with @/|"),
            ("nats://t%40@a:1,nats://u:p@b:2",              "nats://a:1,nats://b:2",            "token t@"),
        ];
        for (url, shown, login) in table {
            let servers: Servers = url.parse().unwrap();
            assert_eq!(servers.to_string(), shown);
            let found = match servers.login().unwrap() {
                None => "none".to_owned(),
                Some(Login::User(user, password)) => format!("{user} with {password}"),
                Some(Login::Token(token)) => format!("token {token}"),
            };
            assert_eq!(found, login, "{url}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_without_being_shown() {
        let table = [
            "",
            "http://u:secret@a",
            "nats://u:secret@a:port",
            "nats://a,,nats://u:secret@b",
            "nats://u:12#secret@a:4222",
            "nats://u:12/secret@a:4222",
            "nats://u:12?secret@a:4222",
            "nats:/u:secret@a:4222",
        ];
        for url in table {
            let error = url.parse::<Servers>().err().expect(url);
            assert!(!format!("{error}{error:?}").contains("secret"), "{error}");
        }
        for url in ["nats://u:%ff@a", "nats://%ff@a"] {
            assert!(url.parse::<Servers>().unwrap().login().is_err(), "{url}");
        }
    }
}
