//! Compiles the inline functions of the C headers as real symbols.

fn main() {
    // A link to the headers of the repository, so that the package has them.
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=c");
    cc::Build::new()
        .file("c/inline.c")
        .file("c/sync.c")
        .include("include")
        .std("c11")
        .opt_level(2)
        .warnings_into_errors(false)
        .compile("rackmem_inline");
}
