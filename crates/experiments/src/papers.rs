//! The papers whose experiments are part of the product.

use crate::bands::Bands;
use crate::document::{Document, DocumentError};

/// A paper: its name, the text of its experiment file, and that of its claims.
pub struct Paper {
    /// Name on the command line.
    pub name: &'static str,
    /// `experiments/<name>.toml`.
    pub experiments: &'static str,
    /// `published/<name>.toml`.
    pub published: &'static str,
    /// `experiments/bands/<name>.toml`.
    pub bands: &'static str,
}

macro_rules! paper {
    ($name:literal) => {
        Paper {
            name: $name,
            experiments: include_str!(concat!("../experiments/", $name, ".toml")),
            published: include_str!(concat!("../published/", $name, ".toml")),
            bands: include_str!(concat!("../experiments/bands/", $name, ".toml")),
        }
    };
}

/// All of them, in the order of the command's help.
pub const PAPERS: [Paper; 5] = [
    paper!("manycore-ni"),
    paper!("sonuma"),
    paper!("cache-integrated-ni"),
    paper!("tsm"),
    paper!("deoi"),
];

impl Paper {
    /// Names of its parts, found without reading all of the file: for help.
    pub fn part_names(&self) -> Vec<&'static str> {
        let parts = self.experiments.split("\n[[part]]\n").skip(1);
        parts.filter_map(|part| part.strip_prefix("name = \"")?.split('"').next()).collect()
    }

    /// Its experiment file.
    ///
    /// # Errors
    /// It is damaged.
    pub fn document(&self) -> Result<Document, DocumentError> {
        let file = format!("experiments/{}.toml", self.name);
        let mut document = Document::parse(&file, self.experiments, Some(self.published))?;
        document.bands = Bands::parse(self.bands).map_err(|problem| DocumentError {
            file: format!("experiments/bands/{}.toml", self.name),
            line: None,
            problem,
        })?;
        Ok(document)
    }
}

/// An experiment file of a user. If it is of one of the papers, its claims are that paper's.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn document_of(file: &str, text: &str) -> Result<Document, DocumentError> {
    let paper =
        |line: &str| line.split_once('=').filter(|(key, _)| key.trim() == "paper").is_some();
    let named = text.lines().find(|line| paper(line)).unwrap_or_default();
    let known = PAPERS.iter().find(|known| named.contains(&format!("\"{}\"", known.name)));
    Document::parse(file, text, known.map(|known| known.published))
}
