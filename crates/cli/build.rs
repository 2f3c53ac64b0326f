//! Compiles the C programs of `programs/` into this crate, each with its `main` under another
//! name, and writes the table by which [`src/programs.rs`] calls them.
//!
//! A file with a `main` is a program, named after itself or, if it is `main.c`, after its folder.
//! All other files are what programs share.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (programs, include) = (root.join("programs"), root.join("include"));
    let mut sources = Vec::new();
    let mut watched = vec![include.clone()];
    for entry in fs::read_dir(&programs)? {
        let path = entry?.path();
        if path.is_dir() {
            // Neither what `make` builds there nor the programs' own tests.
            if !path.ends_with("build") && !path.ends_with("tests") {
                sources.extend(c_files(&path)?);
                watched.push(path);
            }
        } else {
            sources.extend(is_c(&path).then(|| path.clone()));
            watched.push(path);
        }
    }
    for path in watched {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    sources.sort();

    let mut shared = compiler(&include);
    let mut names = Vec::new();
    for source in sources {
        match program_name(&source)? {
            None => {
                shared.file(source);
            }
            Some(name) => {
                let main = format!("rackmem_program_{name}");
                compiler(&include).define("main", main.as_str()).file(source).compile(&main);
                names.push(name);
            }
        }
    }
    shared.compile("rackmem_programs");
    fs::write(
        Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("table.rs"),
        table(&names),
    )
}

fn is_c(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "c")
}

fn c_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    Ok(paths.into_iter().filter(|path| is_c(path)).collect())
}

fn program_name(source: &Path) -> io::Result<Option<String>> {
    if !fs::read_to_string(source)?.contains("\nint main(") {
        return Ok(None);
    }
    let named_after =
        if source.ends_with("main.c") { source.parent().unwrap_or(source) } else { source };
    Ok(named_after.file_stem().map(|name| name.to_string_lossy().into_owned()))
}

fn compiler(include: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build.include(include).std("c11").opt_level(2).flag("-pthread").warnings(true);
    if let Some(zlib) = env::var_os("DEP_Z_INCLUDE") {
        build.include(zlib);
    }
    build
}

fn table(names: &[String]) -> String {
    let mut text = String::from("unsafe extern \"C\" {\n");
    for name in names {
        let _ = writeln!(
            text,
            "    fn rackmem_program_{name}(argc: c_int, argv: *mut *mut c_char) -> c_int;"
        );
    }
    text += "}\n\nstatic PROGRAMS: &[(&str, Main)] = &[\n";
    for name in names {
        let _ = writeln!(text, "    (\"{name}\", rackmem_program_{name}),");
    }
    text + "];\n"
}
