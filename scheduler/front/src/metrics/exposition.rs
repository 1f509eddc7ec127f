//! Responds with metrics in Prometheus' format, and adds those of the program itself.

use crate::metrics::samples::{Gauge, Samples};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

/// The content type of the `OpenMetrics` text that Prometheus asks for.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Responds with a page of metrics, which must end with `# EOF`.
#[must_use]
pub fn respond(page: &str) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], of_program() + page).into_response()
}

/// Returns the metrics of this program, under the names common to all programs.
fn of_program() -> String {
    let mut registry = Registry::default();
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    let build = Samples(vec![(version, Gauge::new(1.0))]);
    registry.register("rampmeter_build_info", "1, with the version of the program", build);
    register_process(&mut registry);
    let mut text = String::new();
    encode_registry(&mut text, &registry).expect("a string can always be written to");
    text
}

/// Registers metrics of this process, except unreadable ones: containers may hide them, other systems lack `/proc`.
#[cfg(target_os = "linux")]
fn register_process(registry: &mut Registry) {
    use procfs::process::{LimitValue, Process};
    use prometheus_client::metrics::counter::ConstCounter;
    let Ok(process) = Process::myself() else { return };
    let mut gauge = |name: &str, help: &str, value: f64| registry.register(name, help, one(Gauge::new(value)));
    if let Ok(open) = process.fd_count() {
        gauge("process_open_fds", "Open files and connections", open as f64);
    }
    if let Ok(LimitValue::Value(most)) = process.limits().map(|limits| limits.max_open_files.soft_limit) {
        gauge("process_max_fds", "The most files and connections that may be open", most as f64);
    }
    let Ok(stat) = process.stat() else { return };
    let secs = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
    gauge("process_resident_memory_bytes", "Memory in use", (stat.rss * procfs::page_size()) as f64);
    gauge("process_virtual_memory_bytes", "Memory that is addressed", stat.vsize as f64);
    gauge("process_threads", "Threads of the process", stat.num_threads as f64);
    if let Ok(boot) = procfs::boot_time_secs() {
        let start = boot as f64 + secs(stat.starttime);
        gauge("process_start_time_seconds", "When the process began, in seconds since 1970", start);
    }
    let used = one(ConstCounter::new(secs(stat.utime + stat.stime)));
    registry.register("process_cpu_seconds", "Time on processors, the kernel's work included", used);
}

#[cfg(not(target_os = "linux"))]
fn register_process(_: &mut Registry) {}

#[cfg(target_os = "linux")]
fn one<V>(value: V) -> Samples<V> {
    Samples(vec![(Vec::new(), value)])
}
