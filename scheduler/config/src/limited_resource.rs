//! A resource in a file of another kind, such as a scenario.

use super::limits::parts::reader;
use super::limits::table::ResourceTable;
use super::load::{checked, written_parts};
use super::reading::faults::Faults;
use super::reading::source::{ConfigError, Source};
use rampmeter_dialects::Reader;
use rampmeter_policy::spec::ResourceSpec;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// A table `[resource]` as in the configuration, whose limits are in the file, not at a provider.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct LimitedResource(Spanned<ResourceTable>);

impl LimitedResource {
    /// Returns the place of the table in the file.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }

    /// Returns the resource if it is valid, or notes what is wrong with it.
    pub fn spec(&self, source: &Source, faults: &mut Faults) -> Option<ResourceSpec> {
        let table = self.0.get_ref();
        if let (Some(provider), []) = (&table.provider, &*table.limit) {
            faults.add(
                source.fault(&provider.span(), "a scenario asks no provider; write the limits: [[resource.limit]]"),
            );
            return None;
        }
        let parts = written_parts(source, faults, &self.0)?;
        let spec = checked(source, faults, &self.0, parts)?;
        if spec.limits.is_empty() {
            let reason = "a scenario shows how limits are used; write them: [[resource.limit]]";
            faults.add(source.fault(&table.name.span(), reason));
        }
        Some(spec)
    }

    /// Returns the reader of the upstream's responses: `usual`, unless the table names a dialect.
    ///
    /// # Errors
    /// If there is no such dialect or unit.
    pub fn reader(&self, source: &Source, usual: Reader) -> Result<Reader, ConfigError> {
        reader(source, self.0.get_ref(), usual)
    }
}
