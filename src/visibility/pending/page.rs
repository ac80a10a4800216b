//! Which part of a list a reader asks for, by the parameters `limit` and `offset` of the query.

use crate::visibility::problem::Problem;

/// The longest page, and the one that is served if nobody says otherwise: as in Kueue.
pub const LIMIT_MAX: usize = 1000;

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// How many come before it.
    pub offset: usize,
    /// How many it has at most.
    pub limit: usize,
}

impl Page {
    /// Reads a query. Other parameters than these are left to others, as the API server does.
    ///
    /// # Errors
    /// Which parameter has which value, and what would be accepted.
    pub fn read(query: Option<&str>) -> Result<Self, Problem> {
        let mut page = Self {
            offset: 0,
            limit: LIMIT_MAX,
        };
        for pair in query.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "limit" => {
                    let parsed = value.parse().ok();
                    let limit = parsed.filter(|limit| (1..=LIMIT_MAX).contains(limit));
                    page.limit = limit.ok_or_else(|| {
                        Problem::parameter(name, value, "must be an integer from 1 to 1000")
                    })?;
                }
                "offset" => {
                    let parsed: Option<u32> = value.parse().ok();
                    let offset = parsed.and_then(|offset| usize::try_from(offset).ok());
                    page.offset = offset.ok_or_else(|| {
                        Problem::parameter(name, value, "must be an integer from 0 to 4294967295")
                    })?;
                }
                _ => {}
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_page() {
        let page = |offset, limit| Ok(Page { offset, limit });
        let limit = |value: &str| {
            Err(format!(
                "limit: Invalid value: \"{value}\": must be an integer from 1 to 1000"
            ))
        };
        let offset = |value: &str| {
            Err(format!(
                "offset: Invalid value: \"{value}\": must be an integer from 0 to 4294967295"
            ))
        };
        for (case, query, expected) in [
            ("nothing", None, page(0, 1000)),
            ("an empty query", Some(""), page(0, 1000)),
            ("a page", Some("offset=20&limit=10"), page(20, 10)),
            ("what others use", Some("timeout=3s&limit=1"), page(0, 1)),
            ("the longest", Some("limit=1000"), page(0, 1000)),
            ("too long", Some("limit=1001"), limit("1001")),
            ("no page", Some("limit=0"), limit("0")),
            ("no value", Some("limit"), limit("")),
            ("a negative one", Some("limit=-1"), limit("-1")),
            ("before the first", Some("offset=-1"), offset("-1")),
            (
                "beyond all bounds",
                Some("offset=4294967296"),
                offset("4294967296"),
            ),
            ("a word", Some("offset=a%20b"), offset("a%20b")),
        ] {
            let read = Page::read(query).map_err(|problem| problem.message());
            assert_eq!(read, expected, "{case}");
        }
    }
}
