// SPDX-License-Identifier: BSD-2-Clause
//! Spans in tasks that move between threads: on tokio, and on two threads that poll each task in turn.
use jespan_tests::{all_are_closed, print, warm_up, work, Oracle, Place, Yield};
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;
use tracing::{info_span, Instrument};
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOCATOR: Oracle = Oracle;

const TASKS: usize = 2000;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone, Copy)]
struct Places {
    task: Place,
    step: Place,
}

async fn step(number: usize) {
    for i in 0..3 {
        work(number % 5 + i);
        Yield::default().await;
    }
}

async fn task(places: Places, number: usize) {
    work(2);
    Yield::default().await;
    let kept = vec![0u8; 100 + number % 7];
    places.step.of(step(number)).instrument(info_span!("step")).await;
    work(1);
    std::mem::forget(kept);
}

fn job(places: &[Places], number: usize, on: &str) -> Job {
    let kind = number % places.len();
    let span = info_span!("task", kind, on);
    Box::pin(places[kind].task.of(task(places[kind], number)).instrument(span))
}

fn on_tokio(places: &[Places]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).on_thread_start(warm_up).build().unwrap();
    let tasks: Vec<_> = (0..TASKS).map(|number| runtime.spawn(job(places, number, "tokio"))).collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// All tasks are polled over and over, so none needs to be woken.
struct NoWaker;

impl Wake for NoWaker {
    fn wake(self: Arc<Self>) {}
}

/// Polls each job once, and hands those that are not done to the other thread.
fn poll_in_turn(batches: Receiver<Vec<Job>>, next: Sender<Vec<Job>>) {
    warm_up();
    let waker = Waker::from(Arc::new(NoWaker));
    for mut jobs in batches {
        jobs.retain_mut(|job| job.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let are_done = jobs.is_empty();
        let _ = next.send(jobs); // an error: the other thread had the last job, and has ended
        if are_done {
            break;
        }
    }
}

fn in_turn(places: &[Places]) {
    let (first, first_batches) = channel();
    let (second, second_batches) = channel();
    first.send((0..TASKS).map(|number| job(places, number, "turns")).collect()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| poll_in_turn(first_batches, second));
        scope.spawn(|| poll_in_turn(second_batches, first));
    });
}

fn main() {
    tracing_subscriber::registry().with(jespan::layer()).init();
    let place = |task, step| Places { task: Place::new(task), step: Place::new(step) };
    on_tokio(&[
        place("task {kind=0, on=tokio}", "task > step {kind=0, on=tokio}"),
        place("task {kind=1, on=tokio}", "task > step {kind=1, on=tokio}"),
        place("task {kind=2, on=tokio}", "task > step {kind=2, on=tokio}"),
    ]);
    in_turn(&[
        place("task {kind=0, on=turns}", "task > step {kind=0, on=turns}"),
        place("task {kind=1, on=turns}", "task > step {kind=1, on=turns}"),
    ]);
    print();
    all_are_closed();
}
