//! The files of the page, which are part of the binary.

/// A file, as the browser gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its name below `/assets/`.
    pub name: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// What each address of a view begins with.
pub const PAGE: &str = include_str!("page/index.html");

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($name:literal as $media_type:expr),+ $(,)?) => {
        &[$(Asset { name: $name, media_type: $media_type, text: include_str!(concat!("page/", $name)) }),+]
    };
}

/// What the page loads.
pub const ASSETS: &[Asset] = assets![
    "icon.svg" as SVG,
    "theme.css" as CSS,
    "layout.css" as CSS,
    "parts.css" as CSS,
    "main.js" as JAVASCRIPT,
    "address.js" as JAVASCRIPT,
    "session.js" as JAVASCRIPT,
    "poll.js" as JAVASCRIPT,
    "router.js" as JAVASCRIPT,
    "dom.js" as JAVASCRIPT,
    "format.js" as JAVASCRIPT,
    "parts.js" as JAVASCRIPT,
    "table.js" as JAVASCRIPT,
    "estimates.js" as JAVASCRIPT,
    "views/queues.js" as JAVASCRIPT,
    "views/queue.js" as JAVASCRIPT,
    "views/jobs.js" as JAVASCRIPT,
    "views/job.js" as JAVASCRIPT,
    "views/explanation.js" as JAVASCRIPT,
    "views/gates.js" as JAVASCRIPT,
    "views/flavors.js" as JAVASCRIPT,
];

/// The file of this name.
pub fn named(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the policy for content forbids would not work; here it fails at once.
    #[test]
    fn the_page_has_no_inline_code_and_asks_nobody_else() {
        let all = ASSETS.iter().map(|asset| (asset.name, asset.text));
        for (name, text) in all.chain([("index.html", PAGE)]) {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                " style=",
                " onclick=",
                "https://",
                "<style",
                "localStorage.setItem(\"token",
            ] {
                assert!(!text.contains(forbidden), "{name} has {forbidden}");
            }
            let links = text.matches("http://").count();
            let names = text.matches("http://www.w3.org/").count();
            assert_eq!(links, names, "{name} names another server");
        }
        assert_eq!(
            PAGE.matches("<script").count(),
            PAGE.matches("<script type=\"module\" src=").count()
        );
    }

    #[test]
    fn each_module_that_is_imported_is_served() {
        for asset in ASSETS.iter().filter(|asset| asset.media_type == JAVASCRIPT) {
            let folder = asset.name.rsplit_once('/').map_or("", |(folder, _)| folder);
            for line in asset.text.lines().filter(|line| line.contains(" from \"")) {
                let path = line.rsplit(" from \"").next().unwrap();
                let path = path.trim_end_matches(['"', ';']);
                let name = match (path.strip_prefix("../"), path.strip_prefix("./")) {
                    (Some(above), _) => above.to_owned(),
                    (None, Some(beside)) if folder.is_empty() => beside.to_owned(),
                    (None, Some(beside)) => format!("{folder}/{beside}"),
                    (None, None) => panic!("{}: {line}", asset.name),
                };
                assert!(named(&name).is_some(), "{} imports {name}", asset.name);
            }
        }
    }
}
