//! The built-in set: classic shapes, with everything that may stand between two accesses.
//!
//! Of shapes with two threads and two places, all pairs are taken; of others each alternative in each place, the other
//! places being empty or full fences. A test is made as text, in the form of files.

mod link;
mod shape;
mod write;

use self::link::{FULL, Link, NOTHING, links};
use self::shape::{Access, Shape, shapes};

/// A built-in test.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    /// Name of its shape, such as `MP`.
    pub shape: &'static str,
    /// Shape, and what stands in its places, such as `MP+fence.w.w+addr`.
    pub name: String,
    /// In the form of files.
    pub text: String,
}

/// All tests, shape by shape.
pub fn built_in() -> Vec<BuiltIn> {
    shapes().flat_map(|shape| of_shape(&shape)).collect()
}

fn of_shape(shape: &Shape) -> Vec<BuiltIn> {
    let places: Vec<(Access, Access)> = shape
        .threads
        .iter()
        .flat_map(|accesses| accesses.windows(2).map(|pair| (pair[0], pair[1])))
        .collect();
    choices(shape, &places).iter().map(|choice| made(shape, choice)).collect()
}

/// A link for each place.
fn choices(shape: &Shape, places: &[(Access, Access)]) -> Vec<Vec<Link>> {
    let alternatives: Vec<Vec<Link>> =
        places.iter().map(|&(first, second)| links(first, second).collect()).collect();
    if let ([one, other], 2) = (&alternatives[..], shape.threads.len()) {
        let pairs = one.iter().enumerate().flat_map(|(number, first)| {
            let skipped = if shape.is_symmetric() { number } else { 0 };
            other[skipped.min(other.len())..].iter().map(|second| vec![*first, *second])
        });
        return pairs.collect();
    }
    let mut choices: Vec<Vec<Link>> = Vec::new();
    for around in [NOTHING, FULL] {
        for (place, alternatives) in alternatives.iter().enumerate() {
            for link in alternatives {
                let mut choice = vec![around; places.len()];
                choice[place] = *link;
                choices.push(choice);
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    choices.retain(|choice| seen.insert(choice.iter().map(|link| link.name).collect::<Vec<_>>()));
    choices
}

fn made(shape: &Shape, choice: &[Link]) -> BuiltIn {
    let mut left = choice.iter().copied();
    let by_thread: Vec<Vec<Link>> = shape
        .threads
        .iter()
        .map(|accesses| left.by_ref().take(accesses.len() - 1).collect())
        .collect();
    let links: Vec<&str> = choice.iter().map(|link| link.name).collect();
    let name = format!("{}+{}", shape.name, links.join("+"));
    let text = write::test(&name, shape, &by_thread);
    BuiltIn { shape: shape.name, name, text }
}
