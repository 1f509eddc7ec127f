//! Pictures of several runs of a world.

use crate::outcome::{Levels, Outcome};
use crate::results::report::{Group, Report};
use crate::world::World;
use plotters::coord::Shift;
use plotters::prelude::*;

/// The reason why no picture could be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the picture could not be drawn: {0}")]
pub struct PictureError(String);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

const SIZE: (u32, u32) = (960, 1200);
const HEADING: (&str, u32) = ("sans-serif", 18);
const TEXT: (&str, u32) = ("sans-serif", 13);
/// Colours that colour-blind people can distinguish (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(204, 121, 167),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(90, 90, 90),
];
/// Shortest wait shown as such, in seconds.
const SHORTEST_WAIT: f64 = 0.001;

/// Draws levels over time, waits by class, and 429s of each run of an [observed](World::observed_every) world as SVG.
///
/// # Errors
/// If something cannot be drawn, such as a world without events.
pub fn svg(world: &World, runs: &[(Report, Outcome)]) -> Result<String, PictureError> {
    let mut text = String::new();
    draw(&mut text, world, runs).map_err(|error| PictureError(error.to_string()))?;
    Ok(text)
}

fn draw(text: &mut String, world: &World, runs: &[(Report, Outcome)]) -> Drawn {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = root.split_evenly((3, 1));
    draw_levels(&panels[0], world, runs)?;
    draw_waits(&panels[1], runs)?;
    draw_rejections(&panels[2], runs)?;
    root.present()?;
    Ok(())
}

/// Draws the level of the limit that the last run used most.
fn draw_levels(area: &Area<'_>, world: &World, runs: &[(Report, Outcome)]) -> Drawn {
    let Some((last, _)) = runs.last() else { return Ok(()) };
    let limits = &world.resource.limits;
    let Some(number) = limits.iter().position(|limit| *limit.name == *last.binding) else { return Ok(()) };
    let longest = runs.iter().map(|(report, _)| report.seconds).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}: what the upstream could spend", last.binding), HEADING)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..longest, 0.0..limits[number].capacity.units() * 1.02)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(TEXT)
        .x_desc("seconds")
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .y_desc(limits[number].unit.to_string())
        .draw()?;
    for (run, (report, outcome)) in runs.iter().enumerate() {
        let level = |levels: &Levels| {
            let micros = levels.micros.get(&*limits[number].unit).copied().unwrap_or(0);
            (levels.at.nanos() as f64 / 1e9, micros as f64 / 1e6)
        };
        let line = LineSeries::new(outcome.levels.iter().map(level), &colour(run));
        let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour(run).stroke_width(3));
        chart.draw_series(line)?.label(report.strategy.as_str()).legend(key);
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .label_font(TEXT)
        .draw()?;
    Ok(())
}

/// The solid part of a bar ends at the median wait, the bar at the 99th percentile.
fn draw_waits(area: &Area<'_>, runs: &[(Report, Outcome)]) -> Drawn {
    let bars: Vec<(usize, &Report, &Group)> = runs
        .iter()
        .enumerate()
        .flat_map(|(run, (report, _))| report.classes.iter().map(move |class| (run, report, class)))
        .collect();
    let longest = bars.iter().map(|(_, _, class)| class.wait_ms.p99 / 1e3).fold(1.0, f64::max);
    let name = |bar: &usize| bars.get(*bar).map_or(String::new(), |(_, _, class)| class.name.clone());
    let mut chart =
        bar_chart(area, "waits by class in seconds, in the colours above: median solid, 99th percentile light")
            .build_cartesian_2d(
                (0..bars.len().saturating_sub(1)).into_segmented(),
                (SHORTEST_WAIT..longest * 1.5).log_scale(),
            )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(TEXT)
        .x_labels(bars.len())
        .x_label_formatter(&|bar| of_segment(bar, name))
        .draw()?;
    for (number, (run, _, class)) in bars.iter().enumerate() {
        for (millis, style) in [(class.wait_ms.p99, colour(*run).mix(0.4)), (class.wait_ms.p50, colour(*run).mix(1.0))]
        {
            let height = (millis / 1e3).max(SHORTEST_WAIT);
            chart.draw_series([bar(number, SHORTEST_WAIT, height, style.filled())])?;
        }
    }
    Ok(())
}

fn draw_rejections(area: &Area<'_>, runs: &[(Report, Outcome)]) -> Drawn {
    let most = runs.iter().map(|(report, _)| report.rejected).max().unwrap_or(0).max(1);
    let mut chart = bar_chart(area, "calls that were answered with 429")
        .build_cartesian_2d((0..runs.len().saturating_sub(1)).into_segmented(), 0.0..most as f64 * 1.1)?;
    let name = |run: &usize| {
        runs.get(*run).map_or(String::new(), |(report, _)| format!("{}: {}", report.strategy, report.rejected))
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(TEXT)
        .y_label_formatter(&|calls| format!("{calls:.0}"))
        .x_labels(runs.len())
        .x_label_formatter(&|run| of_segment(run, name))
        .draw()?;
    for (run, (report, _)) in runs.iter().enumerate() {
        chart.draw_series([bar(run, 0.0, report.rejected as f64, colour(run).filled())])?;
    }
    Ok(())
}

fn bar_chart<'a, 'b>(area: &'a Area<'b>, caption: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut chart = ChartBuilder::on(area);
    chart.caption(caption, HEADING).margin(12).x_label_area_size(36).y_label_area_size(56);
    chart
}

fn bar(number: usize, from: f64, to: f64, style: ShapeStyle) -> Rectangle<(SegmentValue<usize>, f64)> {
    let mut bar = Rectangle::new([(SegmentValue::Exact(number), from), (SegmentValue::Exact(number + 1), to)], style);
    bar.set_margin(0, 0, 8, 8);
    bar
}

fn of_segment(segment: &SegmentValue<usize>, name: impl Fn(&usize) -> String) -> String {
    match segment {
        SegmentValue::CenterOf(number) => name(number),
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    }
}

fn colour(run: usize) -> RGBColor {
    COLOURS[run % COLOURS.len()]
}
