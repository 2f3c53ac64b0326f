//! Values of expressions.

use std::rc::Rc;

use serde_json::Value as Json;

use crate::nearest::nearest;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A run failed, or its report lacks what is asked for.
    Missing(String),
    /// This host or these settings do not allow to measure it.
    Untestable(String),
}

/// The value of an expression, if it has one.
pub type Outcome<T> = Result<T, Stop>;

/// A run or a report lacks something.
pub fn missing<T>(what: impl Into<String>) -> Outcome<T> {
    Err(Stop::Missing(what.into()))
}

/// What an expression can be; leaves of reports become plain values.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// A number, as Rust's f64 has it.
    Number(f64),
    /// A text, shared.
    Text(Rc<str>),
    /// True or false.
    Bool(bool),
    /// Several values.
    List(Rc<Vec<Value<'a>>>),
    /// A part of a report or of a machine: an object or an array.
    Tree(&'a Json),
    /// Nothing: what is set to it is left out.
    None,
    /// Depends on runs that have not been made yet.
    Unknown,
}

impl<'a> Value<'a> {
    /// The text as a value.
    pub fn text(text: &str) -> Value<'a> {
        Value::Text(text.into())
    }

    /// These values as one.
    pub fn list(values: Vec<Value<'a>>) -> Value<'a> {
        Value::List(Rc::new(values))
    }

    /// A part of a tree: leaves become plain values.
    pub fn of(tree: &'a Json) -> Value<'a> {
        match tree {
            Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => Value::text(text),
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Null => Value::None,
            tree => Value::Tree(tree),
        }
    }

    /// Whether it depends on runs that have not been made.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Value::Unknown)
    }

    /// The number that it is.
    ///
    /// # Errors
    /// It is none.
    pub fn number(&self) -> Outcome<f64> {
        match self {
            Value::Number(number) => Ok(*number),
            other => missing(format!("{} is not a number", other.shown(None))),
        }
    }

    /// Whether it is true.
    ///
    /// # Errors
    /// It is neither true nor false.
    pub fn bool(&self) -> Outcome<bool> {
        match self {
            Value::Bool(flag) => Ok(*flag),
            other => missing(format!("{} is neither true nor false", other.shown(None))),
        }
    }

    /// The elements of a list or an array.
    ///
    /// # Errors
    /// It is neither.
    pub fn elements(&self) -> Outcome<Vec<Value<'a>>> {
        match self {
            Value::List(list) => Ok(list.as_ref().clone()),
            Value::Tree(Json::Array(array)) => Ok(array.iter().map(Value::of).collect()),
            other => missing(format!("{} is not a list", other.shown(None))),
        }
    }

    /// A member of an object.
    ///
    /// # Errors
    /// There is none of this name; the nearest one is named.
    pub fn member(&self, name: &str) -> Outcome<Value<'a>> {
        match self {
            Value::Unknown => Ok(Value::Unknown),
            Value::Tree(Json::Object(object)) => match object.get(name) {
                Some(found) => Ok(Value::of(found)),
                None => missing(format!("no '{name}' here{}", nearest(name, object.keys()))),
            },
            Value::None => missing(format!("this run does not report what '{name}' is a part of")),
            other => missing(format!("{} has no '{name}'", other.shown(None))),
        }
    }

    /// Whether two plain values are the same.
    pub fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::None, Value::None) => true,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            _ => false,
        }
    }

    /// The value as a text: whole numbers without a point, others with so many digits after it.
    pub fn shown(&self, digits: Option<usize>) -> String {
        match (self, digits) {
            (Value::Number(number), Some(digits)) => format!("{number:.digits$}"),
            (Value::Number(number), None) => number.to_string(),
            (Value::Text(text), _) => text.to_string(),
            (Value::Bool(flag), _) => flag.to_string(),
            (Value::List(list), _) => {
                let all: Vec<String> = list.iter().map(|value| value.shown(digits)).collect();
                all.join(",")
            }
            (Value::Tree(_), _) => "a part of a report".to_owned(),
            (Value::None, _) => "nothing".to_owned(),
            (Value::Unknown, _) => "?".to_owned(),
        }
    }
}
