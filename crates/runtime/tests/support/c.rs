//! Programs in C and C++ for tests: compilers, librackmem, sanitizers.

#![allow(dead_code)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rackmem::protocol::Progress;

use super::TestRack;

/// Bound on a program that says nothing: it hangs. Sanitizers and a busy machine are slow, so those
/// that take long tell how far they are.
const PROGRAM_BOUND: Duration = Duration::from_secs(120);

/// A language and the compiler that takes it.
#[derive(Clone, Debug)]
pub struct Compiler {
    command: String,
    standard: &'static str,
}

impl Compiler {
    /// `$CC` or `cc` as C11: there is no test without it.
    pub fn c11() -> Compiler {
        let command = std::env::var("CC").ok().filter(|cc| !cc.is_empty());
        Compiler { command: command.unwrap_or_else(|| "cc".to_owned()), standard: "c11" }
    }

    /// GCC and Clang, as C11 and as C++17; those that are not installed are named and left out.
    pub fn all() -> Vec<Compiler> {
        let known = [("gcc", "c11"), ("g++", "c++17"), ("clang", "c11"), ("clang++", "c++17")];
        let installed = known.into_iter().filter(|(command, _)| {
            let answer = Command::new(command)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            let works = answer.is_ok_and(|status| status.success());
            if !works {
                eprintln!("not tested with {command}: it is not installed");
            }
            works
        });
        let all: Vec<Compiler> = installed
            .map(|(command, standard)| Compiler { command: command.to_owned(), standard })
            .collect();
        assert!(!all.is_empty(), "neither GCC nor Clang is installed");
        all
    }

    /// Those of [`Compiler::all`] for C (`false`) or C++.
    pub fn first_of(is_cpp: bool) -> Option<Compiler> {
        Compiler::all().into_iter().find(|compiler| compiler.is_cpp() == is_cpp)
    }

    pub fn is_cpp(&self) -> bool {
        self.standard.starts_with("c++")
    }

    /// For messages and file names.
    pub fn name(&self) -> String {
        let command = self.command.rsplit('/').next().unwrap_or_default();
        format!("{command}-{}", self.standard).replace(' ', "-")
    }

    /// Compiles `source` with these arguments (flags, `-o`, libraries).
    ///
    /// # Panics
    /// With what the compiler says, if it says anything bad.
    pub fn compile(&self, source: &Path, arguments: &[&str]) {
        // `$CC` may have arguments, as in `ccache gcc`.
        let mut words = self.command.split_whitespace();
        let output = Command::new(words.next().unwrap())
            .args(words)
            .arg(format!("-std={}", self.standard))
            .args(["-x", if self.is_cpp() { "c++" } else { "c" }])
            .arg("-I")
            .arg(include_dir())
            .arg(source)
            .args(["-x", "none"])
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", self.command));
        assert!(
            output.status.success(),
            "{} {arguments:?} {}:\n{}",
            self.name(),
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Compiles and links a program with librackmem; returns where it is.
    pub fn link(&self, source: &Path, name: &str, flags: &[&str]) -> PathBuf {
        let program = scratch_dir().join(format!("{name}-{}", self.name()));
        let library = static_library();
        let mut arguments = vec!["-g", "-pthread", "-o", program.to_str().unwrap()];
        arguments.extend(flags);
        arguments.extend([library.to_str().unwrap(), "-lpthread", "-ldl", "-lm"]);
        self.compile(source, &arguments);
        program
    }
}

/// AddressSanitizer and UndefinedBehaviorSanitizer; the first finding ends the program.
pub const SANITIZE: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// Lets the sanitizers speak: leaks are errors, too.
pub fn sanitizer_environment(command: &mut Command) -> &mut Command {
    command
        .env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
        .env("UBSAN_OPTIONS", "print_stacktrace=1")
}

/// `crates/runtime/tests/c/<name>`
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

pub fn include_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

/// Directory for the files that this test binary builds; each binary has its own.
pub fn scratch_dir() -> PathBuf {
    let name = env!("CARGO_CRATE_NAME");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// `librackmem.a`, of the same code as the library that this test is linked with.
pub fn static_library() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        // <target>[/<triple>]/<profile>/deps/<test>: Cargo builds the library there, too, with a number in its name.
        let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let built = std::fs::read_dir(&deps).unwrap().flatten().filter(|entry| {
            let name = entry.file_name().into_string().unwrap_or_default();
            name.starts_with("librackmem-") && name.ends_with(".a")
        });
        let newest = built.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
        newest.map_or_else(
            || build_library(deps.parent().unwrap()).join("librackmem.a"),
            |entry| entry.path(),
        )
    })
}

