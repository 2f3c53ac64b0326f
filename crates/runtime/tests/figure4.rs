//! The listing of Figure 4 of the soNUMA paper, as printed, computes PageRank on a rack.

mod support;

use rackmem::protocol::Progress;
use support::TestRack;
use support::c::{self, Compiler};

#[test]
fn child() {
    if let Some((role, args)) = support::role() {
        assert_eq!(role, "daemon");
        support::be_daemon(&args);
    }
}

fn ranks_are_right(name: &str, is_cpp: bool) {
    let Some(compiler) = Compiler::first_of(is_cpp) else { return };
    let rack = TestRack::start(name, 2);
    let mut ctx_id = 0;
    for level in ["-O0", "-O2"] {
        // The listing leaves a parameter unused.
        let flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-parameter", level];
        let program = compiler.link(&c::source("figure4.c"), &format!("figure4{level}"), &flags);
        for progress in Progress::ALL {
            for arguments in [&[][..], &["unregistered"][..]] {
                rack.rack.create_context(ctx_id, 0o600).unwrap();
                c::run_on_nodes(&rack, ctx_id, progress, 0, &program, arguments);
                ctx_id += 1;
            }
        }
    }
}

#[test]
fn in_c11() {
    ranks_are_right("figure4-c", false);
}

#[test]
fn in_cpp17() {
    ranks_are_right("figure4-cpp", true);
}
