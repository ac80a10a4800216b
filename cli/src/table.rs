//! Text in aligned columns, as kubectl writes it. Nothing here knows what it says.

/// Space between columns.
const GAP: usize = 3;
/// What stands for nothing, as in kubectl.
pub const NONE: &str = "<none>";

/// A table with `headers`. The lines of a cell stand below each other; an empty cell stays empty.
pub fn columns(headers: &[&str], rows: &[Vec<String>], indent: usize) -> String {
    let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&headers).chain(rows).collect();
    let widths: Vec<usize> = (0..headers.len())
        .map(|column| {
            let cells = all.iter().filter_map(|row| row.get(column));
            let widths = cells.flat_map(|cell| cell.lines().map(|line| line.chars().count()));
            widths.max().unwrap_or_default()
        })
        .collect();
    let mut text = String::new();
    for row in all {
        let height = row.iter().map(|cell| cell.lines().count()).max();
        for line in 0..height.unwrap_or_default() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| {
                let part = printable(cell.lines().nth(line).unwrap_or_default());
                format!("{part:width$}{:GAP$}", "")
            });
            let written: String = std::iter::once(" ".repeat(indent)).chain(cells).collect();
            text.push_str(written.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Fields, one a line, with their values below each other.
pub fn fields(fields: &[(&str, String)], indent: usize) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or_default() + ":".len() + GAP - 1;
    let line = |(name, value): &(&str, String)| {
        let line = format!("{:indent$}{:width$}{value}", "", format!("{name}:"));
        printable(line.trim_end()) + "\n"
    };
    fields.iter().map(line).collect()
}

/// The `items`, one a line.
pub fn lines(items: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = items.into_iter().collect();
    if all.is_empty() {
        NONE.to_owned()
    } else {
        all.join("\n")
    }
}

/// The text, or what stands for nothing if it is empty.
pub fn or_none(text: impl Into<String>) -> String {
    let text = text.into();
    if text.is_empty() {
        NONE.to_owned()
    } else {
        text
    }
}

/// `text` with a space for each character that would move the cursor or worse, but for the ends of its lines and tabs.
pub fn screened(text: &str) -> String {
    let is_bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.replace(is_bad, " ")
}

/// `line` with a space for each character that would move the cursor or worse: files say what they like.
pub fn printable(line: &str) -> String {
    line.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_line() {
        let rows = [
            vec![
                "a".to_owned(),
                "cpu=1\nmemory=1Gi".to_owned(),
                "x".to_owned(),
            ],
            vec!["longer".to_owned(), String::new(), "\u{1b}[31my".to_owned()],
        ];
        assert_eq!(
            columns(&["NAME", "REQUESTS", "LAST"], &rows, 2),
            "  NAME     REQUESTS     LAST\n  \
               a        cpu=1        x\n           \
                        memory=1Gi\n  \
               longer                 [31my\n"
        );
    }

    #[test]
    fn fields_stay_on_their_lines() {
        assert_eq!(
            fields(&[("Name", "a\nb".to_owned()), ("Queue", String::new())], 0),
            "Name:   a b\nQueue:\n"
        );
    }
}
