//! One panel of the chart: layers above each other, axes, and the line of a quota.

use std::fmt::Write as _;

use crate::simulate::figures::STEPS;
use crate::simulate::span;
use crate::simulate::units::amount;

/// Width of the area that is drawn in.
pub const WIDTH: usize = 860;
/// Height of a panel with its title and axis.
pub const HEIGHT: usize = 220;
/// Height of the area that is drawn in.
const AREA: usize = 150;
/// From the top of a panel to that area.
const HEAD: usize = 32;
/// Marks at an axis, at most.
const MARKS_MAX: f64 = 8.0;

/// Seconds between marks of time.
const TIMES: [f64; 17] = [
    0.1, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 21_600.0,
    43_200.0, 86_400.0, 172_800.0, 604_800.0,
];

/// What one colour stands for.
pub struct Layer {
    /// Its name.
    pub name: String,
    /// The colour.
    pub colour: &'static str,
    /// Its value in each step.
    pub values: Vec<f64>,
}

/// A panel.
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// What is counted; none for jobs.
    pub resource: Option<String>,
    /// Where the line of the quota is.
    pub quota: Option<f64>,
    /// How long the time is that the layers are of.
    pub millis: i64,
    /// How long the axis of time is.
    pub axis_millis: i64,
    /// From the lowest to the uppermost.
    pub layers: Vec<Layer>,
}

/// The text of `name` in XML.
pub fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text
}

impl Panel {
    /// Draws it with its area at `left`, below `top`.
    pub fn draw(&self, out: &mut String, left: usize, top: usize) {
        let (most, step) = self.scale();
        let area = Area {
            left: number(left),
            top: number(top + HEAD),
            width: number(WIDTH) * seconds(self.millis) / seconds(self.axis_millis),
            most,
        };
        let title_y = top + HEAD - 10;
        let _ = writeln!(
            out,
            "<text class=\"name\" x=\"{left}\" y=\"{title_y}\">{}</text>",
            escaped(&self.title)
        );
        self.values_axis(out, &area, step);
        let mut below = vec![0.0; STEPS];
        for layer in &self.layers {
            let above: Vec<f64> = below
                .iter()
                .zip(&layer.values)
                .map(|(a, b)| a + b)
                .collect();
            if layer.values.iter().any(|value| *value != 0.0) {
                let _ = writeln!(
                    out,
                    "<path fill=\"{}\" d=\"{}\"><title>{}</title></path>",
                    layer.colour,
                    area.between(&below, &above),
                    escaped(&layer.name)
                );
            }
            below = above;
        }
        if let Some(quota) = self.quota.filter(|quota| 0.0 < *quota) {
            let y = area.y(quota);
            let (from, to) = (area.left, area.left + number(WIDTH));
            let _ = writeln!(
                out,
                "<path class=\"quota\" d=\"M{from:.0} {y:.1}H{to:.0}\"/>"
            );
        }
        self.time_axis(out, &area);
    }

    /// The upper end of the axis, and from one mark to the next.
    fn scale(&self) -> (f64, f64) {
        let totals = (0..STEPS).map(|step| {
            let values = self
                .layers
                .iter()
                .filter_map(|layer| layer.values.get(step));
            values.sum::<f64>()
        });
        let most = totals.chain(self.quota).fold(0.0, f64::max);
        let step = self.step(most);
        // Some space above the highest.
        (((most * 1.04 / step).ceil() * step).max(step), step)
    }

