//! Functions of the language.

use serde_json::Value as Json;

use super::value::{Outcome, Value, missing};

/// A function: its name, the number of its arguments, and what it gives.
pub struct Function {
    /// Name in expressions.
    pub name: &'static str,
    /// Fewest and most arguments.
    pub arguments: (usize, usize),
    /// Line of the help.
    pub help: &'static str,
    /// Its value; no argument is unknown, but elements of lists may be.
    pub apply: for<'a> fn(&[Value<'a>]) -> Outcome<Value<'a>>,
}

const ANY: usize = usize::MAX;

/// All functions that take plain values.
pub const FUNCTIONS: &[Function] = &[
    of("abs", (1, 1), "absolute value", |v| number(v[0].number()?.abs())),
    of("ceil", (1, 1), "smallest integer not below it", |v| number(v[0].number()?.ceil())),
    of("floor", (1, 1), "largest integer not above it", |v| number(v[0].number()?.floor())),
    of("sqrt", (1, 1), "square root", |v| number(v[0].number()?.sqrt())),
    of("log2", (1, 1), "logarithm to the base 2", |v| number(v[0].number()?.log2())),
    of("ln", (1, 1), "natural logarithm", |v| number(v[0].number()?.ln())),
    of("number", (1, 1), "the number that a text or a flag stands for", to_number),
    of("text", (1, 1), "a value as a text", |v| Ok(Value::text(&v[0].shown(None)))),
    of("after", (2, 2), "what follows in a text after another", |v| {
        let (whole, start) = (v[0].shown(None), v[1].shown(None));
        match whole.split_once(start.as_str()) {
            Some((_, rest)) => Ok(Value::text(rest)),
            None => missing(format!("'{whole}' has no '{start}'")),
        }
    }),
    of("join", (2, 2), "elements of a list as one text", |v| {
        let all = v[0].elements()?;
        if all.iter().any(Value::is_unknown) {
            return Ok(Value::Unknown);
        }
        let all: Vec<String> = all.iter().map(|value| value.shown(None)).collect();
        Ok(Value::text(&all.join(&v[1].shown(None))))
    }),
    of("size", (1, 1), "number of the elements of a list", |v| {
        let all = v[0].elements()?;
        match all.iter().any(Value::is_unknown) {
            true => Ok(Value::Unknown),
            false => number(all.len() as f64),
        }
    }),
    of("indices", (1, 1), "0, 1, ... for the elements of a list", |v| {
        let all = 0..v[0].elements()?.len();
        Ok(Value::list(all.map(|at| Value::Number(at as f64)).collect()))
    }),
    of("max", (1, ANY), "largest of the arguments, or of a list", |v| fold(v, f64::max)),
    of("min", (1, ANY), "smallest of the arguments, or of a list", |v| fold(v, f64::min)),
    of("sum", (1, ANY), "sum of the arguments, or of a list", |v| {
        known(v, |all| Ok(all.iter().sum()))
    }),
    of("mean", (1, ANY), "mean of the arguments, or of a list", |v| {
        known(v, |all| match all.len() {
            0 => missing("there is nothing to take the mean of"),
            count => Ok(all.iter().sum::<f64>() / count as f64),
        })
    }),
    of("first", (1, 2), "first element of a list; the second argument if it is empty", |v| {
        end_of(v, |all| all.first().cloned())
    }),
    of("last", (1, 2), "last element of a list; the second argument if it is empty", |v| {
        end_of(v, |all| all.last().cloned())
    }),
    of("any", (1, 1), "whether one of a list is true", |v| {
        flags(&v[0], |all| all.iter().any(|&is| is))
    }),
    of("all", (1, 1), "whether all of a list are true", |v| {
        flags(&v[0], |all| all.iter().all(|&is| is))
    }),
    of("count", (1, 1), "elements of a list that are true", |v| {
        let all = v[0].elements()?;
        if all.iter().any(Value::is_unknown) {
            return Ok(Value::Unknown);
        }
        let flags: Outcome<Vec<bool>> = all.iter().map(Value::bool).collect();
        number(flags?.into_iter().filter(|&is| is).count() as f64)
    }),
    of("distinct", (1, 1), "the numbers of a list in rising order, each once", |v| {
        let all = v[0].elements()?;
        if all.iter().any(Value::is_unknown) {
            return Ok(Value::Unknown);
        }
        let mut all: Vec<f64> = all.iter().map(Value::number).collect::<Outcome<_>>()?;
        all.sort_by(f64::total_cmp);
        all.dedup();
        Ok(Value::list(all.into_iter().map(Value::Number).collect()))
    }),
    of("correlation", (1, 1), "Pearson's coefficient of a list of pairs", correlation),
    of("total", (2, 2), "sum of the counters whose path ends so", |v| match &v[0] {
        Value::Tree(Json::Object(counters)) => {
            let end = v[1].shown(None);
            let of_end = counters.iter().filter(|(path, _)| path.ends_with(&end));
            let all: Vec<f64> = of_end.filter_map(|(_, value)| value.as_f64()).collect();
            match all.is_empty() {
                true => missing(format!("nothing is counted by {end}")),
                false => number(all.iter().sum()),
            }
        }
        other => missing(format!("{} has no counters", other.shown(None))),
    }),
];

