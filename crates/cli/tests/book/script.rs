//! Runs a chapter as a shell script, and compares what its commands print.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::chapter::{Block, Chapter, Command, comparable};
use super::root;

/// Longest that a chapter takes, the first build for release included.
const LONGEST: Duration = Duration::from_secs(1200);

/// A command and the end that it has to have.
struct Step {
    command: Command,
    fails: bool,
}

/// Runs it in `folder`; says what was left out and why.
///
/// # Errors
/// The first command that does not do what the chapter says.
pub fn run(chapter: &Chapter, folder: &Path) -> Result<(), String> {
    println!("{}", chapter.name);
    let logs = tempfile::Builder::new().prefix("rk").tempdir().unwrap();
    let (text, steps) = script(chapter, logs.path());
    if steps.is_empty() {
        return Ok(());
    }
    let path = logs.path().join("script");
    fs::write(&path, text).unwrap();
    let is_over = execute(&path, folder, logs.path());
    for (number, step) in steps.iter().enumerate() {
        let said = fs::read(logs.path().join(format!("{number}.out"))).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let status = fs::read_to_string(logs.path().join(format!("{number}.status")));
        let place = format!("{}:{}: `{}`", chapter.name, step.command.line, step.command.text);
        match status.as_deref().map(str::trim) {
            Err(_) if is_over => {
                return Err(format!("{place} did not run, or ended the script\n{said}"));
            }
            Err(_) => return Err(format!("{place} hangs\n{said}")),
            Ok("0") if step.fails => return Err(format!("{place} did not fail\n{said}")),
            Ok("0") => {}
            Ok(_) if step.fails => {}
            Ok(status) => return Err(format!("{place} ended with {status}\n{said}")),
        }
        if let Some(line) = missing(&step.command, &said) {
            return Err(format!("{place} did not print '{line}', but\n{said}"));
        }
    }
    Ok(())
}

/// The first line of the expected output that was not printed.
fn missing<'a>(command: &'a Command, said: &str) -> Option<&'a str> {
    let said: Vec<String> = said.lines().map(comparable).collect();
    let was_said = |line: &str| said.iter().any(|said| is_like(said, &comparable(line)));
    command.output.iter().map(String::as_str).find(|line| !was_said(line))
}

/// Whether a line is the expected one, in which `...` stands for anything.
fn is_like(said: &str, expected: &str) -> bool {
    let Some((first, rest)) = expected.split_once("...") else { return said == expected };
    let Some(said) = said.strip_prefix(first) else { return false };
    rest.is_empty()
        || (0..=said.len()).any(|at| said.is_char_boundary(at) && is_like(&said[at..], rest))
}

#[test]
fn dots_stand_for_anything() {
    assert!(
        is_like("abc", "abc")
            && is_like("abc", "a...")
            && is_like("abc", "...")
            && is_like("", "...")
    );
    assert!(is_like("abcd", "a...d") && !is_like("abcd", "a...c") && !is_like("abc", "b..."));
}

/// Whether it ended by itself.
fn execute(script: &Path, folder: &Path, racks: &Path) -> bool {
    use std::os::unix::process::CommandExt;
    let command = Path::new(env!("CARGO_BIN_EXE_rackmem")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = std::process::Command::new("bash");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        // Build scripts that read these variables of the test would run again.
        let is_cargos =
            ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"].iter().any(|at| text.starts_with(at));
        if is_cargos || text.starts_with("RACKMEM_") && name != "RACKMEM_CC" {
            shell.env_remove(&name);
        }
    }
    let mut shell = shell
        .arg(script)
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", command.display()))
        .env("REPO", root())
        // Cargo's output is where the README says.
        .env_remove("CARGO_TARGET_DIR")
        .env("RACKMEM_DIR", racks.join("racks"))
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let end = Instant::now() + LONGEST;
    let is_over = loop {
        match shell.try_wait().unwrap() {
            Some(_) => break true,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            None => break false,
        }
    };
    // Ends the processes that it left in the background, too.
    let _ = rustix::process::kill_process_group(
        rustix::process::Pid::from_child(&shell),
        rustix::process::Signal::KILL,
    );
    let _ = shell.wait();
    is_over
}

/// The script, and its commands by the number of their logs.
fn script(chapter: &Chapter, logs: &Path) -> (String, Vec<Step>) {
    let mut text = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n".to_owned();
    let mut steps = Vec::new();
    for block in &chapter.blocks {
        if let Some(what) = lacks(block) {
            println!("  left out: line {}, as this host has no {what}", block.line);
        } else if let Some(name) = block.attributes.get("file") {
            let _ = write!(text, "cat >{name} <<'END OF FILE'\n{}END OF FILE\n", block.text);
        } else if block.language == "console" {
            for command in block.commands() {
                let is_waited_for = !is_in_background(&command);
                let fails = is_waited_for && block.attributes.contains_key("fails");
                let step = Step { command, fails };
                add(&mut text, block, &step, logs, steps.len());
                steps.push(step);
            }
        }
    }
    (text, steps)
}

fn is_in_background(command: &Command) -> bool {
    command.text.split(" #").next().is_some_and(|text| text.trim().ends_with('&'))
}

fn add(text: &mut String, block: &Block, step: &Step, logs: &Path, number: usize) {
    let log = logs.join(number.to_string());
    let log = log.display();
    let command = &step.command;
    let _ = writeln!(text, "{{ {}\n}} >{log}.out 2>&1; echo $? >{log}.status", command.text);
    let ready = block.attributes.get("wait").filter(|_| is_in_background(command));
    if let Some(ready) = ready {
        let _ = writeln!(
            text,
            "for i in $(seq 600); do grep -q '{ready}' {log}.out && break; sleep 0.1; done; \
             grep -q '{ready}' {log}.out || echo 'not ready' >{log}.status"
        );
    }
    let is_right = if step.fails { "!=" } else { "=" };
    let _ = writeln!(text, "[ \"$(cat {log}.status)\" {is_right} 0 ] || exit 1");
}

/// The first need of a block that this host does not meet.
fn lacks(block: &Block) -> Option<&str> {
    block.attributes.get("needs")?.split(',').find(|what| match *what {
        "root" => !rustix::process::geteuid().is_root(),
        "two-hosts" => true,
        "userfaultfd" => !has_userfaultfd(),
        "iproute2" => !may_make_links(),
        "zlib" => !Path::new("/usr/include/zlib.h").exists(),
        // Other libraries of this kind, which `bench/compare` builds.
        "peers" => true,
        "riscv" => std::env::var_os("RACKMEM_CC").is_none() && !is_command("riscv64-linux-gnu-gcc"),
        command => !is_command(command),
    })
}

/// Whether the kernel lets this user handle faults of programs at all.
fn has_userfaultfd() -> bool {
    const UFFD_USER_MODE_ONLY: i32 = 1;
    // SAFETY: the call takes flags only; its descriptor is closed when this process ends.
    unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY) >= 0 }
}

/// Whether network interfaces can be made, tried in a namespace that goes at once.
fn may_make_links() -> bool {
    let probe = "ip link add name v0 type veth peer name v1 && ip link add name v2 type vxlan id 7 dstport 4789 dev v0";
    let status = std::process::Command::new("unshare").args(["--net", "sh", "-c", probe]).status();
    status.is_ok_and(|status| status.success())
}

fn is_command(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir: PathBuf| dir.join(name)).any(|file| file.is_file())
}
