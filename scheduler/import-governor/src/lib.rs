//! Turns rates files of EOM Governor into a configuration of one resource.
//!
//! ```
//! use rampmeter_import_governor::{Settings, configuration, rules};
//! use rampmeter_protocol::name::Name;
//!
//! let rates = rules(r#"[{"name": "all", "route": "/.*", "limit": 350, "drain_velocity": 2.5}]"#).unwrap();
//! let settings = Settings { resource: Name::new("governor").unwrap(), project_label: "project".to_owned() };
//! let text = configuration(&settings, Vec::new(), rates).unwrap();
//! assert!(text.contains(r#"algorithm = "leaky-bucket""#));
//! ```
//!
//! The scheduler checks whether it can keep to the configuration.

mod configuration;
mod rule;

pub use configuration::{ImportError, Settings, configuration};
pub use rule::{Rule, rules};
