//! The APIs of the service.

use crate::{Error, ErrorKind};
use std::fmt;
use std::str::FromStr;

/// The API that a request goes to. Each API has its own minimum.
///
/// ```
/// use rampmeter_sentinel_hub::Api;
/// assert_eq!("async".parse::<Api>().unwrap(), Api::Asynchronous);
/// assert_eq!("tiles".parse::<Api>().unwrap_err().to_string(), "`tiles` is no API; pass one of process, statistical, async, batch");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Api {
    /// Process, and the OGC services, which are charged like it.
    #[default]
    Process,
    /// Statistical.
    Statistical,
    /// Asynchronous processing.
    Asynchronous,
    /// Batch processing.
    Batch,
}

impl Api {
    /// All of them.
    pub const ALL: [Api; 4] = [Api::Process, Api::Statistical, Api::Asynchronous, Api::Batch];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Api::Process => "process",
            Api::Statistical => "statistical",
            Api::Asynchronous => "async",
            Api::Batch => "batch",
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Api {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Api::ALL.into_iter().find(|api| api.name() == name);
        found.ok_or_else(|| {
            let known: Vec<_> = Api::ALL.iter().map(|api| api.name()).collect();
            Error::new(ErrorKind::NotKnown, format!("`{name}` is no API"), format!("pass one of {}", known.join(", ")))
        })
    }
}
