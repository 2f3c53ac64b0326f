//! What a program sees of files: those of its folder, those that its user has named, and those of its machine.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rackmem_riscv::functional::{Options, run};
use rackmem_riscv::host::{FOLDER, LocalHost, Output};
use rackmem_riscv::kernel::{Change, Host, Kind, OpenMode, Opened};
use tempfile::TempDir;

use crate::compiled::{GCC, compile};
use crate::rig::{READ, Rig};
use crate::support::qemu::have;

const MAKE: OpenMode = OpenMode { read: false, write: true, truncate: true, create: true, ..READ };

#[test]
fn the_folder_is_all_that_is_seen() {
    let mut rig = Rig::new();
    let (beside, run) = (rig.beside(), rig.all.path().join("run").display().to_string());
    assert_eq!(rig.text("/rackmem/in").expect("it is there"), "inside");
    assert_eq!(rig.text(&format!("{run}/in")).expect("its name on the host"), "inside");
    assert_eq!(rig.text(FOLDER).expect("the folder itself"), "in");
    for hidden in [&beside, "/etc/passwd", "/rackmem/../out", "/"] {
        rig.is_hidden(hidden);
    }
    let error = rig.text("/rackmem/in/../../out").expect_err("a file is no folder");
    assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    rig.is_hidden(&format!("{run}/../out"));
    rig.is_hidden("/no/such/folder");
}

#[test]
fn what_leads_to_allowed_files_is_seen_and_nothing_beside_it() {
    let mut rig = Rig::new();
    let top = rig.all.path().canonicalize().expect("it is there");
    fs::create_dir_all(top.join("data/deep")).expect("the folder is ours");
    for name in ["data/deep/seen", "data/deep/hidden", "data/hidden"] {
        fs::write(top.join(name), name).expect("the folder is ours");
    }
    symlink("data/deep", top.join("short")).expect("a link");
    symlink("data", top.join("other")).expect("a link");
    rig.host.allow(&top.join("short/seen")).expect("it is there");
    let name = |rest: &str| format!("{}/{rest}", top.display());
    let kind = |rig: &mut Rig, rest: &str| rig.host.status(&name(rest), false).map(|it| it.kind);
    assert_eq!(kind(&mut rig, "short").expect("it leads there"), Kind::Link);
    assert_eq!(rig.host.read_link(&name("short")).expect("its text"), "data/deep");
    for folder in ["", "data", "data/deep"] {
        assert_eq!(kind(&mut rig, folder).expect(folder), Kind::Folder);
    }
    assert_eq!(rig.text(&name("")).expect("a folder"), "data short");
    assert_eq!(rig.text(&name("data")).expect("a folder"), "deep");
    assert_eq!(rig.text(&name("short")).expect("a folder"), "seen");
    assert_eq!(rig.text(&name("short/seen")).expect("it is named"), "data/deep/seen");
    for hidden in ["data/hidden", "data/deep/hidden", "short/hidden", "other", "out"] {
        kind(&mut rig, hidden).expect_err(hidden);
    }
    let error = rig.host.open(&name("short/seen"), MAKE).expect_err("it is outside");
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn links_do_not_lead_outside() {
    let mut rig = Rig::new();
    let run = rig.all.path().join("run");
    let link = |to: &Path, name: &str| symlink(to, run.join(name)).expect("a link");
    link(&rig.all.path().join("out"), "absolute");
    link(Path::new("../out"), "relative");
    link(Path::new("/etc"), "folder");
    link(Path::new("absolute"), "twice");
    link(Path::new("loop"), "loop");
    link(Path::new("in"), "fine");
    link(&rig.all.path().join("made"), "dangling");
    for name in ["absolute", "relative", "twice", "folder/passwd", "dangling"] {
        rig.is_hidden(&format!("/rackmem/{name}"));
    }
    assert_eq!(rig.text("/rackmem/fine").expect("it is inside"), "inside");
    assert_eq!(rig.text("/rackmem/loop").expect_err("it ends nowhere").raw_os_error(), Some(40));
    for name in ["absolute", "relative", "dangling", "folder/made"] {
        let error = rig.host.open(&format!("/rackmem/{name}"), MAKE).expect_err("it is outside");
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "{name}");
    }
    assert!(!rig.all.path().join("made").exists());
    let removed = rig.host.change(&Change::Remove("/rackmem/../out"));
    assert!(removed.is_err() && rig.all.path().join("out").exists());
    let status = rig.host.status("/rackmem/absolute", false).expect("the link itself is inside");
    assert_eq!(status.kind, Kind::Link);
}

