//! The table at the end of the demo.

use super::class::Class;
use super::figures::{Comparison, Figures};
use super::text::{percent, wait};
use crate::commands::output::table::{right_aligned, table};
use comfy_table::Table;

/// One row for each figure.
pub(super) fn render(comparison: &Comparison) -> Table {
    let Comparison { uncoordinated, coordinated } = comparison;
    let mut table = table(&["", "uncoordinated", "with permits"]);
    let mut row = |name: &str, of: &dyn Fn(&Figures) -> String| {
        table.add_row([name.to_owned(), of(uncoordinated), of(coordinated)]);
    };
    row("calls sent", &|figures| figures.sent.to_string());
    row("answered 200", &|figures| figures.ok.to_string());
    row("answered 429", &|figures| figures.rate_limited.to_string());
    row("use of the bandwidth", &|figures| percent(figures.utilisation));
    for class in Class::ALL {
        row(&format!("wait p50 / p99, {}", class.name()), &|figures| wait(figures.wait_ms[class]));
    }
    right_aligned(table, 1..3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::figures::tests::example;

    #[test]
    fn both_phases_stand_side_by_side() {
        let golden = [
            "                                   uncoordinated     with permits",
            " calls sent                                 5000             1100",
            " answered 200                               1000             1100",
            " answered 429                               4000                0",
            " use of the bandwidth                          –           99.5 %",
            " wait p50 / p99, interactive  812.5 ms / 12.35 s  0.8 ms / 2.5 ms",
            " wait p50 / p99, standard        0.0 ms / 1.0 ms  1.0 ms / 4.0 ms",
            " wait p50 / p99, bulk                          –  6.00 s / 7.00 s",
        ];
        let text = render(&example()).to_string();
        let rows: Vec<_> = text.lines().filter(|line| !line.starts_with('─')).map(str::trim_end).collect();
        assert_eq!(rows, golden);
    }
}
