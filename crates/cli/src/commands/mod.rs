//! One file per command.

pub mod bench;
pub mod context;
pub mod daemon;
pub mod demo;
pub mod down;
pub mod manual;
pub mod noc;
pub mod program;
pub mod run;
pub mod status;
pub mod top;
pub mod up;
