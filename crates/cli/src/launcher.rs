//! Commands that run a command on another host.
//!
//! A launcher is a list of words, such as `ssh {host}`. `ssh` and `rsh` join the words that follow to one text for the
//! other host's shell: behind them goes one word, in which each word of the command is quoted. Other launchers, such as
//! `ip netns exec host{node}`, execute the words that follow: behind them the words go as they are. A launcher that is
//! something else says `{command}` in the place where the quoted text belongs.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

/// The launcher if none is given.
pub const DEFAULT_LAUNCHER: &str = "ssh {host}";

/// Launchers that hand a text to a shell.
const FOR_SHELLS: [&str; 2] = ["ssh", "rsh"];

/// Stands for the whole command, quoted for a shell.
const COMMAND: &str = "{command}";

/// The words of a launcher, with `{host}` and `{node}` in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    words: Vec<String>,
}

impl FromStr for Launcher {
    type Err = String;

    fn from_str(text: &str) -> Result<Launcher, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(format!("expected a command, such as '{DEFAULT_LAUNCHER}'"));
        }
        match words.iter().find_map(|word| unknown_name(word)) {
            Some(name) => {
                Err(format!("{name} stands for nothing: write {{host}}, {{node}} or {{command}}"))
            }
            None => Ok(Launcher { words }),
        }
    }
}

impl Launcher {
    /// The command that runs `words` on the host of a node.
    pub fn command(&self, host: IpAddr, nid: u16, words: &[OsString]) -> Command {
        let all = self.fill(host, nid, words);
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]);
        command
    }

    /// The first word, with which it is named in messages.
    pub fn name(&self) -> &str {
        &self.words[0]
    }

    fn fill(&self, host: IpAddr, nid: u16, words: &[OsString]) -> Vec<OsString> {
        let filled = self.words.iter().map(|word| {
            word.replace("{host}", &host.to_string()).replace("{node}", &nid.to_string())
        });
        if self.words.iter().any(|word| word.contains(COMMAND)) {
            return filled.map(|word| replace_command(&word, &quote(words))).collect();
        }
        let mut all: Vec<OsString> = filled.map(OsString::from).collect();
        let program = Path::new(&self.words[0]).file_name().and_then(OsStr::to_str);
        match program.is_some_and(|program| FOR_SHELLS.contains(&program)) {
            true => all.push(quote(words)),
            false => all.extend(words.iter().cloned()),
        }
        all
    }
}

/// A name in braces that is none of those above. Braces with anything else in them are the launcher's own.
fn unknown_name(word: &str) -> Option<&str> {
    let known = ["{host}", "{node}", COMMAND];
    let names = word.match_indices('{').filter_map(|(at, _)| {
        let end = word[at..].find('}')?;
        let name = &word[at..=at + end];
        let is_name = end > 1 && name[1..end].bytes().all(|byte| byte.is_ascii_lowercase());
        let is_shell = word[..at].ends_with('$');
        (is_name && !is_shell).then_some(name)
    });
    names.into_iter().find(|name| !known.contains(name))
}

fn replace_command(word: &str, command: &OsStr) -> OsString {
    let mut filled = OsString::new();
    for (index, piece) in word.split(COMMAND).enumerate() {
        if index > 0 {
            filled.push(command);
        }
        filled.push(piece);
    }
    filled
}

/// One text that a POSIX shell takes apart to these words.
pub fn quote(words: &[OsString]) -> OsString {
    let mut text = Vec::new();
    for word in words {
        if !text.is_empty() {
            text.push(b' ');
        }
        text.push(b'\'');
        for &byte in word.as_bytes() {
            match byte {
                b'\'' => text.extend_from_slice(br"'\''"),
                _ => text.push(byte),
            }
        }
        text.push(b'\'');
    }
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(launcher: &str, words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let host: IpAddr = "10.9.0.2".parse().unwrap();
        let all = launcher.parse::<Launcher>().unwrap().fill(host, 3, &words);
        all.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn shells_get_one_quoted_text() {
        let all = filled("/usr/bin/ssh -p 22 {host}", &["a b", "it's", ""]);
        assert_eq!(all, ["/usr/bin/ssh", "-p", "22", "10.9.0.2", r"'a b' 'it'\''s' ''"]);
        let all = filled("sshpass -e ssh {host} {command}", &["a b"]);
        assert_eq!(all, ["sshpass", "-e", "ssh", "10.9.0.2", "'a b'"]);
    }

    #[test]
    fn others_get_the_words() {
        let all = filled("ip netns exec host{node}", &["a b", "it's"]);
        assert_eq!(all, ["ip", "netns", "exec", "host3", "a b", "it's"]);
        assert!(" ".parse::<Launcher>().is_err());
    }

    #[test]
    fn mistyped_names_are_refused() {
        for (launcher, name) in [("ssh {hots}", "{hots}"), ("ip netns exec h{node}{nid}", "{nid}")]
        {
            assert!(launcher.parse::<Launcher>().unwrap_err().starts_with(name), "{launcher}");
        }
        for launcher in ["env A={} ssh {host}", "sh -c ${x}{command}", "x {A-B} {", "x }{node"] {
            assert!(launcher.parse::<Launcher>().is_ok(), "{launcher}");
        }
    }

    #[test]
    fn a_shell_takes_the_text_apart_to_the_same_words() {
        let words = ["plain", "two words", "$HOME `id` \\ \"x\"", "it's\nnew"].map(OsString::from);
        let script = OsString::from_vec([b"printf '%s|' ", quote(&words).as_bytes()].concat());
        let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
        assert_eq!(output.stdout, b"plain|two words|$HOME `id` \\ \"x\"|it's\nnew|");
    }
}
