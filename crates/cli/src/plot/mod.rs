//! Drawings in SVG: curves ([`lines`]) and loads of links ([`heat`]).

pub mod heat;
pub mod lines;
pub(crate) mod svg;

pub use svg::Svg;
