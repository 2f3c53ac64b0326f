//! The command `rackmem`.

fn main() -> std::process::ExitCode {
    rackmem_cli::rackmem()
}
