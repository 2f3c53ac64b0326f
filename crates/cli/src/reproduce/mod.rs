//! `rackmem reproduce`: claims of a paper, experiments on the model, verdicts.

pub mod pool;
