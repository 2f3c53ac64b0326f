//! Texts with expressions in braces: `nic-send/{place}/{bytes}`, `{gbps:.1} GB/s`.

use super::Problem;
use super::ast::Expr;
use super::parse::parse;

/// A text with expressions in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(pub Vec<Piece>);

/// A part of such a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Text as it is.
    Text(String),
    /// An expression, and the digits after the point that a number is shown with.
    Value(Expr, Option<usize>),
}

impl Template {
    /// The text, if there are no expressions in it.
    pub fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Parses a text. `{{` and `}}` stand for single braces.
    ///
    /// # Errors
    /// A brace without its counterpart, or what is between two is not an expression.
    pub fn parse(text: &str) -> Result<Template, Problem> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push(c);
                at += 2;
            } else if c == '{' {
                let end = rest.find('}').ok_or_else(|| Problem::new(at, "no closing }"))?;
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(value(&rest[1..end]).map_err(|problem| problem.after(at + 1))?);
                at += end + 1;
            } else if c == '}' {
                return Err(Problem::new(at, "no opening {"));
            } else {
                plain.push(c);
                at += c.len_utf8();
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template(pieces))
    }

    /// The expression, if the text is one and nothing else: its value keeps its type.
    pub fn single(&self) -> Option<&Expr> {
        match self.0.as_slice() {
            [Piece::Value(expr, None)] => Some(expr),
            _ => None,
        }
    }

    /// All expressions in the text.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Value(expr, _) => Some(expr),
            Piece::Text(_) => None,
        })
    }
}

fn value(inside: &str) -> Result<Piece, Problem> {
    let split = inside.rsplit_once(":.");
    match split.and_then(|(expr, digits)| Some((expr, digits.parse().ok()?))) {
        Some((expr, digits)) => Ok(Piece::Value(parse(expr)?, Some(digits))),
        None => Ok(Piece::Value(parse(inside)?, None)),
    }
}
