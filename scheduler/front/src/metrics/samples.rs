//! Samples of metrics by their labels, as the library that encodes them takes them.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Labels of one sample, by name.
pub type Labels = Vec<(&'static str, String)>;

/// All samples of one metric.
#[derive(Debug)]
pub struct Samples<V>(pub Vec<(Labels, V)>);

/// A number that goes up and down.
#[derive(Debug)]
pub struct Gauge(pub f64);

/// A number that only goes up.
#[derive(Debug)]
pub struct Counter(pub u64);

/// Seconds that only grow.
#[derive(Debug)]
pub struct Seconds(pub f64);

/// How one value is written.
pub trait Value: std::fmt::Debug + Send + Sync + 'static {
    /// The type of metrics with such values.
    const TYPE: MetricType;

    /// Writes the value.
    ///
    /// # Errors
    /// If the text takes no more.
    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result;
}

impl Value for Gauge {
    const TYPE: MetricType = MetricType::Gauge;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_gauge(&self.0)
    }
}

impl Value for Counter {
    const TYPE: MetricType = MetricType::Counter;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.0, None)
    }
}

impl Value for Seconds {
    const TYPE: MetricType = MetricType::Counter;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.0, None)
    }
}

impl<V: Value> EncodeMetric for Samples<V> {
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
