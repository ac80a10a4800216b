//! Draws what was used and who waited, over time: one SVG, with a panel for each flavor and resource and one
//! for waiting jobs. The same figures give the same bytes. It adds nothing to what was found out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::basis::Owner;
use super::figures::{Figures, STEPS};
use super::units::Seconds;
use panel::{HEIGHT, Layer, Panel, WIDTH, escaped};

mod panel;

/// The colours of queues: told apart by those who see colours otherwise, on light and on dark.
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7f5fc7", "#8a9a1b",
];
/// The colour of all queues for which there is none left.
const OTHERS: &str = "#8c959f";
/// What those are called.
const OTHERS_NAME: &str = "other queues";
/// Panels of one play: more can't be looked at.
const PANELS_MAX: usize = 24;
/// Space at the left of panels, for what stands at their axes.
const LEFT: usize = 80;
/// Space at the right of panels.
const RIGHT: usize = 24;
/// From one entry of the legend to the next.
const LEGEND_STEP: usize = 210;
/// Height of a line of the legend.
const LEGEND_LINE: usize = 20;
/// Height of a title.
const TITLE: usize = 36;

const STYLE: &str = "\
.back{fill:#ffffff}
text{fill:#24292f;font:12px sans-serif}
.title{font-size:16px;font-weight:bold}
.name{font-weight:bold}
.axis{stroke:#57606a;fill:none}
.grid{stroke:#d0d7de;fill:none}
.quota{stroke:#24292f;stroke-width:1.5;stroke-dasharray:6 4;fill:none}
@media (prefers-color-scheme:dark){
.back{fill:#0d1117}
text{fill:#e6edf3}
.axis{stroke:#9198a1}
.grid{stroke:#30363d}
.quota{stroke:#e6edf3}
}
";

/// Draws `plays`, each with what it is called, one below the other.
pub fn draw(plays: &[(&str, &Figures)]) -> String {
    let colours = Colours::of(plays);
    let mut body = String::new();
    let mut top = TITLE;
    top = colours.legend(&mut body, top);
    // Plays stand below each other: the same moment is at the same place.
    let makespans = plays.iter().map(|(_, figures)| figures.makespan_seconds.0);
    let axis_millis = makespans.max().unwrap_or_default();
    for (name, figures) in plays {
        if !name.is_empty() {
            top += TITLE;
            let baseline = top - 12;
            let _ = writeln!(
                body,
                "<text class=\"title\" x=\"{LEFT}\" y=\"{baseline}\">{}</text>",
                escaped(name)
            );
        }
        for panel in panels(figures, axis_millis, &colours) {
            panel.draw(&mut body, LEFT, top);
            top += HEIGHT;
        }
    }
    let (width, height) = (LEFT + WIDTH + RIGHT, top + RIGHT);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title description\">\n\
         <title id=\"title\">Usage over time</title>\n\
         <desc id=\"description\">Usage of each flavor and resource by ClusterQueue, stacked, with the nominal quota as a dashed line; and the number of pending jobs.</desc>\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"back\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"24\">Usage over time, by ClusterQueue</text>\n\
         {body}</svg>\n"
    )
}

/// Which queue has which colour.
struct Colours(Vec<String>);

impl Colours {
    /// Colours for the queues of `plays`, those that did most first if there are too many.
    fn of(plays: &[(&str, &Figures)]) -> Self {
        let mut weights: BTreeMap<&str, f64> = BTreeMap::new();
        for (_, figures) in plays {
            let mut totals: BTreeMap<(&str, &str), f64> = BTreeMap::new();
            for usage in &figures.series.usage {
                let total = totals.entry((&usage.flavor, &usage.resource)).or_default();
                *total += usage.values.iter().sum::<f64>();
            }
            for usage in &figures.series.usage {
                let total = totals.get(&(usage.flavor.as_str(), usage.resource.as_str()));
                let part =
                    usage.values.iter().sum::<f64>() / total.copied().unwrap_or(1.0).max(1e-9);
                if 0.0 < part {
                    *weights.entry(&usage.cluster_queue).or_default() += part;
                }
            }
            for queue in figures.series.waiting.keys() {
                weights.entry(queue).or_default();
            }
        }
        let mut by_weight: Vec<(&str, f64)> = weights.into_iter().collect();
        by_weight.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        by_weight.truncate(if by_weight.len() <= COLOURS.len() {
            COLOURS.len()
        } else {
            // The last place is for all others.
            COLOURS.len() - 1
        });
        let mut names: Vec<_> = by_weight
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        names.sort();
        Self(names)
    }

    /// The number of a queue's colour; that of all others comes last.
    fn number(&self, queue: &str) -> usize {
        let known = self.0.iter().position(|name| name == queue);
        known.unwrap_or(self.0.len())
    }

    fn name(&self, number: usize) -> &str {
        self.0.get(number).map_or(OTHERS_NAME, String::as_str)
    }

    fn colour(&self, number: usize) -> &'static str {
        let known = self.0.get(number).and_then(|_| COLOURS.get(number));
        known.copied().unwrap_or(OTHERS)
    }

    /// Writes the legend below `top`. Returns where it ends.
    fn legend(&self, out: &mut String, top: usize) -> usize {
        let in_line = WIDTH / LEGEND_STEP;
        let entries = self.0.len() + usize::from(COLOURS.len() - 1 == self.0.len());
        for number in 0..=entries {
            let (x, y) = (
                LEFT + number % in_line * LEGEND_STEP,
                top + number / in_line * LEGEND_LINE,
            );
            let (text_x, text_y) = (x + 18, y + 10);
            if number == entries {
                let (line_y, line_end) = (y + 6, x + 14);
                let _ = writeln!(
                    out,
                    "<path class=\"quota\" d=\"M{x} {line_y}H{line_end}\"/>\
                     <text x=\"{text_x}\" y=\"{text_y}\">nominal quota</text>"
                );
                continue;
            }
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\"/>\
                 <text x=\"{text_x}\" y=\"{text_y}\">{}</text>",
                self.colour(number),
                escaped(&shortened(self.name(number)))
            );
        }
        top + (entries / in_line + 1) * LEGEND_LINE
    }

    /// The series of queues, one for each colour.
    fn layers<'a>(&self, series: impl Iterator<Item = (&'a str, &'a [f64])>) -> Vec<Layer> {
        let mut sums: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (queue, values) in series {
            let sum = sums
                .entry(self.number(queue))
                .or_insert_with(|| vec![0.0; STEPS]);
            for (sum, value) in sum.iter_mut().zip(values) {
                *sum += value;
            }
        }
        let layer = |(number, values)| Layer {
            name: self.name(number).to_owned(),
            colour: self.colour(number),
            values,
        };
        sums.into_iter().map(layer).collect()
    }
}

/// The panels of a play.
fn panels(figures: &Figures, axis_millis: i64, colours: &Colours) -> Vec<Panel> {
    let Seconds(millis) = figures.makespan_seconds;
    let all = figures.quotas.iter().filter(|row| row.owner == Owner::All);
    let mut panels: Vec<Panel> = all
        .take(PANELS_MAX - 1)
        .map(|row| {
            let of_cell = figures
                .series
                .usage
                .iter()
                .filter(|usage| usage.flavor == row.flavor && usage.resource == row.resource)
                .map(|usage| (usage.cluster_queue.as_str(), usage.values.as_slice()));
            Panel {
                title: format!("{} in flavor {}", row.resource, row.flavor),
                resource: Some(row.resource.clone()),
                quota: Some(row.nominal_units),
                millis,
                axis_millis,
                layers: colours.layers(of_cell),
            }
        })
        .collect();
    let waiting = &figures.series.waiting;
    let waiting = waiting
        .iter()
        .map(|(queue, values)| (queue.as_str(), values.as_slice()));
    panels.push(Panel {
        title: "Pending jobs".to_owned(),
        resource: None,
        quota: None,
        millis,
        axis_millis,
        layers: colours.layers(waiting),
    });
    panels
}

/// A name that fits into the legend.
fn shortened(name: &str) -> String {
    const CHARS_MAX: usize = 28;
    if name.chars().count() <= CHARS_MAX {
        return name.to_owned();
    }
    name.chars().take(CHARS_MAX - 1).chain(['…']).collect()
}
