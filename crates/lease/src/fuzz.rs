//! Private parts that fuzz targets reach; compiled for fuzzing only.

pub use crate::agent::lane::fuzz as lane;
