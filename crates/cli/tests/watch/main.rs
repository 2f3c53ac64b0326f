//! What watches a rack: `/metrics` of daemons, lenders and monitors, the live page of `rackmem top`.

#[path = "../page/browser.rs"]
mod browser;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod lenders;
mod live;
mod names;
mod operations;
mod rack;
mod text;
