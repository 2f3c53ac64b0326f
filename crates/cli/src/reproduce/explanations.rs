//! Why claims are missed, written by hand after looking at the runs.

/// Claims and explanations. A missed claim that is not here is explained by its figures alone.
pub const EXPLANATIONS: &[(&str, &str)] = &[];

/// The explanation of this claim.
pub fn of(short_id: &str) -> Option<&'static str> {
    EXPLANATIONS.iter().find(|&&(id, _)| id == short_id).map(|&(_, text)| text)
}
