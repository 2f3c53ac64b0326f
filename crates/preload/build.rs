//! Compiles what Rust cannot say yet: thread-local words that are reached without a call.

fn main() {
    println!("cargo:rerun-if-changed=c");
    cc::Build::new().file("c/thread.c").std("c11").opt_level(2).compile("rackmem_preload_thread");
}
