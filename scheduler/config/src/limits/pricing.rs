//! How a resource computes what calls cost.

use std::str::FromStr;

rampmeter_protocol::named! {
    /// The rules by which a resource computes costs, as named in configuration and requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Pricing {
        /// Processing units of Sentinel Hub.
        SentinelHub = "sentinel-hub",
    }
}

impl FromStr for Pricing {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Pricing::named(name).ok_or_else(|| format!("`{name}` is no pricing; there is \"sentinel-hub\""))
    }
}