#[test]
fn an_open_file_is_opened_again_for_no_more_than_its_name_allows() {
    let mut rig = Rig::new();
    let beside = rig.beside();
    rig.host.allow(Path::new(&beside)).expect("it is there");
    let write = OpenMode { write: true, ..READ };
    let empty = OpenMode { truncate: true, ..READ };
    let own = rig.all.path().join("run/in");
    fs::set_permissions(&own, Permissions::from_mode(0o400)).expect("it is ours");
    for (name, kind) in [
        (&beside[..], io::ErrorKind::ReadOnlyFilesystem),
        ("/rackmem/in", io::ErrorKind::PermissionDenied),
    ] {
        let Ok(Opened::File(file, _)) = rig.host.open(name, READ) else { panic!("{name}") };
        let error = rig.host.reopen(name, &file, write).expect_err("it is read only");
        assert_eq!(error.kind(), kind, "{name}");
        let emptied = rig.host.reopen(name, &file, empty);
        assert!(emptied.is_err(), "{name}");
        rig.host.reopen(name, &file, READ).expect("it may be read");
        assert!(!rig.text(name).expect("it is there").is_empty());
    }
}

#[test]
fn a_file_without_content_is_changed_no_more_than_its_name_allows() {
    let mut rig = Rig::new();
    let beside = rig.beside();
    rig.host.open_path(&beside, true).expect_err("it is outside");
    rig.host.allow(Path::new(&beside)).expect("it is there");
    let (file, status) = rig.host.open_path(&beside, true).expect("it is allowed");
    assert_eq!((status.kind, status.size), (Kind::File, 7));
    let write = OpenMode { write: true, ..READ };
    let errors = [
        rig.host.link_open(&beside, &file, "/rackmem/new").expect_err("it is only read"),
        rig.host.permit(&beside, &file, 0o600).expect_err("it is only read"),
        rig.host.reopen(&beside, &file, write).expect_err("it is only read"),
    ];
    for error in errors {
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    }
    let again = rig.host.reopen(&beside, &file, READ).expect("it may be read");
    assert_eq!(io::read_to_string(again).expect("it is text"), "outside");
    let (own, _) = rig.host.open_path("/rackmem/in", true).expect("it is ours");
    let error = rig.host.link_open("/rackmem/in", &own, &beside).expect_err("it is outside");
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    rig.host.link_open("/rackmem/in", &own, "/rackmem/new").expect("both are ours");
    assert_eq!(rig.text("/rackmem/new").expect("it is there"), "inside");
    symlink(&beside, rig.all.path().join("run/link")).expect("a link");
    let (link, status) = rig.host.open_path("/rackmem/link", false).expect("it is ours");
    assert_eq!(status.kind, Kind::Link);
    assert_eq!(rig.host.read_open_link(&link).expect("its text"), beside);
}

/// What a program leaves in the folder gives the next one no more than it had itself.
#[test]
fn an_argument_does_not_follow_links_of_a_program() {
    let mut rig = Rig::new();
    let beside = rig.beside();
    for (text, name) in [(beside.as_str(), "file"), ("..", "up"), ("in", "fine")] {
        rig.host
            .change(&Change::SymbolicLink { text, name: &format!("/rackmem/{name}") })
            .expect("a link");
    }
    rig.host
        .allow_arguments(&["file", "up", "--file=up/out", "up/../out", "fine"].map(String::from));
    rig.is_hidden("/rackmem/file");
    rig.is_hidden("/rackmem/up/out");
    assert_eq!(rig.text("/rackmem/fine").expect("it is inside"), "inside");
    rig.host.allow(Path::new("file")).expect("the user says so");
    assert_eq!(rig.text("/rackmem/file").expect("it is allowed"), "outside");
}

