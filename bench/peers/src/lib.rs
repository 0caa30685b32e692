// SPDX-License-Identifier: BSD-2-Clause
//! Those workloads of bench/workloads that a profiler inside a Rust program can be compared on, with the same sizes,
//! places and inner rounds. Memory comes from the program's global allocator, which takes it from the process's malloc.
//!
//! usage: NAME [--ms N] [--operations N]

use std::alloc::{alloc, dealloc, Layout};
use std::hint::black_box;
use std::time::{Duration, Instant};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const ALIGN: usize = 16;
const ROUND: Duration = Duration::from_millis(5);
const RSS_OBJECT_BYTES: usize = 64;
const RSS_OBJECTS: usize = 64 * 1024 * 1024 / RSS_OBJECT_BYTES;

struct Object(*mut u8, Layout);

fn allocate(bytes: usize) -> Object {
    let layout = Layout::from_size_align(bytes, ALIGN).unwrap();
    // SAFETY: bytes is never 0, and what is written lies inside.
    unsafe {
        let p = alloc(layout);
        assert!(!p.is_null(), "out of memory");
        p.write_volatile(1);
        Object(black_box(p), layout)
    }
}

fn free(object: &Object) {
    // SAFETY: each object is freed once, with the layout that it was allocated with.
    unsafe { dealloc(object.0, object.1) }
}

/// Objects by random replacement.
struct Churn {
    random: u64,
    least: u64,
    most: u64,
    objects: Vec<Object>,
}

impl Churn {
    fn new(live: usize, least: u64, most: u64) -> Churn {
        let mut churn = Churn { random: SEED, least, most, objects: Vec::with_capacity(live) };
        for _ in 0..live {
            let bytes = churn.bytes();
            churn.objects.push(allocate(bytes));
        }
        churn
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 32) * n) >> 32
    }

    fn bytes(&mut self) -> usize {
        (self.least + self.below(self.most - self.least + 1)) as usize
    }

    fn round(&mut self, operations: u64) {
        for _ in 0..operations {
            let place = self.below(self.objects.len() as u64) as usize;
            free(&self.objects[place]);
            self.objects[place] = allocate(self.bytes());
        }
    }
}

fn pair_round(operations: u64) {
    for _ in 0..operations {
        free(&allocate(64));
    }
}

/// CPU time of all threads, the profiler's own included.
fn cpu_ns() -> u64 {
    // SAFETY: a timespec may be all zeroes, and is only written to.
    unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    }
}

fn round_ns(round: &mut dyn FnMut(u64), operations: u64) -> u64 {
    let start = cpu_ns();
    round(operations);
    cpu_ns() - start
}

/// The best inner round and the mean of all, per operation.
fn measure(round: &mut dyn FnMut(u64), total: Duration) -> (f64, f64) {
    let mut operations = 64;
    while round_ns(round, operations) < ROUND.as_nanos() as u64 {
        operations *= 2;
    }
    let (start, mut best, mut sum, mut rounds) = (Instant::now(), u64::MAX, 0, 0);
    while rounds == 0 || start.elapsed() < total {
        let ns = round_ns(round, operations);
        best = best.min(ns);
        sum += ns;
        rounds += 1;
    }
    (best as f64 / operations as f64, sum as f64 / (rounds * operations) as f64)
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("smaps_rollup");
    let line = text.lines().find(|l| l.starts_with("Rss:")).expect("Rss");
    line.split_whitespace().nth(1).expect("a number").parse::<usize>().expect("a number") * 1024
}

fn fill(objects: &mut [Object]) {
    for object in objects {
        *object = allocate(RSS_OBJECT_BYTES);
        // SAFETY: all of it is ours.
        unsafe { object.0.write_bytes(1, RSS_OBJECT_BYTES) }
    }
}

/// The array is touched before, and the first objects are left out: they pay for an arena, a thread cache and the like.
fn bytes_per_object() -> f64 {
    let first = RSS_OBJECTS / 16;
    let mut objects: Vec<Object> = Vec::new();
    objects.resize_with(first + RSS_OBJECTS, || Object(ALIGN as *mut u8, Layout::new::<u64>()));
    fill(&mut objects[..first]);
    let before = resident_bytes();
    fill(&mut objects[first..]);
    (resident_bytes() - before) as f64 / RSS_OBJECTS as f64
}

fn number_after(name: &str, arguments: &[String]) -> Option<u64> {
    let at = arguments.iter().position(|a| a == name)?;
    arguments.get(at + 1)?.parse().ok()
}

/// The file that malloc comes from.
fn origin() -> String {
    // SAFETY: dladdr only fills in what it is given; the name it finds stays.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let malloc = libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr());
        if libc::dladdr(malloc, &mut info) == 0 {
            return "?".into();
        }
        std::ffi::CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned()
    }
}

fn replaced(arguments: &[String], live: usize, least: u64, most: u64) -> (f64, f64) {
    let mut churn = Churn::new(live, least, most);
    churn.round(live as u64);
    figures(arguments, &mut |n| churn.round(n))
}

fn figures(arguments: &[String], round: &mut dyn FnMut(u64)) -> (f64, f64) {
    if let Some(operations) = number_after("--operations", arguments) {
        round(operations);
        return (0.0, 0.0);
    }
    measure(round, Duration::from_millis(number_after("--ms", arguments).unwrap_or(200)))
}

/// Runs the workload that the command line names and prints what it cost, as bench/workloads does.
pub fn run() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("", String::as_str);
    let (best, mean) = match name {
        "pair" => figures(&arguments, &mut pair_round),
        "churn" => replaced(&arguments, 10_000, 16, 1024),
        "cold-200k" => replaced(&arguments, 200_000, 16, 256),
        "rss-64" => {
            let bytes = bytes_per_object();
            (bytes, bytes)
        }
        _ => panic!("no workload {name:?}"),
    };
    println!(
        "{{\"workload\": \"{name}\", \"value\": {best:.3}, \"mean\": {mean:.3}, \"malloc\": \"{}\", \
         \"jemalloc\": \"\", \"prof\": false}}",
        origin()
    );
}
