//! Turns rate limits that API Commons describes into a configuration of one resource.
//!
//! ```
//! use rampmeter_import_api_commons::{Settings, document, import};
//! use rampmeter_protocol::name::Name;
//!
//! let text = "
//! method: harvested
//! limits:
//!   - { name: Per minute, scope: api-key, metric: requests_per_minute, limit: 1000, timeFrame: minute }
//!   - { name: Guessed, method: generated, metric: requests_per_day, limit: 5, timeFrame: day }
//! ";
//! let settings = Settings { resource: Name::new("groundcover").unwrap(), tier: None };
//! let imported = import(&settings, document(text).unwrap()).unwrap();
//! assert!(imported.configuration.contains("capacity = 1000"));
//! assert_eq!(imported.left_out[0].to_string(), "`Guessed`: its method is `generated`");
//! ```
//!
//! Most published descriptions were generated, with numbers that no provider has said. Only what
//! was harvested from a provider's pages or probed is taken over.

mod configuration;
mod document;
mod entry;

pub use configuration::{ImportError, Imported, Settings, import};
pub use document::{Document, document};
pub use entry::{LeftOut, Reason};
