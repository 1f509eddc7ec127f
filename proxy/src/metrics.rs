//! The metrics of a proxy.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use rampmeter_protocol::time::Span;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Most classes in metrics: clients may state any, and the memory of a counted one is never freed.
const MAX_CLASSES: usize = 32;
const DEFAULT_CLASS: &str = "default";
const OTHER_CLASS: &str = "other";
/// In seconds, from a request that waits for nothing to one that waits for a quota.
const WAITS: [f64; 12] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0];

type Labels = Vec<(&'static str, String)>;

/// The metrics of one proxy.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    answered: Family<Labels, Counter>,
    pub(crate) repeated: Counter,
    pub(crate) unpriced: Counter,
    given_back: Counter,
    held: Gauge,
    waits: Family<Labels, Histogram>,
    pub(crate) first_bytes: Histogram,
    /// The lock is held for one lookup.
    classes: Mutex<BTreeSet<String>>,
}

/// A request that is held or in flight, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldRequest<'a> {
    metrics: &'a Metrics,
    is_answered: bool,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("rampmeter_proxy"),
            answered: Family::default(),
            repeated: Counter::default(),
            unpriced: Counter::default(),
            given_back: Counter::default(),
            held: Gauge::default(),
            waits: Family::new_with_constructor(|| Histogram::new(WAITS)),
            first_bytes: Histogram::new(WAITS),
            classes: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests", "Requests by their end: `forwarded`, or why not", self.answered.clone());
        registry.register(
            "repeated",
            "Calls that were repeated after a 429, or by another account after a 401",
            self.repeated.clone(),
        );
        registry.register("unpriced", "Requests whose bodies do not tell what they cost", self.unpriced.clone());
        registry.register("given_back", "Requests whose client was gone before its answer", self.given_back.clone());
        registry.register("held", "Requests that wait for a permit or for the upstream's answer", self.held.clone());
        registry.register("wait_seconds", "From a request to the start of its call", self.waits.clone());
        registry.register(
            "first_byte_seconds",
            "From the start of a call to the head of its answer",
            self.first_bytes.clone(),
        );
    }

    /// Renders the metrics in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap_or_default();
        text
    }

    pub(crate) fn hold(&self) -> HeldRequest<'_> {
        self.held.inc();
        HeldRequest { metrics: self, is_answered: false }
    }

    pub(crate) fn answered(&self, route: &str, class: Option<&str>, how: &'static str) {
        let labels = vec![("route", route.to_owned()), ("class", self.class(class)), ("end", how.to_owned())];
        self.answered.get_or_create(&labels).inc();
    }

    pub(crate) fn began(&self, class: Option<&str>, waited: Span) {
        self.waits.get_or_create(&vec![("class", self.class(class))]).observe(waited.duration().as_secs_f64());
    }

    /// Returns the class as a label, of which there is a bounded number.
    fn class(&self, class: Option<&str>) -> String {
        let class = class.unwrap_or(DEFAULT_CLASS);
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        if !classes.contains(class) {
            if classes.len() >= MAX_CLASSES {
                return OTHER_CLASS.to_owned();
            }
            classes.insert(class.to_owned());
        }
        class.to_owned()
    }
}

impl HeldRequest<'_> {
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for HeldRequest<'_> {
    fn drop(&mut self) {
        self.metrics.held.dec();
        if !self.is_answered {
            self.metrics.given_back.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_make_a_bounded_number_of_labels() {
        let metrics = Metrics::new();
        for number in 0..1000 {
            metrics.answered("-", Some(&number.to_string()), "forwarded");
        }
        let text = metrics.render();
        let labels = text.lines().filter(|line| line.starts_with("rampmeter_proxy_requests_total{")).count();
        assert_eq!(labels, MAX_CLASSES + 1, "{text}");
        assert!(text.contains(r#"class="other",end="forwarded"} 968"#), "{text}");
    }

    #[test]
    fn a_request_that_ends_without_an_answer_was_given_back() {
        let metrics = Metrics::new();
        metrics.hold().answered();
        drop(metrics.hold());
        let text = metrics.render();
        assert!(text.contains("rampmeter_proxy_given_back_total 1\n"), "{text}");
        assert!(text.contains("rampmeter_proxy_held 0\n"), "{text}");
    }
}
