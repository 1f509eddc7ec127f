//! How a resource computes what calls cost.

use std::fmt;
use std::str::FromStr;

/// The rules by which a resource computes what calls cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pricing {
    /// Processing units of Sentinel Hub.
    SentinelHub,
}

impl Pricing {
    /// The name in the configuration and in requests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pricing::SentinelHub => "sentinel-hub",
        }
    }
}

impl fmt::Display for Pricing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pricing {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "sentinel-hub" => Ok(Pricing::SentinelHub),
            _ => Err(format!("`{name}` is no pricing; there is \"sentinel-hub\"")),
        }
    }
}
