//! The two text formats that a scraper may ask for. The encoder writes OpenMetrics; the older text format differs in
//! how counters are named, and has no end mark.

use std::collections::BTreeSet;

/// A form in which metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The Prometheus text format 0.0.4.
    Text,
}

impl Exposition {
    /// What a scraper with this Accept header gets: OpenMetrics if it names that with a weight no smaller than that of
    /// the text format, as Prometheus does. Everybody else, people among them, gets the text format.
    pub fn accepted(accept: Option<&str>) -> Self {
        let (mut open, mut text) = (0.0_f64, 0.0_f64);
        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let mut weight = 1.0;
            let mut is_known = true;
            for parameter in parts {
                match parameter.split_once('=') {
                    Some(("q", q)) => weight = q.parse().unwrap_or(0.0),
                    Some(("version", version)) => {
                        is_known = ["1.0.0", "0.0.1", "0.0.4"].contains(&version);
                    }
                    _ => {}
                }
            }
            match kind {
                "application/openmetrics-text" if is_known => open = open.max(weight),
                "text/plain" if is_known => text = text.max(weight),
                _ => {}
            }
        }
        if 0.0 < open && text <= open {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// The Content-Type header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// OpenMetrics text in this form.
    pub(super) fn of(self, open: String) -> String {
        match self {
            Self::OpenMetrics => open,
            Self::Text => text_format(&open),
        }
    }
}

/// In the text format the name of a counter ends in `_total` in its HELP and TYPE lines too.
fn text_format(open: &str) -> String {
    let typed = open.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: BTreeSet<&str> = typed
        .filter_map(|typed| typed.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open.len());
    for line in open.lines() {
        let mut words = line.splitn(4, ' ');
        let (first, second) = (words.next(), words.next());
        match (first, second, words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest))
                if counters.contains(name) =>
            {
                text.extend(["# ", what, " ", name, "_total ", rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_what_it_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let cases = [
            ("nothing", None, Exposition::Text),
            ("anything", Some("*/*"), Exposition::Text),
            ("Prometheus", Some(prometheus), Exposition::OpenMetrics),
            ("curl", Some("text/plain"), Exposition::Text),
            (
                "text rather than OpenMetrics",
                Some("text/plain, application/openmetrics-text;q=0.5"),
                Exposition::Text,
            ),
            (
                "OpenMetrics refused",
                Some("application/openmetrics-text;q=0, */*"),
                Exposition::Text,
            ),
            (
                "a later OpenMetrics",
                Some("application/openmetrics-text;version=2.0.0"),
                Exposition::Text,
            ),
            ("nonsense", Some(";;q=,/"), Exposition::Text),
        ];
        for (name, accept, expected) in cases {
            assert_eq!(Exposition::accepted(accept), expected, "{name}");
        }
    }

    #[test]
    fn the_text_format_names_counters_in_full() {
        let open = "# HELP a_b Told of x.\n# TYPE a_b counter\na_b_total{q=\"# TYPE z counter\"} 1\n\
            # HELP c A level.\n# TYPE c gauge\nc 2\n# EOF\n";
        assert_eq!(
            Exposition::Text.of(open.to_owned()),
            "# HELP a_b_total Told of x.\n# TYPE a_b_total counter\na_b_total{q=\"# TYPE z counter\"} 1\n\
             # HELP c A level.\n# TYPE c gauge\nc 2\n"
        );
        assert_eq!(Exposition::OpenMetrics.of(open.to_owned()), open);
    }
}
