//! Charts of pages, drawn by d3 and Observable Plot, which every page carries along.
//!
//! A page has places for charts, and their data as JSON. `frame.js` draws each into its place, at the place's width;
//! `runs.js` knows the charts of runs, `claims.js` those that hold measured values against others. Without scripts the
//! tables of a page are there all the same.

use serde_json::{Map, Value, json};

use crate::html::{self, escaped};

/// The library of scales and axes.
pub const D3: &str = include_str!("../../vendor/d3-7.9.2.min.js");
/// The library of marks, on top of it.
pub const PLOT: &str = include_str!("../../vendor/plot-0.6.17.min.js");

const SCRIPTS: [&str; 5] =
    [D3, PLOT, include_str!("frame.js"), include_str!("runs.js"), include_str!("claims.js")];

/// The charts of a page.
#[derive(Debug, Default)]
pub struct Charts {
    all: Vec<Value>,
    /// Data that all charts of a kind use, by the name of the kind.
    shared: Map<String, Value>,
}

impl Charts {
    /// Adds a chart of a kind that the scripts know, and returns its place: an element with a title and a sentence. A
    /// chart without anything to draw leaves none.
    pub fn add(&mut self, kind: &str, title: &str, said: &str, data: Value) -> String {
        let number = self.all.len();
        self.all.push(json!({ "kind": kind, "data": data }));
        let said =
            if said.is_empty() { String::new() } else { format!("<p>{}</p>", escaped(said)) };
        format!(
            "<section class=\"chart\" data-kind=\"{kind}\" data-chart=\"{number}\"><h3>{}</h3>{said}</section>\n",
            escaped(title)
        )
    }

    /// Sets the data that all charts of a kind use.
    pub fn share(&mut self, kind: &str, data: Value) {
        self.shared.insert(kind.to_owned(), data);
    }

    /// The whole page.
    pub fn page(&self, title: &str, body: &str) -> String {
        // Nothing in it may look like a tag or a comment.
        let data =
            json!({ "all": self.all, "shared": self.shared }).to_string().replace('<', "\\u003c");
        let data = format!("<script type=\"application/json\" id=\"charts\">{data}</script>\n");
        let scripts = SCRIPTS.map(|script| format!("<script>{script}</script>\n")).concat();
        html::page(title, &(body.to_owned() + &data + &scripts + "<script>drawAll()</script>\n"))
    }
}

/// Places beside each other where there is room.
pub fn side_by_side(places: &str) -> String {
    format!("<div class=\"charts\">\n{places}</div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_data_end_no_element() {
        let mut charts = Charts::default();
        let place = charts.add("lines", "a < b", "", json!({ "x": "<!--<script>" }));
        assert!(place.contains("<h3>a &lt; b</h3></section>"), "{place}");
        let page = charts.page("t", &place);
        assert!(page.contains("\\u003c!--\\u003cscript>") && !page.contains("\"<!--"));
        assert_eq!(page.matches("</script>").count(), SCRIPTS.len() + 2);
    }
}
