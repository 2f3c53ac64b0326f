//! Clients of other projects: libnbd's tools, QEMU's, fio. Tools that are not installed are left out, and named.

use std::path::Path;
use std::process::Command;

use rackmem_blk::{TlsMode, tls};
use rackmem_lease::store::Store;

use super::data::Dice;
use super::rig::{BOTH, Rig, SIZE_BYTES};

/// Runs a tool to success and returns its output; `None` if it is not installed.
fn tool(name: &str, args: &[&str]) -> Option<String> {
    let done = match Command::new(name).args(args).output() {
        Ok(done) => done,
        Err(error) => {
            eprintln!("not tested: {name}: {error}");
            return None;
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{name} {args:?}: {}\n{out}{err}", done.status);
    Some(out + &err)
}

fn random_file(path: &Path, bytes: u64) -> Vec<u8> {
    let mut dice = Dice(bytes | 1);
    let content: Vec<u8> = (0..bytes / 8).flat_map(|_| dice.next().to_le_bytes()).collect();
    std::fs::write(path, &content).unwrap();
    content
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    let rig = Rig::tcp();
    let Some(out) = tool("nbdinfo", &[&rig.uri()]) else { return };
    for expected in [
        "newstyle-fixed without TLS",
        "export-size: 67108864",
        "can_multi_conn: true",
        "can_df: true",
        "base:allocation",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let list = tool("nbdinfo", &["--list", &rig.uri().replace("/memory", "")]).unwrap();
    assert!(list.contains("export=\"memory\""), "{list}");
    let map = tool("nbdinfo", &["--map", &rig.uri()]).unwrap();
    assert!(map.contains("67108864") && map.contains("data"), "{map}");
}

#[test]
fn nbdcopy_brings_a_file_in_and_out() {
    let mut rigs: Vec<Rig> = BOTH.map(Rig::new).into();
    rigs.push(Rig::tcp());
    for rig in rigs {
        let (source, target) = (rig.scratch("in"), rig.scratch("out"));
        let content = random_file(&source, SIZE_BYTES);
        let copy = |from: &str, to: &str| tool("nbdcopy", &[from, to]);
        let Some(_) = copy(source.to_str().unwrap(), &rig.uri()) else { return };
        copy(&rig.uri(), target.to_str().unwrap()).unwrap();
        assert!(std::fs::read(&target).unwrap() == content);
        let mut there = vec![0; SIZE_BYTES as usize];
        rig.heap.lane().unwrap().read(0, &mut there[..1 << 20]).unwrap();
        assert!(there[..1 << 20] == content[..1 << 20]);
    }
}

#[test]
fn qemu_writes_patterns_and_finds_them() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let uri = rig.uri();
        let script =
            ["-c", "write -P 0x5a 12345 1M", "-c", "write -z 65536 128k", "-c", "discard 4M 8M"];
        let check = ["-c", "read -P 0x5a 12345 53191", "-c", "read -P 0 65536 128k", "-c", "flush"];
        let args = [&["-f", "raw", &uri][..], &script, &check].concat();
        let Some(out) = tool("qemu-io", &args) else { return };
        assert!(!out.contains("verification failed"), "{out}");
        let image = rig.scratch("image");
        let args = ["convert", "-f", "raw", "-O", "raw", &uri, image.to_str().unwrap()];
        if tool("qemu-img", &args).is_some() {
            assert_eq!(std::fs::metadata(image).unwrap().len(), SIZE_BYTES);
        }
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    for reach in BOTH {
        let rig = Rig::new(reach);
        let uri = format!("--uri={}", rig.uri());
        let common =
            ["--name=verify", "--ioengine=nbd", &uri, "--thread", "--size=32M", "--iodepth=16"];
        let what = [
            "--rw=randwrite",
            "--bsrange=512-96k",
            "--verify=crc32c",
            "--do_verify=1",
            "--verify_state_save=0",
        ];
        let Some(out) = tool("fio", &[&common[..], &what].concat()) else { return };
        assert!(out.contains("err= 0"), "{out}");
    }
}

/// An authority, and certificates of it for server and client.
fn certificates(dir: &Path) -> Option<()> {
    certificates_with(dir, "")
}

/// As above, with more lines of certtool's template for the server.
fn certificates_with(dir: &Path, server: &str) -> Option<()> {
    let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
    write("ca.info", "cn = test\nca\ncert_signing_key\n");
    let name = "cn = localhost\ndns_name = localhost\ntls_www_server\nsigning_key\n";
    write("server.info", &format!("{name}{server}"));
    write("client.info", "cn = client\ntls_www_client\nsigning_key\n");
    for who in ["ca", "server", "client"] {
        let key =
            tool("certtool", &["--generate-privkey", "--outfile", &at(&format!("{who}-key.pem"))]);
        key?;
    }
    let (ca_key, ca) = (at("ca-key.pem"), at("ca-cert.pem"));
    let info = at("ca.info");
    tool(
        "certtool",
        &[
            "--generate-self-signed",
            "--load-privkey",
            &ca_key,
            "--template",
            &info,
            "--outfile",
            &ca,
        ],
    )?;
    for who in ["server", "client"] {
        let [key, info, out] =
            ["-key.pem", ".info", "-cert.pem"].map(|end| at(&format!("{who}{end}")));
        tool(
            "certtool",
            &[
                "--generate-certificate",
                "--load-ca-certificate",
                &ca,
                "--load-ca-privkey",
                &ca_key,
                "--load-privkey",
                &key,
                "--template",
                &info,
                "--outfile",
                &out,
            ],
        )?;
    }
    Some(())
}

#[test]
fn tls_by_certificates() {
    let dir = tempfile::TempDir::new().unwrap();
    let Some(()) = certificates(dir.path()) else { return };
    let config = tls::load(dir.path(), true).unwrap();
    for reach in BOTH {
        let rig = Rig::with(reach, |server| {
            server.address = rackmem_fabric::Address::Tcp("127.0.0.1:0".to_owned());
            (server.tls_mode, server.tls) = (TlsMode::Require, Some(config.clone()));
        });
        let host = rig.uri().replace("nbd://127.0.0.1", "nbds://localhost");
        let uri = format!("{host}?tls-certificates={}", dir.path().display());
        let Some(out) = tool("nbdinfo", &[&uri]) else { return };
        assert!(out.contains("with TLS"), "{out}");
        let (source, target) = (rig.scratch("in"), rig.scratch("out"));
        let content = random_file(&source, SIZE_BYTES);
        tool("nbdcopy", &[source.to_str().unwrap(), &uri]);
        tool("nbdcopy", &[&uri, target.to_str().unwrap()]);
        assert!(std::fs::read(&target).unwrap() == content);
        // Without TLS nothing is to be had.
        let plain = Command::new("nbdinfo").arg(rig.uri()).output().unwrap();
        assert!(!plain.status.success());
    }
}

#[test]
fn a_certificate_of_version_1_is_named_with_what_to_do() {
    let dir = tempfile::TempDir::new().unwrap();
    let Some(()) = certificates(dir.path()) else { return };
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [key, request, out] = ["server-key.pem", "server.csr", "server-cert.pem"].map(at);
    let (ca, ca_key) = (at("ca-cert.pem"), at("ca-key.pem"));
    let asked = ["req", "-new", "-key", &key, "-subj", "/CN=localhost", "-out", &request];
    let Some(_) = tool("openssl", &asked) else { return };
    let signed = [
        "x509", "-req", "-in", &request, "-CA", &ca, "-CAkey", &ca_key, "-days", "1", "-out", &out,
    ];
    tool("openssl", &signed).unwrap();
    let text = tool("openssl", &["x509", "-in", &out, "-noout", "-text"]).unwrap();
    if !text.contains("Version: 1 ") {
        eprintln!("not tested: this openssl makes no certificates of version 1");
        return;
    }
    let error = tls::load(dir.path(), true).unwrap_err().to_string();
    assert!(error.contains("server-cert.pem: the certificate is of version 1"), "{error}");
}

#[test]
fn a_certificate_that_is_not_valid_today_is_named_with_its_date() {
    let dates = |from, to| {
        format!(
            "activation_date = \"{from} 12:34:56 UTC\"\nexpiration_date = \"{to} 23:59:59 UTC\"\n"
        )
    };
    let expired = "the certificate expired on 2024-02-29 23:59:59 UTC";
    let early = "the certificate is not valid before 2996-03-01 12:34:56 UTC";
    let cases = [
        (dates("2023-12-31", "2024-02-29"), Some(expired)),
        (dates("2996-03-01", "2997-01-01"), Some(early)),
        (dates("2023-12-31", "2997-01-01"), None),
    ];
    for (server, said) in cases {
        let dir = tempfile::TempDir::new().unwrap();
        let Some(()) = certificates_with(dir.path(), &server) else { return };
        let loaded = tls::load(dir.path(), true).map_err(|error| error.to_string());
        let Some(said) = said else {
            loaded.unwrap();
            continue;
        };
        let error = loaded.expect_err(said);
        assert!(error.contains(&format!("server-cert.pem: {said}")), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn missing_certificates_are_named() {
    let dir = tempfile::TempDir::new().unwrap();
    let error = tls::load(dir.path(), false).unwrap_err().to_string();
    assert!(error.contains("server-key.pem"), "{error}");
}
