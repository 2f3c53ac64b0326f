//! The daemon of one node, for users that start nodes by other means than `rackmem up`.

fn main() -> std::process::ExitCode {
    rackmem_cli::rackmemd()
}
