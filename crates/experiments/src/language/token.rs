//! Words and signs of an expression.

use super::Problem;

/// A word or sign, with its offset in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Offset in bytes.
    pub at: usize,
    /// Kind and value.
    pub kind: Kind,
}

/// Kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A number; `_` may separate digits.
    Number(f64),
    /// A text in single or double quotes.
    Text(String),
    /// A name or keyword.
    Word(String),
    /// An operator or bracket.
    Sign(&'static str),
    /// The end of the text.
    End,
}

impl Kind {
    /// The token as messages show it.
    pub fn shown(&self) -> String {
        match self {
            Kind::Number(number) => number.to_string(),
            Kind::Text(text) => format!("'{text}'"),
            Kind::Word(word) => word.clone(),
            Kind::Sign(sign) => format!("'{sign}'"),
            Kind::End => "the end".to_owned(),
        }
    }
}

/// Longer signs come before their beginnings.
const SIGNS: [&str; 19] = [
    "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "=", "(", ")", "[", "]", ",", ".",
    ":",
];

/// Splits a text into tokens; the last one is `End`.
///
/// # Errors
/// A character that starts no token, a text without its closing quote, or a malformed number.
pub fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, length) = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            c if c.is_ascii_digit() => number(rest, at)?,
            c if c.is_alphabetic() || c == '_' => word(rest),
            '\'' | '"' => quoted(rest, first, at)?,
            _ => sign(rest, at)?,
        };
        all.push(Token { at, kind });
        at += length;
    }
    all.push(Token { at, kind: Kind::End });
    Ok(all)
}

fn number(rest: &str, at: usize) -> Result<(Kind, usize), Problem> {
    let mut length = 0;
    let mut previous = ' ';
    for c in rest.chars() {
        let exponent_sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
        if !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || exponent_sign) {
            break;
        }
        length += 1;
        previous = c;
    }
    let digits: String = rest[..length].chars().filter(|&c| c != '_').collect();
    let value =
        digits.parse().map_err(|_| Problem::new(at, format!("'{digits}' is not a number")))?;
    Ok((Kind::Number(value), length))
}

fn word(rest: &str) -> (Kind, usize) {
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    (Kind::Word(rest[..end].to_owned()), end)
}

fn quoted(rest: &str, quote: char, at: usize) -> Result<(Kind, usize), Problem> {
    let inside = &rest[1..];
    let end = inside.find(quote).ok_or_else(|| Problem::new(at, format!("no closing {quote}")))?;
    Ok((Kind::Text(inside[..end].to_owned()), end + 2))
}

fn sign(rest: &str, at: usize) -> Result<(Kind, usize), Problem> {
    let found = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
    let unknown = || {
        let first: String = rest.chars().take(1).collect();
        Problem::new(at, format!("'{first}' begins nothing"))
    };
    found.map(|sign| (Kind::Sign(sign), sign.len())).ok_or_else(unknown)
}
