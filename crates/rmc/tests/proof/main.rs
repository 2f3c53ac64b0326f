//! Promises of the controller, tested from outside: its stages one by one, scripts over a rack
//! of two or three nodes, random and hostile traffic, and model checking.

mod model;
mod random;
mod rig;
mod scripts;
mod stages;
