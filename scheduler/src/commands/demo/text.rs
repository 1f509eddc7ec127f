//! Figures for people.

use super::figures::Wait;

/// `97.3 %`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(unknown, |share| format!("{:.1} %", share * 100.0))
}

/// Median and 99th percentile, `1.2 ms / 3.40 s`.
pub(super) fn wait(wait: Option<Wait>) -> String {
    wait.map_or_else(unknown, |wait| format!("{} / {}", time(wait.p50), time(wait.p99)))
}

fn time(millis: f64) -> String {
    if millis < 1e3 { format!("{millis:.1} ms") } else { format!("{:.2} s", millis / 1e3) }
}

fn unknown() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([percent(Some(0.9951)), percent(Some(1.0)), percent(None)], ["99.5 %", "100.0 %", "–"]);
        assert_eq!([wait(Some(Wait { p50: 0.75, p99: 12_345.0 })), wait(None)], ["0.8 ms / 12.35 s", "–"]);
    }
}
