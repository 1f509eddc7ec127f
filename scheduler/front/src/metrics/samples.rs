//! Samples of metrics by their labels, as required by the encoding library.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// The labels of one sample, by name.
pub type Labels = Vec<(&'static str, String)>;
/// A number that goes up and down.
pub type Gauge = ConstGauge<f64>;
/// A number that only goes up.
pub type Counter = ConstCounter<u64>;

/// All samples of one metric.
#[derive(Debug)]
pub struct Samples<V>(pub Vec<(Labels, V)>);

impl<V: EncodeMetric + TypedMetric> EncodeMetric for Samples<V> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        if let [(labels, value)] = &self.0[..]
            && labels.is_empty()
        {
            return value.encode(encoder);
        }
        for (labels, value) in &self.0 {
            value.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        V::TYPE
    }
}