/// The program may lead its names over what an argument leads over, and not over what is beside that.
#[test]
fn an_argument_may_lead_over_a_folder_outside_and_back() {
    let mut rig = Rig::new();
    for folder in ["named", "other"] {
        fs::create_dir(rig.all.path().join(folder)).expect("the folder is ours");
    }
    let run = rig.all.path().join("run").display().to_string();
    rig.host.allow_arguments(&["../named/../out".into()]);
    for name in ["/rackmem/../named/../out".to_owned(), format!("{run}/../named/../out")] {
        assert_eq!(rig.text(&name).expect("it was named"), "outside");
    }
    rig.is_hidden("/rackmem/../other/../out");
}

#[test]
fn files_without_names_and_exchanged_names_stay_in_the_folder() {
    let mut rig = Rig::new();
    let (all, beside) = (rig.all.path().display().to_string(), rig.beside());
    symlink(&all, rig.all.path().join("run/link")).expect("a link");
    rig.host.allow(Path::new(&beside)).expect("it is there");
    let nameless = OpenMode { write: true, is_nameless: true, ..READ };
    for folder in [&all[..], "/rackmem/link", "/rackmem/..", "/tmp"] {
        let error = rig.host.open(folder, nameless).expect_err("it is outside");
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "{folder}");
    }
    for (from, to) in [("/rackmem/in", &beside[..]), (&beside, "/rackmem/in")] {
        let error = rig.host.change(&Change::Exchange { from, to }).expect_err("one is outside");
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "{from}");
    }
    let Ok(Opened::File(file, status)) = rig.host.open(FOLDER, nameless) else { panic!("ours") };
    rig.host.link_open("/rackmem/#", &file, "/rackmem/new").expect("both are ours");
    let named = rig.host.status("/rackmem/new", true).expect("it is there");
    assert_eq!((named.inode, named.links), (status.inode, 1));
    assert!(rig.host.name_of(&file).expect("the last one").ends_with(" (deleted)"));
    // A number of the host that comes again is not that of the file before.
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let Ok(Opened::File(_, status)) = rig.host.open(FOLDER, nameless) else { panic!("ours") };
        numbers.push(status.inode);
    }
    numbers.dedup();
    assert_eq!(numbers.len(), 3);
}

#[test]
fn the_name_of_an_open_file_is_no_way_to_learn_of_others() {
    let mut rig = Rig::new();
    let Ok(Opened::File(file, _)) = rig.host.open("/rackmem/in", READ) else { panic!("ours") };
    assert_eq!(rig.host.name_of(&file).expect("it is ours"), "/rackmem/in");
    fs::rename(rig.all.path().join("run/in"), rig.all.path().join("moved")).expect("ours");
    rig.host.name_of(&file).expect_err("it is outside by now");
}

#[test]
fn the_folder_itself_stays() {
    let mut rig = Rig::new();
    rig.host.change(&Change::Remove("/rackmem/in")).expect("it is ours");
    rig.host.change(&Change::MakeFolder("/rackmem/new")).expect("it is ours");
    let mut busy = |change| {
        let error = rig.host.change(&change).expect_err("it is in use");
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    };
    for folder in [FOLDER, "/rackmem/.", "/rackmem/new/.."] {
        busy(Change::RemoveFolder(folder));
        busy(Change::Rename { from: folder, to: "/rackmem/new/moved", replace: true });
        busy(Change::Rename { from: "/rackmem/new", to: folder, replace: true });
        busy(Change::Exchange { from: folder, to: "/rackmem/new" });
        busy(Change::Exchange { from: "/rackmem/new", to: folder });
    }
    assert!(rig.all.path().join("run").is_dir());
}

#[test]
fn what_the_user_names_may_be_read_and_not_written() {
    let mut rig = Rig::new();
    let beside = rig.beside();
    rig.host.allow_arguments(&["-x".into(), format!("--file={beside}"), "nothing".into()]);
    assert_eq!(rig.text(&beside).expect("it was named"), "outside");
    assert_eq!(rig.text("/rackmem/../out").expect("by any name"), "outside");
    let error = rig.host.open(&beside, MAKE).expect_err("it is not the run's");
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    assert!(rig.host.allow(Path::new("nothing")).is_err());
    let names: Vec<_> = rig.host.inputs.keys().cloned().collect();
    let place = fs::canonicalize(&beside).expect("it is there").display().to_string();
    assert_eq!(names, [place]);
}

