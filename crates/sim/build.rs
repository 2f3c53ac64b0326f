//! Takes a fingerprint of the sources that decide results, so that results of other sources are told apart.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// This crate and those below it. A packed crate is alone: the version of its release says the rest.
const CRATES: [&str; 4] = [".", "../abi", "../rmc", "../riscv"];

fn main() {
    let home = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for sources in CRATES.map(|name| home.join(name).join("src")) {
        if sources.is_dir() {
            println!("cargo::rerun-if-changed={}", sources.display());
            add(&sources, &mut files);
        }
    }
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read(file).ok());
    println!("cargo::rustc-env=RACKMEM_MODEL={}", fingerprint(texts.flatten()));
}

fn add(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => add(&path, files),
            false => files.push(path),
        }
    }
}

/// FNV-1a of 64 bits, as in `recipe`.
fn fingerprint(bytes: impl Iterator<Item = u8>) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, step))
}
