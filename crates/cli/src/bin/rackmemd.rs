//! The daemon of one node, for those who start nodes by other means than `rackmem up`.

fn main() -> std::process::ExitCode {
    rackmem_cli::rackmemd()
}
