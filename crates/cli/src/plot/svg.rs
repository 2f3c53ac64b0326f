//! A drawing, made element by element.

use std::fmt::Write;

/// A drawing in SVG. Coordinates are pixels from the upper left corner.
#[derive(Clone, Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Position of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

impl Svg {
    /// An empty drawing on white.
    pub fn new(width: f64, height: f64) -> Svg {
        let mut svg = Svg { width, height, body: String::new() };
        svg.rect((0.0, 0.0), (width, height), "#ffffff");
        svg
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "  {element}");
    }

    /// Draws a straight line; coordinates and width in pixels.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.element(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}" stroke-width="{width}"/>"#
        ));
    }

    /// A line through points; dashed if asked for.
    pub fn polyline(&mut self, points: &[(f64, f64)], colour: &str, dashed: bool) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dashes = if dashed { r#" stroke-dasharray="6 4""# } else { "" };
        self.element(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>"#,
            points.join(" ")
        ));
    }

    /// A filled rectangle.
    pub fn rect(&mut self, corner: (f64, f64), size: (f64, f64), colour: &str) {
        let ((x, y), (width, height)) = (corner, size);
        self.element(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"/>"#
        ));
    }

    /// A filled circle.
    pub fn circle(&mut self, centre: (f64, f64), radius: f64, colour: &str) {
        let (x, y) = centre;
        self.element(format_args!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{colour}"/>"#
        ));
    }

    /// Draws horizontal text of `size` pixels.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, size: u32, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let ((x, y), text) = (at, escaped(text));
        self.element(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}">{text}</text>"#
        ));
    }

    /// A text that is read from below.
    pub fn upright_text(&mut self, at: (f64, f64), size: u32, text: &str) {
        let ((x, y), text) = (at, escaped(text));
        let place = format_args!("translate({x:.1} {y:.1}) rotate(-90)");
        self.element(format_args!(
            r#"<text transform="{place}" text-anchor="middle" font-size="{size}">{text}</text>"#
        ));
    }

    /// The file.
    pub fn render(&self) -> String {
        let Svg { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n{body}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Checks that every element is closed and nothing is left unescaped; for the tests of drawings.
#[cfg(test)]
pub fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "stray > in {:?}", &rest[..start]);
        check_entities(&rest[..start]);
        let end = start + rest[start..].find('>').expect("an element that does not end");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in {tag}");
        check_entities(tag);
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    assert_eq!(rest.trim(), "");
}

#[cfg(test)]
fn check_entities(text: &str) {
    for part in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;"].iter().any(|entity| part.starts_with(entity));
        assert!(known, "unescaped & in {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_are_well_formed_whatever_their_texts_say() {
        let mut svg = Svg::new(100.0, 50.0);
        svg.text((1.0, 2.0), Anchor::Middle, 12, "a < b & \"c\" > d");
        svg.upright_text((1.0, 2.0), 12, "<&>");
        svg.polyline(&[(0.0, 1.0), (2.0, 3.5)], "#123456", true);
        svg.line((0.0, 0.0), (1.0, 1.0), "red", 1.5);
        svg.circle((3.0, 3.0), 2.0, "blue");
        let text = svg.render();
        assert_well_formed(&text);
        assert!(text.contains("a &lt; b &amp; &quot;c&quot; &gt; d"));
    }

    #[test]
    #[should_panic(expected = "not closed")]
    fn the_check_finds_what_is_not_closed() {
        assert_well_formed("<svg><g></g>");
    }
}
