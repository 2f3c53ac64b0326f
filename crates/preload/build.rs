//! Compiles what Rust cannot say yet: thread-local words that are reached without a call, and functions with a variable
//! number of arguments.

fn main() {
    println!("cargo:rerun-if-changed=c");
    let files = ["c/thread.c", "c/varargs.c"];
    cc::Build::new().files(files).std("c11").opt_level(2).compile("rackmem_preload_c");
}