    /// From one mark to the next, if the axis is to reach `most`: 1, 2 or 5 of something, or a power of two
    /// for bytes.
    fn step(&self, most: f64) -> f64 {
        let is_bytes = self
            .resource
            .as_deref()
            .is_some_and(|resource| amount(resource, 102_400.0).ends_with("Ki"));
        let at_least = (most / 4.0).max(1e-3);
        if is_bytes {
            return 2_f64.powf(at_least.max(1.0).log2().ceil());
        }
        let scale = 10_f64.powf(at_least.log10().floor());
        let nice = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * scale);
        let step = nice.into_iter().find(|step| at_least <= *step * 1.000_001);
        let step = step.unwrap_or(at_least);
        match self.resource {
            Some(_) => step,
            None => step.max(1.0),
        }
    }

    fn values_axis(&self, out: &mut String, area: &Area, step: f64) {
        let right = area.left + number(WIDTH);
        let text_x = area.left - 8.0;
        let mut value = 0.0;
        while value <= area.most * 1.000_001 {
            let y = area.y(value);
            let text_y = y + 4.0;
            let label = match &self.resource {
                Some(resource) => amount(resource, value),
                None => format!("{value:.0}"),
            };
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{:.0} {y:.1}H{right:.0}\"/>\
                 <text text-anchor=\"end\" x=\"{text_x:.0}\" y=\"{text_y:.1}\">{label}</text>",
                area.left
            );
            value += step;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a picture")]
    fn time_axis(&self, out: &mut String, area: &Area) {
        let seconds = seconds(self.axis_millis);
        let (bottom, right) = (area.y(0.0), area.left + number(WIDTH));
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{:.0} {:.0}V{bottom:.0}H{right:.0}\"/>",
            area.left, area.top
        );
        let step = TIMES.into_iter().find(|step| seconds / step <= MARKS_MAX);
        let weeks = (seconds / 604_800.0 / MARKS_MAX).ceil() * 604_800.0;
        let step = step.unwrap_or(weeks);
        let mut at = 0.0;
        while at <= seconds {
            let x = area.left + at / seconds * number(WIDTH);
            let (mark_y, text_y) = (bottom + 4.0, bottom + 18.0);
            let label = span::shown((at * 1000.0).round() as i64);
            let _ = writeln!(
                out,
                "<path class=\"axis\" d=\"M{x:.1} {bottom:.0}V{mark_y:.0}\"/>\
                 <text text-anchor=\"middle\" x=\"{x:.1}\" y=\"{text_y:.0}\">{label}</text>"
            );
            at += step;
        }
    }
}

/// Where values are drawn.
struct Area {
    left: f64,
    top: f64,
    width: f64,
    most: f64,
}

impl Area {
    fn y(&self, value: f64) -> f64 {
        self.top + number(AREA) * (1.0 - value / self.most)
    }

    fn x(&self, step: usize) -> f64 {
        self.left + self.width * number(step) / number(STEPS)
    }

    /// The outline of what is between two lines of steps.
    fn between(&self, below: &[f64], above: &[f64]) -> String {
        let mut path = format!("M{:.0} {:.1}", self.left, self.y(0.0));
        self.line(
            &mut path,
            above.iter().copied().enumerate().map(|(i, v)| (i + 1, v)),
        );
        self.line(&mut path, below.iter().copied().enumerate().rev());
        path.push('Z');
        path
    }

    /// Goes up or down to each value, and on to the step beside it. Equal values make one line.
    fn line(&self, path: &mut String, points: impl Iterator<Item = (usize, f64)>) {
        let mut points = points.peekable();
        let mut last = String::new();
        while let Some((step, value)) = points.next() {
            let y = format!("{:.1}", self.y(value));
            let goes_on = points
                .peek()
                .is_some_and(|(_, next)| format!("{:.1}", self.y(*next)) == y);
            if y != last {
                let _ = write!(path, "V{y}");
            }
            if !goes_on {
                let _ = write!(path, "H{:.1}", self.x(step));
            }
            last = y;
        }
    }
}

/// Milliseconds as seconds, of which there are always some.
#[expect(clippy::cast_precision_loss, reason = "a picture")]
fn seconds(millis: i64) -> f64 {
    (millis as f64 / 1000.0).max(0.001)
}

/// A length in the picture.
#[expect(clippy::cast_precision_loss, reason = "a picture")]
fn number(length: usize) -> f64 {
    length as f64
}
