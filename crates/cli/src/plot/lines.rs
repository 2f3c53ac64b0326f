//! Curves over a logarithmic or linear axis.

use serde::Serialize;

use super::Svg;
use super::svg::Anchor;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 210.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
const COLOURS: [&str; 8] =
    ["#1b6ca8", "#c8553d", "#2f855a", "#7c4d9e", "#b7791f", "#4a5568", "#d53f8c", "#319795"];

/// A figure: curves with what its axes mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// Title of the figure.
    pub title: String,
    /// Label of the x axis: the parameter that is varied.
    pub x: String,
    /// Label of the y axis: the measured quantity.
    pub y: String,
    /// Whether equal factors of x, not equal steps, are equally far apart.
    pub log_x: bool,
    /// The curves.
    pub series: Vec<Series>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Label in the legend.
    pub name: String,
    /// Whether it stands beside the others as a comparison.
    pub dashed: bool,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
}

impl Plot {
    /// Draws it.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new(WIDTH, HEIGHT);
        let frame = Frame::of(self);
        svg.text(((LEFT + WIDTH - RIGHT) / 2.0, 26.0), Anchor::Middle, 15, &self.title);
        self.axes(&mut svg, &frame);
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let points: Vec<(f64, f64)> =
                series.points.iter().map(|&point| frame.place(point)).collect();
            svg.polyline(&points, colour, series.dashed);
            for &point in &points {
                svg.circle(point, 3.0, colour);
            }
            let y = TOP + 14.0 + 20.0 * number as f64;
            svg.polyline(
                &[(WIDTH - RIGHT + 14.0, y), (WIDTH - RIGHT + 42.0, y)],
                colour,
                series.dashed,
            );
            svg.text((WIDTH - RIGHT + 48.0, y + 4.0), Anchor::Start, 11, &series.name);
        }
        svg.render()
    }

    fn axes(&self, svg: &mut Svg, frame: &Frame) {
        let (x0, y0, x1) = (LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in frame.y_ticks() {
            let (_, y) = frame.place((frame.x.0, tick));
            svg.line((x0, y), (x1, y), "#e2e2e2", 1.0);
            svg.text((x0 - 6.0, y + 4.0), Anchor::End, 11, &number(tick));
        }
        for tick in frame.x_ticks(self) {
            let (x, _) = frame.place((tick, 0.0));
            svg.line((x, y0), (x, y0 + 5.0), "#404040", 1.0);
            svg.text((x, y0 + 18.0), Anchor::Middle, 11, &number(tick));
        }
        svg.line((x0, y0), (x1, y0), "#404040", 1.5);
        svg.line((x0, TOP), (x0, y0), "#404040", 1.5);
        svg.text(((x0 + x1) / 2.0, HEIGHT - 14.0), Anchor::Middle, 12, &self.x);
        svg.upright_text((18.0, f64::midpoint(TOP, y0)), 12, &self.y);
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Visible part of the plane.
struct Frame {
    x: (f64, f64),
    top: f64,
    log_x: bool,
}

impl Frame {
    fn of(plot: &Plot) -> Frame {
        let points = || plot.series.iter().flat_map(|series| &series.points);
        let low = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let high = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        let x = match (low.is_finite(), low < high) {
            (false, _) => (1.0, 2.0),
            (true, false) => (low, low + 1.0),
            (true, true) => (low, high),
        };
        Frame { x, top: if top > 0.0 { top * 1.05 } else { 1.0 }, log_x: plot.log_x && x.0 > 0.0 }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let scaled = |x: f64| if self.log_x { x.ln() } else { x };
        let part = (scaled(x) - scaled(self.x.0)) / (scaled(self.x.1) - scaled(self.x.0));
        let height = (HEIGHT - TOP - BOTTOM) * y / self.top;
        (LEFT + part * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - height)
    }

    /// Steps of 1, 2 or 5 times a power of ten, about six of them.
    fn y_ticks(&self) -> Vec<f64> {
        let rough = self.top / 6.0;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|&step| step >= rough).unwrap_or(rough);
        (0..).map(|tick| f64::from(tick) * step).take_while(|&tick| tick <= self.top).collect()
    }

    /// The places where there are points.
    fn x_ticks(&self, plot: &Plot) -> Vec<f64> {
        let points = plot.series.iter().flat_map(|series| &series.points);
        let mut ticks: Vec<f64> = points.map(|point| point.0).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::super::svg::assert_well_formed;
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        let series = vec![Series { name: "a & b".to_owned(), dashed: true, points }];
        Plot {
            title: "<t>".to_owned(),
            x: "bytes".to_owned(),
            y: "GB/s".to_owned(),
            log_x: true,
            series,
        }
    }

    #[test]
    fn plots_are_well_formed_with_many_points_one_or_none() {
        for points in [vec![(64.0, 1.0), (128.0, 3.0), (16384.0, 2.0)], vec![(64.0, 0.0)], vec![]] {
            let svg = plot(points.clone()).svg();
            assert_well_formed(&svg);
            assert_eq!(svg.matches("<circle").count(), points.len());
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn ticks_are_round_numbers() {
        let frame = Frame { x: (0.0, 1.0), top: 214.0, log_x: false };
        assert_eq!(frame.y_ticks(), [0.0, 50.0, 100.0, 150.0, 200.0]);
    }
}
