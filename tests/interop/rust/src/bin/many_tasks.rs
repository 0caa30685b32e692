// SPDX-License-Identifier: BSD-2-Clause
//! Very many spans, two in each task on tokio. Tasks move between threads, and what one of their spans made is freed in another span
//! or outside. The argument is the number of spans.
use jespan_tests::{all_are_closed, print, warm_up, work, Oracle, Place, Yield};
use tokio::runtime::Runtime;
use tracing::{info_span, Instrument};
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOCATOR: Oracle = Oracle;

const WAVE: usize = 2000; // tasks at a time
const KINDS: usize = 3;

#[derive(Clone, Copy)]
struct Places {
    task: Place,
    step: Place,
}

/// Returns an object that is freed elsewhere.
async fn step(number: usize) -> Vec<u8> {
    work(1 + number % 2);
    Yield::default().await;
    let made = vec![1u8; 1 + number * 61 % 5000];
    Yield::default().await;
    made
}

async fn task(places: Places, number: usize) -> (Vec<u8>, Vec<u8>) {
    let own = vec![2u8; 1 + number * 17 % 300];
    work(1);
    let mut made = places.step.of(step(number)).instrument(info_span!("step")).await;
    if number % 2 == 0 {
        made.resize(made.len() * 2, 3); // now it is of this span
    }
    Yield::default().await;
    (own, made)
}

fn run_wave(runtime: &Runtime, places: &[Places], numbers: std::ops::Range<usize>) {
    let spawn = |number: usize| {
        let kind = number % KINDS;
        runtime.spawn(places[kind].task.of(task(places[kind], number)).instrument(info_span!("task", kind)))
    };
    let tasks: Vec<_> = numbers.map(spawn).collect();
    runtime.block_on(async {
        for (at, task) in tasks.into_iter().enumerate() {
            let (own, made) = task.await.unwrap();
            drop(made);
            if at % 100 == 0 {
                std::mem::forget(own);
            }
        }
    });
}

fn main() {
    let spans: usize = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    tracing_subscriber::registry().with(jespan::layer()).init();
    let place = |kind| Places {
        task: Place::new(format!("task {{kind={kind}}}")),
        step: Place::new(format!("task > step {{kind={kind}}}")),
    };
    let places: Vec<_> = (0..KINDS).map(place).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).on_thread_start(warm_up).build().unwrap();
    for first in (0..spans / 2).step_by(WAVE) {
        run_wave(&runtime, &places, first..(first + WAVE).min(spans / 2));
    }
    drop(runtime); // its threads have ended
    print();
    all_are_closed();
}
