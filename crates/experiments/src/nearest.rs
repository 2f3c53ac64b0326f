//! The known name that an unknown one was probably meant to be.

/// `; did you mean x?`, or nothing if no name is near.
pub fn nearest<'a, N: AsRef<str> + 'a>(wanted: &str, known: impl IntoIterator<Item = N>) -> String {
    let mut best: Option<(f64, String)> = None;
    for name in known {
        let name = name.as_ref();
        let likeness = strsim::normalized_damerau_levenshtein(wanted, name);
        if likeness > 0.5 && best.as_ref().is_none_or(|(most, _)| likeness > *most) {
            best = Some((likeness, name.to_owned()));
        }
    }
    best.map_or_else(String::new, |(_, name)| format!("; did you mean {name}?"))
}