/// `librackmem.so`, made of the former as `make` does.
pub fn shared_library() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = scratch_dir().join("librackmem.so");
        let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/librackmem.map");
        let status = Command::new("cc")
            .args(["-shared", "-Wl,-soname,librackmem.so", "-Wl,--gc-sections", "-Wl,-z,defs"])
            .arg(format!("-Wl,--version-script,{}", map.display()))
            .arg("-o")
            .arg(&path)
            .arg("-Wl,--whole-archive")
            .arg(static_library())
            .args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm", "-lgcc_s"])
            .status()
            .unwrap();
        assert!(status.success(), "librackmem.so does not link");
        path
    })
}

/// For test binaries without the library beside them.
fn build_library(profile_dir: &Path) -> PathBuf {
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--package", "rackmem", "--lib", "--profile", profile])
        .env("CARGO_TARGET_DIR", profile_dir.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "librackmem does not build");
    profile_dir.to_owned()
}

/// Runs a program once per node of a context, as `rackmem run` does; all must end with success.
///
/// # Panics
/// With what the programs said, if one fails or hangs.
pub fn run_on_nodes(
    rack: &TestRack,
    ctx_id: u16,
    progress: Progress,
    segment_bytes: u64,
    program: &Path,
    args: &[&str],
) {
    let nodes = rack.daemons.len();
    let log = |nid: usize| {
        let name = program.file_name().unwrap().to_str().unwrap();
        scratch_dir().join(format!("{name}-{}-{nid}.log", rack.rack.name()))
    };
    let mut children: Vec<Child> = (0..nodes)
        .map(|nid| {
            let output = File::create(log(nid)).unwrap();
            sanitizer_environment(&mut Command::new(program))
                .args(args)
                .env("RACKMEM_RACK", rack.rack.name())
                .env("RACKMEM_NODE", nid.to_string())
                .env("RACKMEM_NODES", nodes.to_string())
                .env("RACKMEM_CONTEXT", ctx_id.to_string())
                .env("RACKMEM_CONTEXT_SIZE", segment_bytes.to_string())
                .env("RACKMEM_PROGRESS", progress.name())
                .stdin(Stdio::null())
                .stdout(output.try_clone().unwrap())
                .stderr(output)
                .spawn()
                .unwrap()
        })
        .collect();
    let logs: Vec<PathBuf> = (0..nodes).map(log).collect();
    let failure = watch(&mut children, &logs);
    if let Some(failure) = failure {
        let said: String = (0..nodes)
            .map(|nid| {
                let text = std::fs::read(log(nid)).unwrap_or_default();
                format!("node {nid}:\n{}\n", String::from_utf8_lossy(&text))
            })
            .collect();
        panic!("{} by {}: {failure}\n{said}", program.display(), progress.name());
    }
}

/// Waits for all; after the first failure, or too long a silence, the others are killed.
fn watch(children: &mut [Child], logs: &[PathBuf]) -> Option<String> {
    let said = || -> u64 {
        logs.iter().map(|log| std::fs::metadata(log).map_or(0, |file| file.len())).sum()
    };
    let (mut heard, mut since) = (said(), Instant::now());
    let mut failure = None;
    while failure.is_none() {
        let mut running = false;
        for (nid, child) in children.iter_mut().enumerate() {
            match child.try_wait().unwrap() {
                None => running = true,
                Some(status) if !status.success() => {
                    failure = Some(format!("node {nid}: {status}"));
                }
                Some(_) => {}
            }
        }
        if !running {
            return failure;
        }
        let now = said();
        if now != heard {
            (heard, since) = (now, Instant::now());
        } else if since.elapsed() > PROGRAM_BOUND {
            failure = Some("no end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    for child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
    failure
}

/// Runs a program that needs no rack.
///
/// # Panics
/// With what it said, if it fails or hangs.
pub fn run_alone(program: &Path, args: &[&str]) {
    let name = program.file_name().unwrap().to_str().unwrap();
    let log = scratch_dir().join(format!("{name}.log"));
    let output = File::create(&log).unwrap();
    let mut command = Command::new(program);
    let child = sanitizer_environment(&mut command)
        .args(args)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    if let Some(failure) = watch(&mut [child], std::slice::from_ref(&log)) {
        let said = std::fs::read(log).unwrap_or_default();
        panic!("{}: {failure}\n{}", program.display(), String::from_utf8_lossy(&said));
    }
}
