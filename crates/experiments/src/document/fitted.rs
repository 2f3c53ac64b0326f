//! Claims that a parameter of a machine was fitted to.

use super::Document;
use crate::variation::open_parameters;

impl Document {
    /// Notes which claims say nothing, as a machine file has a parameter that was chosen with their value in view.
    ///
    /// # Errors
    /// A machine cannot be read, or names a claim that the paper does not make.
    pub(super) fn find_fitted(&mut self) -> Result<(), String> {
        for (machine, open) in open_parameters(self)? {
            let of_this_paper =
                |pattern: &&String| pattern.split('/').next() == Some(self.paper.as_str());
            if let Some(pattern) = open.fitted.iter().find(|pattern| !pattern.contains('/')) {
                let (origin, path) = (&open.origin, &open.path);
                return Err(format!(
                    "{origin}: {path}: '{pattern}' is no claim; write paper/claim"
                ));
            }
            for pattern in open.fitted.iter().filter(of_this_paper) {
                let ids = self.published.iter().filter(|claim| is_meant(pattern, &claim.id));
                let ids: Vec<String> = ids.map(|claim| claim.short_id().to_owned()).collect();
                if ids.is_empty() {
                    let (origin, path) = (&open.origin, &open.path);
                    return Err(format!("{origin}: {path}: the paper has no claim '{pattern}'"));
                }
                let parameter = format!("{} of {machine}", open.path);
                self.fitted.extend(ids.into_iter().map(|id| (id, parameter.clone())));
            }
        }
        Ok(())
    }
}

fn is_meant(pattern: &str, id: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == id, |begin| id.starts_with(begin))
}
