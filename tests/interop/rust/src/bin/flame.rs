// SPDX-License-Identifier: BSD-2-Clause
//! The spans of tracing-flame's own tests, with jespan's layer beside its. The argument is tracing-flame's file.
use std::thread::{self, sleep};
use std::time::Duration;
use tracing::{error_span, Span};
use tracing_flame::FlameLayer;
use tracing_subscriber::prelude::*;

fn pause(milliseconds: u64) {
    sleep(Duration::from_millis(milliseconds));
}

/// The first events of a thread take longer, in each layer after another one.
fn warm_up() {
    error_span!("warm-up").in_scope(|| error_span!("below").in_scope(|| ()));
}

fn nested() {
    error_span!("outer").in_scope(|| {
        pause(5);
        error_span!("Inner").in_scope(|| {
            pause(20);
            error_span!("Innermost").in_scope(|| pause(20));
        });
        pause(5);
    });
}

/// A span that is made on one thread and entered on another, while the first one is in other spans.
fn concurrent() {
    let on_other_thread = |span: Span| {
        let run = move || {
            warm_up();
            span.in_scope(|| pause(30));
        };
        thread::Builder::new().name("other".into()).spawn(run).unwrap()
    };
    let main = error_span!("main").entered();
    let other = error_span!("outer").in_scope(|| {
        pause(10);
        let other = on_other_thread(error_span!("Inner"));
        pause(20);
        other
    });
    pause(20);
    other.join().unwrap();
    drop(main);
}

fn main() {
    let path = std::env::args_os().nth(1).expect("no file");
    let (flame, guard) = FlameLayer::with_file(path).unwrap();
    tracing_subscriber::registry().with(flame.with_file_and_line(false)).with(jespan::layer()).init();
    warm_up();
    for _ in 0..5 {
        nested();
        concurrent();
    }
    guard.flush().unwrap();
}
