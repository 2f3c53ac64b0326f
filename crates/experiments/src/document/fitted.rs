//! Claims that a parameter of a machine, or a definition of the file, was fitted to.

use super::Document;
use crate::variation::open_parameters;

impl Document {
    /// Notes which claims say nothing, as a parameter was chosen with their value in view.
    ///
    /// # Errors
    /// A machine cannot be read, it or the file names a claim that the paper does not make, or the file a definition
    /// that it does not have.
    pub(super) fn find_fitted(&mut self) -> Result<(), String> {
        for (machine, open) in open_parameters(self)? {
            let parameter = format!("{} of {machine}", open.path);
            self.add_fitted(&parameter, &open.fitted, &format!("{}: {}", open.origin, open.path))?;
        }
        for (name, patterns) in self.chosen.clone() {
            if !self.definitions.contains_key(&name) {
                return Err(format!("fitted: there is no '{name}'"));
            }
            self.add_fitted(&name, &patterns, &format!("fitted: {name}"))?;
        }
        Ok(())
    }

    /// `place` is where the patterns stand, for errors.
    fn add_fitted(
        &mut self,
        parameter: &str,
        patterns: &[String],
        place: &str,
    ) -> Result<(), String> {
        let of_this_paper =
            |pattern: &&String| pattern.split('/').next() == Some(self.paper.as_str());
        if let Some(pattern) = patterns.iter().find(|pattern| !pattern.contains('/')) {
            return Err(format!("{place}: '{pattern}' is no claim; write paper/claim"));
        }
        for pattern in patterns.iter().filter(of_this_paper) {
            let ids = self.published.iter().filter(|claim| is_meant(pattern, &claim.id));
            let ids: Vec<String> = ids.map(|claim| claim.short_id().to_owned()).collect();
            if ids.is_empty() {
                return Err(format!("{place}: the paper has no claim '{pattern}'"));
            }
            self.fitted.extend(ids.into_iter().map(|id| (id, parameter.to_owned())));
        }
        Ok(())
    }
}

fn is_meant(pattern: &str, id: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == id, |begin| id.starts_with(begin))
}
