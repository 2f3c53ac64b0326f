//! CoreMark, then threads, channels, maps, files, environment and a panic that is caught.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::{env, fs, panic, thread};

/// Words of a text and how often they come, counted by threads that share a map.
fn count(text: &str, threads: usize) -> BTreeMap<String, usize> {
    let counts = Mutex::new(HashMap::new());
    let words: Vec<&str> = text.split_whitespace().collect();
    thread::scope(|scope| {
        for part in words.chunks(words.len().div_ceil(threads).max(1)) {
            let counts = &counts;
            scope.spawn(move || {
                for word in part {
                    *counts.lock().unwrap().entry((*word).to_owned()).or_insert(0) += 1;
                }
            });
        }
    });
    counts.into_inner().unwrap().into_iter().collect()
}

/// The sum of what producers send to one consumer, after all have waited for one signal.
fn send(threads: u64, numbers: u64) -> u64 {
    let (to, from) = mpsc::sync_channel(4);
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    for thread in 0..threads {
        let (to, gate) = (to.clone(), Arc::clone(&gate));
        thread::spawn(move || {
            let mut open = gate.0.lock().unwrap();
            while !*open {
                open = gate.1.wait(open).unwrap();
            }
            drop(open);
            (0..numbers).for_each(|number| to.send(thread * number).unwrap());
        });
    }
    drop(to);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    from.iter().sum()
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).map_or(1, |text| text.parse().unwrap());
    let (iterations, threads) = (number(0), number(1));
    let report = coremark::run(&coremark::Config {
        seed1: 0,
        seed2: 0,
        seed3: 0x66,
        iterations: iterations as u32,
        execs: 0,
        size: 0,
    });
    // Its times differ, its checksums do not.
    for line in report.to_string().lines().filter(|line| line.contains("crc")) {
        println!("{line}");
    }
    let text = "a rack of nodes that read the memory of other nodes of a rack ".repeat(20);
    println!("{:?}", count(&text, threads));
    println!("{}", send(threads as u64, 50));
    fs::create_dir("tasks.folder").unwrap();
    fs::write("tasks.folder/text", &text).unwrap();
    let names: Vec<_> =
        fs::read_dir("tasks.folder").unwrap().map(|at| at.unwrap().file_name()).collect();
    println!("{names:?} {}", fs::read_to_string("tasks.folder/text").unwrap() == text);
    fs::remove_dir_all("tasks.folder").unwrap();
    println!("{}", fs::metadata("tasks.folder").unwrap_err());
    let caught = panic::catch_unwind(|| panic!("on purpose")).is_err();
    println!("caught: {caught}");
}