#[test]
fn inputs_are_what_was_there_before() {
    let mut rig = Rig::new();
    assert!(rig.text("/rackmem/missing").is_err());
    rig.host.open("/rackmem/made", MAKE).expect("a new file");
    rig.text("/rackmem/made").expect("it is there");
    rig.text("/rackmem/./in").expect("it is there");
    let inputs: Vec<_> = rig.host.inputs.clone().into_iter().collect();
    assert_eq!(inputs, [("in".to_owned(), true), ("missing".to_owned(), false)]);
}

#[test]
fn numbers_of_files_do_not_depend_on_the_host() {
    let mut rig = Rig::new();
    let mut number = |name: &str| rig.host.status(name, true).expect("it is there").inode;
    assert_eq!(
        (number("/rackmem"), number("/rackmem/in"), number("/rackmem/../run/in")),
        (1, 2, 2)
    );
    rig.host.open("/rackmem/new", MAKE).expect("a new file");
    rig.host.change(&Change::Remove("/rackmem/new")).expect("it is there");
    rig.host.open("/rackmem/new", MAKE).expect("a new file");
    let inode = rig.host.status("/rackmem/new", true).expect("it is there").inode;
    assert_eq!(inode, 4, "another file, whatever its number on the host");
}

#[test]
fn hidden_files_get_no_numbers() {
    let mut rig = Rig::new();
    let top = rig.all.path().canonicalize().expect("it is there");
    fs::create_dir_all(top.join("data")).expect("the folder is ours");
    for name in ["data/hidden", "data/other", "data/seen"] {
        fs::write(top.join(name), name).expect("the folder is ours");
    }
    let (folder, seen) = (top.join("data"), top.join("data/seen"));
    rig.host.allow(&seen).expect("it is there");
    assert_eq!(rig.text(&folder.display().to_string()).expect("it leads there"), "seen");
    let mut number = |name: &str| rig.host.status(name, true).expect("it is there").inode;
    let numbers = [&folder, &seen].map(|path| number(&path.display().to_string()));
    assert_eq!(numbers, [1, 2]);
    assert_eq!(number("/rackmem/in"), 3, "whatever is beside the files");
}

#[test]
fn the_machine_is_the_models() {
    if !have(&[GCC]) {
        return;
    }
    let folder = TempDir::new().expect("there is room for temporary files");
    let path = compile(folder.path(), GCC, &["-O1", "-static"], "machine");
    let program = fs::read(path).expect("it was just made");
    let options = Options { output: Output::Capture, harts: 3, ..Options::default() };
    let outcome = run(&program, &["./machine".into()], &[], &options).expect("it ends");
    let expected = "3 of 3 processors, 16384 MiB\n\
        /proc/cpuinfo: processor\t: 0\n\
        /proc/meminfo: MemTotal:       16777216 kB\n\
        /proc/self/comm: machine\n\
        /proc/../sys/devices/system/cpu/online: 0-2\n\
        /proc/sys/no_such: nothing\n\
        8 0\n8 0\n8 0\n8 0\n16 /machine\n";
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), expected);
    let warning =
        "/proc/sys/no_such is not provided by the model's machine: the program gets ENOENT";
    assert_eq!(outcome.warnings, [warning]);
}

#[test]
fn permissions_are_those_of_the_owner_and_give_no_rights_of_others() {
    let mut rig = Rig::new();
    let permissions = Permissions::from_mode(0o200);
    fs::set_permissions(rig.all.path().join("run/in"), permissions).expect("it is ours");
    assert!(rig.text("/rackmem/in").is_err(), "it is only written");
    assert!(rig.host.inputs["in"], "and is there");
    let path = rig.all.path().join("run/in");
    let permit = |rig: &mut Rig, name: &str, permissions| {
        rig.host.change(&Change::Permit { name, permissions, follow: true })
    };
    permit(&mut rig, "/rackmem/in", 0o6755).expect("it is ours");
    assert_eq!(rig.host.status("/rackmem/in", true).expect("it is there").permissions, 0o755);
    let outside = rig.beside();
    rig.host.allow(Path::new(&outside)).expect("it is there");
    let error = permit(&mut rig, &outside, 0o600).expect_err("it is only read");
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    let Ok(Opened::File(file, _)) = rig.host.open(&outside, READ) else { panic!("it is allowed") };
    assert!(rig.host.permit(&outside, &file, 0o600).is_err());
    assert!(permit(&mut rig, FOLDER, 0).is_err());

    permit(&mut rig, "/rackmem/in", 0o400).expect("it is ours");
    let write = OpenMode { write: true, ..READ };
    let error = rig.host.open("/rackmem/in", write).expect_err("it is only read");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    let again = OpenMode { is_again: true, ..write };
    let Ok(Opened::File(file, _)) = rig.host.open("/rackmem/in", again) else {
        panic!("it was open before")
    };
    let permissions = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
    assert_eq!(permissions(&path) & 0o7777, 0o400);
    fs::rename(&path, path.with_file_name("new")).expect("it is ours");
    rig.host.permit("/rackmem/in", &file, 0o640).expect("an open file is ours by whichever name");
    assert_eq!(permissions(&path.with_file_name("new")) & 0o7777, 0o640);
}

