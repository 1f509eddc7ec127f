//! Samples of metrics by their labels, as the library that encodes them takes them.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Labels of one sample, by name.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// All samples of one metric.
#[derive(Debug)]
pub(crate) struct Samples<V>(pub(crate) Vec<(Labels, V)>);

/// A number that goes up and down.
#[derive(Debug)]
pub(crate) struct Gauge(pub(crate) f64);

/// A number that only goes up.
#[derive(Debug)]
pub(crate) struct Counter(pub(crate) u64);

/// Seconds that only grow.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux tells of the process"))]
pub(crate) struct Seconds(pub(crate) f64);

/// How one value is written.
pub(crate) trait Value: std::fmt::Debug + Send + Sync + 'static {
    const TYPE: MetricType;

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
