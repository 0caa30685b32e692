// SPDX-License-Identifier: BSD-2-Clause
//! Very many spans, on 8 threads, each below another and with a label. An argument of 0 leaves out the layer.
use std::time::Instant;
use tracing::info_span;
use tracing_subscriber::prelude::*;

const THREADS: usize = 8;

fn main() {
    let argument = |index, default| std::env::args().nth(index).map_or(default, |text| text.parse().unwrap());
    let spans: usize = argument(1, 200_000);
    tracing_subscriber::registry().with((argument(2, 1) == 1).then(jespan::layer)).init();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for number in 0..spans / 2 / THREADS {
                    let _outer = info_span!("outer", number = number % 8).entered();
                    let _inner = info_span!("inner").entered();
                    drop(Box::new([0u8; 100]));
                }
            });
        }
    });
    eprintln!("{spans} spans in {:?}", start.elapsed());
}
