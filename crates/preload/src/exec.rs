//! execve and its kin, where the kernel does not wait for pages that are away ([`crate::calls`]): names,
//! arguments and environment are brought first.
//!
//! The program that is executed has this library loaded anew, which begins with nothing borrowed.

use std::ffi::{c_char, c_int, c_void};

use libc::pid_t;

use crate::calls::{helping, small};
use crate::next::next;
use crate::thread;

type Strings = *const *const c_char;

/// Most strings of an execution that are brought; more are left to luck.
const MAX_STRINGS: usize = 4096;

/// Brings a list of strings that ends with null, and the strings.
fn bring(strings: Strings) {
    let Some(pager) = helping().filter(|_| !strings.is_null()) else { return };
    let _inside = thread::enter();
    for number in 0..MAX_STRINGS {
        // SAFETY: the caller of the function around this promises that the list ends with null; reading brings it.
        let string = unsafe { strings.add(number).read() };
        if string.is_null() {
            return;
        }
        // SAFETY: as above, each string ends with 0.
        let length = unsafe { libc::strlen(string) } + 1;
        let _ = pager.ensure_present(string as usize, length, false);
    }
}

/// A name, for `small`.
fn name(path: *const c_char) -> (*const c_void, usize, bool) {
    if path.is_null() || helping().is_none() {
        return (path.cast(), 0, false);
    }
    // SAFETY: the caller of the function around this promises that it ends with 0.
    (path.cast(), unsafe { libc::strlen(path) } + 1, false)
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
    small(&[name(path)], || {
        bring(argv);
        bring(envp);
        next!(execve(path => *const c_char, argv => Strings, envp => Strings) -> c_int)
    })
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
    small(&[name(file)], || {
        bring(argv);
        bring(envp);
        next!(execvpe(file => *const c_char, argv => Strings, envp => Strings) -> c_int)
    })
}

/// Defines posix_spawn and posix_spawnp.
macro_rules! spawn {
    ($(#[$doc:meta])* $name:ident) => {
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
            // It returns the error's number, and the child makes the call: what may be repeated is all of it.
            let mut result = 0;
            small(&[name(path)], || {
                bring(argv);
                bring(envp);
                result = next!($name(
                    child => *mut pid_t,
                    path => *const c_char,
                    actions => *const libc::posix_spawn_file_actions_t,
                    attributes => *const libc::posix_spawnattr_t,
                    argv => Strings,
                    envp => Strings,
                ) -> c_int);
                if result == libc::EFAULT {
                    thread::set_errno(libc::EFAULT);
                    return -1;
                }
                0
            });
            result
        }
    };
}

spawn!(/** As posix_spawn(3). */ posix_spawn);
spawn!(/** As posix_spawnp(3). */ posix_spawnp);