/// Names that lead out of the program's folder, or out of the visible part of the folder of libraries, tell nothing.
fn said_of_what_is_outside(program: &[u8], is_there: bool) -> String {
    let all = TempDir::new().expect("there is room for temporary files");
    for name in ["run", "system/lib"] {
        fs::create_dir_all(all.path().join(name)).expect("the folder is ours");
    }
    for name in ["run/in", "system/lib/library"] {
        fs::write(all.path().join(name), name).expect("the folder is ours");
    }
    if is_there {
        for name in ["beside/folder", "system/bin", "system/lib/link"] {
            fs::create_dir_all(all.path().join(name)).expect("the folder is ours");
        }
        fs::write(all.path().join("beside/file"), "outside").expect("the folder is ours");
        symlink("../run", all.path().join("beside/link")).expect("a link");
        symlink("loop", all.path().join("beside/loop")).expect("a link");
    }
    let options = Options {
        output: Output::Capture,
        folder: Some(all.path().join("run")),
        libraries: Some(all.path().join("system")),
        ..Options::default()
    };
    let outcome = run(program, &["./confined".into()], &[], &options).expect("it ends");
    assert_eq!(outcome.end.status(), 0);
    assert_eq!(fs::read(all.path().join("beside/file")).is_ok(), is_there);
    String::from_utf8(outcome.stdout).expect("it is text")
}

#[test]
fn no_call_tells_what_is_outside() {
    if !have(&[GCC]) {
        return;
    }
    let folder = TempDir::new().expect("there is room for temporary files");
    let path = compile(folder.path(), GCC, &["-O1", "-static"], "confined");
    let program = fs::read(path).expect("it was just made");
    let [with, without] = [true, false].map(|is_there| said_of_what_is_outside(&program, is_there));
    assert!(with.lines().count() > 1000, "{with}");
    for (with, without) in with.lines().zip(without.lines()) {
        assert_eq!(with, without);
    }
    assert!(with.contains("open(in) 0 0\n") && with.contains("open(../beside/file) -1 2\n"));
}

/// The user's own words and links lead to the folder, and to what is allowed, also over what is not seen.
#[test]
fn what_the_user_says_leads_over_what_is_not_seen() {
    let mut rig = Rig::new();
    let top = rig.all.path().canonicalize().expect("it is there");
    for name in ["data", "over", "deep/est"] {
        fs::create_dir_all(top.join(name)).expect("the folder is ours");
    }
    fs::write(top.join("data/file"), "data").expect("the folder is ours");
    for (text, name) in
        [("run", "way"), ("../data/file", "over/chosen"), ("../over/chosen", "data/link")]
    {
        symlink(text, top.join(name)).expect("a link");
    }
    let said = |rest: &str| format!("{}/{rest}", top.display());
    rig.host.allow(Path::new(&said("deep/est/../../data"))).expect("it is there");
    assert_eq!(rig.text(&said("data/link")).expect("a link of the user's"), "data");
    assert_eq!(rig.text(&said("deep/est/../../data/file")).expect("as it was said"), "data");
    rig.is_hidden(&said("over/../data/file"));
    rig.is_hidden(&said("over/chosen"));
    rig.is_hidden(&said("way/in"));
    let mut host = LocalHost::new(1, Output::Capture, Some(&top.join("over/../way")));
    let in_it = host.open(&said("over/../way/in"), READ);
    assert!(matches!(in_it, Ok(Opened::File(..))), "{in_it:?}");
}
