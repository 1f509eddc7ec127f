//! The deployments and their collections.

use crate::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::LazyLock;

/// A deployment of Sentinel Hub, by its host. Collections of others cost double in data fusion.
///
/// ```
/// use rampmeter_sentinel_hub::Deployment;
/// let asked: Deployment = "https://sh.dataspace.copernicus.eu/api/v1/process".parse().unwrap();
/// assert_eq!(asked.host(), "sh.dataspace.copernicus.eu");
/// assert!("example.com".parse::<Deployment>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment(&'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Local,
    Remote,
    /// Not in the table: a user's own collection, or a new one.
    Unknown,
}

static COLLECTIONS: LazyLock<BTreeMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../rules/deployments.json")).expect("the table that is shipped is valid")
});

impl Deployment {
    /// Returns the host of the deployment.
    #[must_use]
    pub fn host(self) -> &'static str {
        self.0
    }

    pub(crate) fn location(self, collection: &str) -> Location {
        let has = |collections: &Vec<&str>| collections.contains(&collection);
        match COLLECTIONS.get(self.0).is_some_and(has) {
            true => Location::Local,
            false if COLLECTIONS.values().any(has) => Location::Remote,
            false => Location::Unknown,
        }
    }
}

impl Default for Deployment {
    fn default() -> Self {
        Deployment("services.sentinel-hub.com")
    }
}

impl FromStr for Deployment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let host = text.trim_start_matches("https://").split('/').next().unwrap_or_default();
        COLLECTIONS.keys().find(|known| **known == host).map(|known| Deployment(known)).ok_or_else(|| {
            let known: Vec<_> = COLLECTIONS.keys().copied().collect();
            let problem = format!("`{host}` is no deployment that is known");
            Error::new(ErrorKind::NotKnown, problem, format!("pass one of {}", known.join(", ")))
        })
    }
}
