//! Changes of JSON as somebody could make them by hand: the fuzz target of checkpoints has them, too.

use serde_json::{Map, Value, json};

/// Changes something in it, as a source of choices says.
pub fn change(value: &mut Value, next: &mut dyn FnMut() -> u64) {
    let stays = next() % 16 == 0;
    let inner = match value {
        Value::Object(fields) if !stays => pick(fields.values_mut(), next),
        Value::Array(entries) if !stays => pick(entries.iter_mut(), next),
        _ => None,
    };
    match inner {
        Some(inner) => change(inner, next),
        None => replace(value, next),
    }
}

fn pick<'a, I: ExactSizeIterator<Item = &'a mut Value>>(
    mut values: I,
    next: &mut dyn FnMut() -> u64,
) -> Option<&'a mut Value> {
    let at = next().checked_rem(values.len() as u64)?;
    values.nth(at as usize)
}

fn replace(value: &mut Value, next: &mut dyn FnMut() -> u64) {
    if next() % 16 == 0 {
        *value =
            [json!(null), json!(7), json!([]), json!({}), json!("7")][next() as usize % 5].take();
        return;
    }
    match value {
        Value::Null => *value = json!(next()),
        Value::Bool(is_so) => *is_so = !*is_so,
        Value::Number(number) => {
            let old = number.as_u64().unwrap_or(0);
            *value = json!(changed(old, next));
        }
        Value::String(text) => match next() % 3 {
            0 => text.clear(),
            1 => *text = "/dev/zero".to_owned(),
            _ => *text = "long".repeat(300),
        },
        Value::Array(entries) => change_list(entries, next),
        Value::Object(fields) => change_fields(fields, next),
    }
}

fn changed(old: u64, next: &mut dyn FnMut() -> u64) -> u64 {
    match next() % 8 {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old.wrapping_add(4096),
        3 => old ^ 1 << (next() % 64),
        4 => (1u64 << (next() % 64)).wrapping_sub(next() % 3),
        5 => u64::MAX - next() % 3,
        6 => next() % 80,
        _ => next(),
    }
}

fn change_list(entries: &mut Vec<Value>, next: &mut dyn FnMut() -> u64) {
    let length = entries.len() as u64;
    if length == 0 {
        return entries.push(json!(next()));
    }
    let [from, to] = [next() % length, next() % length].map(|at| at as usize);
    match next() % 5 {
        0 => entries.clear(),
        1 => drop(entries.remove(from)),
        2 => entries.insert(to, entries[from].clone()),
        3 => entries.swap(from, to),
        _ => entries[to] = entries[from].clone(),
    }
}

fn change_fields(fields: &mut Map<String, Value>, next: &mut dyn FnMut() -> u64) {
    let length = fields.len() as u64;
    let name = next().checked_rem(length).and_then(|at| fields.keys().nth(at as usize).cloned());
    let Some(name) = name else {
        fields.insert((next() % 80).to_string(), json!(next()));
        return;
    };
    let value = fields.remove(&name).unwrap_or_default();
    if next() % 2 == 0 {
        fields.insert((next() % 80).to_string(), value);
    }
}
