//! The key that was probably meant by another one.

/// Keys of the same section are so much more alike.
const SAME_SECTION: f64 = 0.2;

/// Keys with the same first word, such as `rrpp`, are so much nearer: it names their subject.
const SAME_STEM: f64 = 0.2;

/// The least likeness of a key that was meant.
const LEAST: f64 = 0.6;

/// The known path that is most like this one: its last part counts, and its section decides between equals.
pub fn nearest<'a>(path: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let rated = known.into_iter().map(|known| (likeness(path, known), known));
    let near = rated.filter(|&(likeness, known)| likeness + stem(path, known) > LEAST);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

fn likeness(path: &str, known: &str) -> f64 {
    let [(section, key), (known_section, known_key)] = [path, known].map(parts);
    let (key, known_key) = match section == known_section {
        true => (key, known_key),
        false => without_unit(key, known_key),
    };
    strsim::normalized_damerau_levenshtein(key, known_key)
        + SAME_SECTION * strsim::normalized_damerau_levenshtein(section, known_section)
}

/// Two keys of several words are nearer by this much if they have the same first one.
fn stem(path: &str, known: &str) -> f64 {
    match [path, known].map(|path| parts(path).1.split_once('_')) {
        [Some((stem, _)), Some((same, _))] if stem == same => SAME_STEM,
        _ => 0.0,
    }
}

/// Section, which is empty if there is none, and key.
fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// Without the last word if both have it, such as `cycles`: it makes keys of different sections no more alike.
fn without_unit<'a>(key: &'a str, other: &'a str) -> (&'a str, &'a str) {
    match (key.rsplit_once('_'), other.rsplit_once('_')) {
        (Some((key, unit)), Some((other, same))) if unit == same => (key, other),
        _ => (key, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::schema::Schema;

    #[test]
    fn a_slip_in_any_key_leads_to_it() {
        let schema = Schema::new();
        for path in schema.paths() {
            let (section, key) = parts(path);
            // A letter too few, or one too many.
            let slips = [key[..key.len() - 1].to_owned(), format!("{key}e")];
            for slip in slips.map(|key| format!("{section}.{key}")) {
                let slip = slip.trim_start_matches('.');
                if schema.paths().all(|known| known != slip) {
                    assert_eq!(nearest(slip, schema.paths()), Some(path), "{slip}");
                }
            }
        }
    }

    #[test]
    fn the_section_decides_between_equal_keys() {
        let known = ["llc.banks", "l1.ways", "llc.ways", "dram.ways"];
        assert_eq!(nearest("l1.way", known), Some("l1.ways"));
        assert_eq!(nearest("lcl.ways", known), Some("llc.ways"));
        assert!(nearest("ways", known).is_some_and(|near| near.ends_with(".ways")));
    }

    #[test]
    fn a_unit_makes_keys_of_different_sections_no_more_alike() {
        let known =
            ["noc.ejection_cycles", "noc.hop_cycles", "cpu.fp_mul_cycles", "noc.local_cycles"];
        assert_eq!(nearest("run.watchdog_cycles", known), None);
        assert_eq!(nearest("ni.rrpp_reply_cycles", known), None);
        let stem = ["cpu.fp_mul_cycles", "rmc.rrpp_requests", "rmc.forward_cycles"];
        assert_eq!(nearest("ni.rrpp_reply_cycles", stem), Some("rmc.rrpp_requests"));
        assert_eq!(nearest("ni.eject_cycles", known), Some("noc.ejection_cycles"));
        assert_eq!(nearest("noc.ejection", known), Some("noc.ejection_cycles"));
        assert_eq!(nearest("noc.hop_cycels", known), Some("noc.hop_cycles"));
        let other = [known[0], known[3]];
        assert_eq!(nearest("noc.hop_cycles", other), Some("noc.local_cycles"));
    }
}
