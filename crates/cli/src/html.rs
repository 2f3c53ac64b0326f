//! Pages of HTML that open offline.

const STYLE: &str = include_str!("page.css");

/// A whole page, in either colour scheme.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

/// A table in a box that scrolls by itself on narrow screens.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<(&str, Vec<String>)> = rows.iter().map(|row| ("", row.clone())).collect();
    marked_table(head, &rows)
}

/// The same; each row has a class for the style sheet, or none.
pub fn marked_table(head: &[&str], rows: &[(&str, Vec<String>)]) -> String {
    let cells = |row: &[String]| -> String {
        row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect()
    };
    let begin = |class: &str| match class {
        "" => "<tr>".to_owned(),
        class => format!("<tr class=\"{class}\">"),
    };
    let head: String = head.iter().map(|name| format!("<th>{}</th>", escaped(name))).collect();
    let row = |(class, row): &(&str, Vec<String>)| format!("{}{}</tr>\n", begin(class), cells(row));
    let rows: String = rows.iter().map(row).collect();
    format!("<div class=\"wide\"><table>\n<tr>{head}</tr>\n{rows}</table></div>\n")
}

/// A text between tags.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
