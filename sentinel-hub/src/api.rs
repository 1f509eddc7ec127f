//! The APIs of the service.

use crate::{Error, ErrorKind};
use std::str::FromStr;

rampmeter_protocol::named! {
    /// The API that a request goes to. Each has its own minimum.
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
        Process = "process",
        /// Statistical.
        Statistical = "statistical",
        /// Asynchronous processing.
        Asynchronous = "async",
        /// Batch processing.
        Batch = "batch",
    }
}

impl FromStr for Api {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Api::named(name).ok_or_else(|| {
            let known = Api::ALL.map(Api::as_str);
            Error::new(ErrorKind::NotKnown, format!("`{name}` is no API"), format!("pass one of {}", known.join(", ")))
        })
    }
}
