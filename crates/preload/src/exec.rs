//! execve and its kin, where the kernel does not wait for pages that are away ([`crate::local`]): names, arguments and
//! environment are brought first, and again if the call fails for one that has left meanwhile. Local memory cannot
//! stand in for them: a child of vfork, which has its parent's memory, would never give it back.
//!
//! The program that is executed has this library loaded anew, which begins with nothing borrowed. If it cannot be
//! loaded there, a message says so.

use std::ffi::{c_char, c_int};

use libc::pid_t;

use crate::local::helping;
use crate::next::next;
use crate::{binary, process, thread};

type Strings = *const *const c_char;

/// Attempts of an execution whose strings leave again and again.
const MAX_ATTEMPTS: u32 = 1000;

fn bring_string(string: *const c_char) {
    let Some(pager) = helping().filter(|pager| pager.contains(string as usize)) else { return };
    // SAFETY: the caller of the function around this promises a string; reading brings it.
    let length = unsafe { libc::strlen(string) } + 1;
    let _inside = thread::enter();
    let _ = pager.ensure_present(string as usize, length, false);
}

/// Brings a list of strings that ends with null, and the strings.
fn bring(strings: Strings) {
    let Some(pager) = helping().filter(|_| !strings.is_null()) else { return };
    for number in 0.. {
        // SAFETY: the caller of the function around this promises that the list ends with null; reading brings it.
        let place = unsafe { strings.add(number) };
        // SAFETY: as above.
        let string = unsafe { place.read() };
        if string.is_null() {
            return;
        }
        bring_string(string);
        if pager.contains(place as usize) {
            let _inside = thread::enter();
            let _ = pager.ensure_present(place as usize, size_of::<Strings>(), false);
        }
    }
}

/// Makes a call that returns the number of an error, with its strings brought.
fn attempt(
    path: *const c_char,
    argv: Strings,
    envp: Strings,
    mut call: impl FnMut() -> c_int,
) -> c_int {
    let mut attempts = 0;
    loop {
        bring(argv);
        bring(envp);
        bring_string(path);
        let error = call();
        attempts += 1;
        if error != libc::EFAULT || helping().is_none() || attempts == MAX_ATTEMPTS {
            return error;
        }
    }
}

/// Replaces the process; returns only if that fails.
fn execute(path: *const c_char, argv: Strings, envp: Strings, call: impl Fn() -> c_int) -> c_int {
    attempt(path, argv, envp, || {
        call();
        thread::errno()
    });
    -1
}

/// Says that a program will not borrow, if so.
fn announce(path: *const c_char, is_searched: bool) {
    if path.is_null() || thread::is_inside() || !process::may_borrow() {
        return;
    }
    // SAFETY: the caller of the function around this promises a string.
    binary::announce(unsafe { std::ffi::CStr::from_ptr(path) }, is_searched);
}

unsafe extern "C" {
    static environ: Strings;
}

/// As execve(2).
///
/// # Safety
/// As for execve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    announce(path, false);
    execute(
        path,
        argv,
        envp,
        || next!(execve(path => *const c_char, argv => Strings, envp => Strings) -> c_int),
    )
}

/// As execv(3).
///
/// # Safety
/// As for execv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the caller's promise; the environment is the process's.
    unsafe { execve(path, argv, environ) }
}

/// As execvp(3).
///
/// # Safety
/// As for execvp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the caller's promise; the environment is the process's.
    unsafe { execvpe(file, argv, environ) }
}

/// As execvpe(3).
///
/// # Safety
/// As for execvpe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    announce(file, true);
    execute(
        file,
        argv,
        envp,
        || next!(execvpe(file => *const c_char, argv => Strings, envp => Strings) -> c_int),
    )
}

/// Defines posix_spawn and posix_spawnp.
macro_rules! spawn {
    ($(#[$doc:meta])* $name:ident, $is_searched:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            child: *mut pid_t,
            path: *const c_char,
            actions: *const libc::posix_spawn_file_actions_t,
            attributes: *const libc::posix_spawnattr_t,
            argv: Strings,
            envp: Strings,
        ) -> c_int {
            announce(path, $is_searched);
            attempt(path, argv, envp, || {
                next!($name(
                    child => *mut pid_t,
                    path => *const c_char,
                    actions => *const libc::posix_spawn_file_actions_t,
                    attributes => *const libc::posix_spawnattr_t,
                    argv => Strings,
                    envp => Strings,
                ) -> c_int)
            })
        }
    };
}

spawn!(/** As posix_spawn(3). */ posix_spawn, false);
spawn!(/** As posix_spawnp(3). */ posix_spawnp, true);
