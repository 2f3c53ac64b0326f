//! The machines of borrower, lender and monitor, in every order of their steps and failures.

mod model;
mod world;
