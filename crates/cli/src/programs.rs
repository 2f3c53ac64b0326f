//! The C programs that are compiled into this one, and some that are ready for the model.

use std::ffi::{CString, OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;

use crate::failure::{Failure, Result};

// They call the C functions of `rackmem` and of zlib, which nothing here names.
extern crate libz_sys as _;
extern crate rackmem as _;

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char) -> c_int;

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// Names of all programs.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|&(name, _)| name)
}

/// Whether there is such a program.
///
/// # Errors
/// Names those there are; status 127, as for any program that does not exist.
pub fn find(name: &str) -> Result<usize> {
    PROGRAMS.iter().position(|&(known, _)| known == name).ok_or_else(|| {
        let known = names().map(|name| format!(":{name}")).collect::<Vec<_>>().join(", ");
        let message = format!("there is no built-in program ':{name}'; there are {known}");
        Failure::with_status(127, message)
    })
}

/// Runs a program in this process, as if it had been started with these arguments.
///
/// # Errors
/// There is no such program, or an argument has a zero byte.
pub fn run(name: &str, args: &[OsString]) -> Result<u8> {
    let (name, main) = PROGRAMS[find(name)?];
    let all = std::iter::once(OsString::from(name)).chain(args.iter().cloned());
    let strings: Vec<CString> = all
        .map(|arg| CString::new(arg.into_vec()))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| Failure::usage("an argument contains a zero byte"))?;
    let mut argv: Vec<*mut c_char> = strings.into_iter().map(CString::into_raw).collect();
    let argc = argv.len() as c_int;
    argv.push(std::ptr::null_mut());
    // SAFETY: a C main and its arguments: strings that stay for ever, ended by a null pointer.
    // Rust has SIGPIPE ignored; a C program expects to be ended by it.
    let status = unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        main(argc, argv.as_mut_ptr())
    };
    Ok(status as u8)
}