const fn of(
    name: &'static str,
    arguments: (usize, usize),
    help: &'static str,
    apply: for<'a> fn(&[Value<'a>]) -> Outcome<Value<'a>>,
) -> Function {
    Function { name, arguments, help, apply }
}

fn number<'a>(value: f64) -> Outcome<Value<'a>> {
    Ok(Value::Number(value))
}

fn to_number<'a>(values: &[Value<'a>]) -> Outcome<Value<'a>> {
    match &values[0] {
        Value::Bool(flag) => number(f64::from(u8::from(*flag))),
        Value::Text(text) => match text.parse() {
            Ok(value) => number(value),
            Err(_) => missing(format!("'{text}' is not a number")),
        },
        value => number(value.number()?),
    }
}

/// Elements of the only argument, which is a list, or all arguments.
fn operands<'a>(values: &[Value<'a>]) -> Outcome<Vec<Value<'a>>> {
    match values {
        [only @ (Value::List(_) | Value::Tree(Json::Array(_)))] => only.elements(),
        all => Ok(all.to_vec()),
    }
}

/// A number of all operands; unknown if one of them is.
fn known<'a>(values: &[Value<'a>], combine: impl Fn(&[f64]) -> Outcome<f64>) -> Outcome<Value<'a>> {
    let all = operands(values)?;
    if all.iter().any(Value::is_unknown) {
        return Ok(Value::Unknown);
    }
    let numbers: Vec<f64> = all.iter().map(Value::number).collect::<Outcome<_>>()?;
    number(combine(&numbers)?)
}

fn fold<'a>(values: &[Value<'a>], better: fn(f64, f64) -> f64) -> Outcome<Value<'a>> {
    known(values, |all| match all.iter().copied().reduce(better) {
        Some(best) => Ok(best),
        None => missing("there is nothing to choose from"),
    })
}

/// An element of the list, if it is certain that no unknown one comes before; else the second argument.
fn end_of<'a>(
    values: &[Value<'a>],
    choose: fn(&[Value<'a>]) -> Option<Value<'a>>,
) -> Outcome<Value<'a>> {
    let all = values[0].elements()?;
    if all.iter().any(Value::is_unknown) {
        return Ok(Value::Unknown);
    }
    match choose(&all).or_else(|| values.get(1).cloned()) {
        Some(found) => Ok(found),
        None => missing("nothing is so"),
    }
}

fn flags<'a>(list: &Value<'a>, combine: fn(&[bool]) -> bool) -> Outcome<Value<'a>> {
    let all = list.elements()?;
    if all.iter().any(Value::is_unknown) {
        return Ok(Value::Unknown);
    }
    let flags: Vec<bool> = all.iter().map(Value::bool).collect::<Outcome<_>>()?;
    Ok(Value::Bool(combine(&flags)))
}

/// 0 if one side does not vary.
fn correlation<'a>(values: &[Value<'a>]) -> Outcome<Value<'a>> {
    let mut pairs = Vec::new();
    for pair in values[0].elements()? {
        let pair = pair.elements()?;
        if pair.iter().any(Value::is_unknown) {
            return Ok(Value::Unknown);
        }
        match pair.as_slice() {
            [a, b] => pairs.push((a.number()?, b.number()?)),
            _ => return missing("a correlation is of pairs"),
        }
    }
    let count = pairs.len() as f64;
    let mean_a = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
    let mean_b = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        let (a, b) = (a - mean_a, b - mean_b);
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    number(if aa == 0.0 || bb == 0.0 { 0.0 } else { ab / (aa * bb).sqrt() })
}
