// SPDX-License-Identifier: BSD-2-Clause
//! Spans in threads: nested, with labels of each type, entered on other threads, with parents of the program's choice, and with
//! fields that are known late.
use jespan_tests::{all_are_closed, print, warm_up, work, Oracle, Place};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::{self, JoinHandle};
use tracing::field::Empty;
use tracing::{info_span, trace_span, Span};
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOCATOR: Oracle = Oracle;

#[derive(Clone, Copy)]
struct Places {
    outer: [Place; 2],
    inner: [Place; 2],
    moved: [Place; 2],
    chosen: [Place; 2],
    root: Place,
    late: [Place; 2],
    typed: Place,
    long: Place,
    recursive: [Place; 3],
}

/// Another thread, which works in spans that it gets.
struct Other {
    to: Sender<(Place, Span, usize)>,
    done: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Other {
    fn new() -> Other {
        let (to, jobs) = channel();
        let (finished, done) = channel();
        let thread = thread::spawn(move || {
            warm_up();
            for (place, span, count) in jobs {
                Place::within(place, &span, || work(count));
                drop(span);
                finished.send(()).unwrap();
            }
        });
        Other { to, done, thread }
    }

    /// Waits until the thread has freed what it had received.
    fn end(self) {
        drop(self.to);
        self.thread.join().unwrap();
    }

    fn within(&self, place: Place, span: Span, count: usize) {
        self.to.send((place, span, count)).unwrap();
        self.done.recv().unwrap();
    }
}

fn recurse(places: &Places, depth: usize) {
    places.recursive[depth].within(&trace_span!("recursive"), || {
        work(10);
        if depth < 2 {
            recurse(places, depth + 1);
        }
        work(5);
    });
}

fn nested(places: &Places, tenant: usize, other: &Other) {
    let outer = info_span!("outer", tenant);
    places.outer[tenant].within(&outer, || {
        work(20);
        places.inner[tenant].within(&info_span!("inner", phase = "first"), || work(30));
        work(1);
        places.root.within(&info_span!(parent: None, "root"), || work(3));
        let moved = info_span!("moved");
        other.within(places.moved[tenant], moved, 7);
        outer.in_scope(|| work(2));
    });
    places.chosen[tenant].within(&info_span!(parent: &outer, "chosen"), || work(9));
}

fn fields(places: &Places) {
    let late = info_span!("late", status = Empty, reason = Empty);
    places.late[0].within(&late, || work(2));
    late.in_scope(|| late.record("status", 404).record("reason", "none"));
    places.late[1].within(&late, || work(4));

    let (number, text) = (-7, "a\0b");
    let typed = info_span!("typed", number, text, truth = true, half = 0.5, large = u64::MAX, debugged = ?"x", number.twice = ?(2 * number),
        displayed = %"y", empty = Empty);
    places.typed.within(&typed, || work(6));

    places.long.within(&info_span!("long", value = "\u{e9}".repeat(300).as_str()), || work(8));
}

fn main() {
    tracing_subscriber::registry().with(jespan::layer()).init();
    let places = Places {
        outer: [Place::new("outer {tenant=0}"), Place::new("outer {tenant=1}")],
        inner: [Place::new("outer > inner {phase=first, tenant=0}"), Place::new("outer > inner {phase=first, tenant=1}")],
        moved: [Place::new("outer > moved {tenant=0}"), Place::new("outer > moved {tenant=1}")],
        chosen: [Place::new("outer > chosen {tenant=0}"), Place::new("outer > chosen {tenant=1}")],
        root: Place::new("root"),
        late: [Place::new("late"), Place::new("late {status=404, reason=none}")],
        typed: Place::new(concat!(
            "typed {number=-7, text=ab, truth=true, half=0.5, large=18446744073709551615, debugged=\"x\", ",
            "number.twice=-14, displayed=y}"
        )),
        long: Place::new(format!("long {{value={}}}", "\u{e9}".repeat(255 / 2))),
        recursive: [
            Place::new("recursive"),
            Place::new("recursive > recursive"),
            Place::new("recursive > recursive > recursive"),
        ],
    };
    let threads: Vec<_> = (0..4)
        .map(|number| {
            thread::spawn(move || {
                warm_up();
                let other = Other::new();
                for _ in 0..20 {
                    nested(&places, number % 2, &other);
                    fields(&places);
                    recurse(&places, 0);
                }
                other.end();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    print();
    all_are_closed();
}
