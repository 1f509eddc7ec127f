//! The clients that share the classes of a resource.

use crate::config::limits::table::ResourceTable;
use crate::config::reading::source::{ConfigError, Source};
use rampmeter_protocol::bounds::MAX_LABEL_KEY;
use rampmeter_scheduler_core::policy::spec::{FairShare, Weight};
use toml::Spanned;

/// The fair share of `table`, if it has one.
pub(in crate::config) fn fair_share(source: &Source, table: &ResourceTable) -> Result<Option<FairShare>, ConfigError> {
    let Some(label) = &table.fair_share else {
        return match table.weights.values().next() {
            Some(weight) => {
                Err(source.fault(&weight.span(), "weights need `fair_share`, the label that names clients"))
            }
            None => Ok(None),
        };
    };
    if !(1..=MAX_LABEL_KEY).contains(&label.get_ref().chars().count()) {
        return Err(source.fault(&label.span(), format!("a label's key has 1 to {MAX_LABEL_KEY} characters")));
    }
    let weights = table.weights.iter().map(|(client, times)| Ok((client.clone(), weight(source, times)?)));
    Ok(Some(FairShare { label: label.get_ref().clone(), weights: weights.collect::<Result<_, _>>()? }))
}

fn weight(source: &Source, times: &Spanned<f64>) -> Result<Weight, ConfigError> {
    let weight = Weight::new(*times.get_ref());
    weight.ok_or_else(|| source.fault(&times.span(), format!("a weight is from 0.001 to 1e6, not {}", times.get_ref())))
}
