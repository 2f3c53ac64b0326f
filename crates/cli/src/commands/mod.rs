//! One file per command.

pub mod bench;
pub mod cc;
pub mod context;
pub mod daemon;
pub mod demo;
pub mod down;
pub mod manual;
pub mod noc;
pub mod program;
pub mod reproduce;
pub mod run;
pub mod sim;
pub mod status;
pub mod top;
pub mod up;
