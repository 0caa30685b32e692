// SPDX-License-Identifier: BSD-2-Clause
//! An oracle of what each span holds and has allocated: an allocator around jespan's, which counts usable bytes by what the
//! program itself says of the spans that it is in.
#![cfg(feature = "link")]
#![deny(unsafe_op_in_unsafe_fn)]
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_void, CString};
use std::future::Future;
use std::os::raw::{c_char, c_int};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::task::{Context, Poll};
use tracing::Span;

extern "C" {
    fn malloc_usable_size(object: *mut c_void) -> usize;
    fn mallctl(name: *const c_char, old: *mut c_void, old_bytes: *mut usize, new: *mut c_void, new_bytes: usize) -> c_int;
}

const MAX_PLACES: usize = 64;
#[allow(clippy::declare_interior_mutable_const)]
const ZERO: AtomicU64 = AtomicU64::new(0);
static LIVE: [AtomicU64; MAX_PLACES] = [ZERO; MAX_PLACES];
static ALLOCATED: [AtomicU64; MAX_PLACES] = [ZERO; MAX_PLACES];
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The context of a span, as reports print it. 0 is what is outside all spans, which is not compared.
#[derive(Clone, Copy)]
pub struct Place(usize);

thread_local! {
    static HERE: Cell<usize> = const { Cell::new(0) };
}

impl Place {
    pub fn new(name: impl Into<String>) -> Place {
        let mut names = NAMES.lock().unwrap();
        names.push(name.into());
        Place(names.len())
    }

    /// Runs `work` in a span that is there.
    pub fn within<R>(self, span: &Span, work: impl FnOnce() -> R) -> R {
        span.in_scope(|| self.run(work))
    }

    fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let before = HERE.with(|here| here.replace(self.0));
        let result = work();
        HERE.with(|here| here.set(before));
        result
    }

    /// A future whose span is this place's.
    pub fn of<F: Future>(self, future: F) -> Placed<F> {
        Placed(self, Box::pin(future))
    }
}

pub struct Placed<F>(Place, Pin<Box<F>>);

impl<F: Future> Future for Placed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.0.run(|| self.1.as_mut().poll(context))
    }
}

/// Lets other tasks run: `Yield::default().await`
#[derive(Default)]
pub struct Yield {
    is_over: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.is_over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// To be called on each new thread. The first use of a variable of the thread may register a destructor, for which libc calls
/// `calloc`. jespan credits that to the current span, but the oracle does not see it.
pub fn warm_up() {
    tracing::info_span!("warm-up").in_scope(|| tracing::info_span!("below").in_scope(|| ()));
    let (to, from) = std::sync::mpsc::channel();
    to.send(()).unwrap();
    from.recv().unwrap();
    let _ = from.recv_timeout(std::time::Duration::from_millis(1));
}

/// What `mallctl` answers into `old`, in bytes.
fn ctl<T>(name: &str, old: &mut [T]) -> usize {
    let (name, mut bytes) = (CString::new(name).unwrap(), std::mem::size_of_val(old));
    let error = unsafe { mallctl(name.as_ptr(), old.as_mut_ptr().cast(), &mut bytes, ptr::null_mut(), 0) };
    assert!(error == 0, "{:?}: error {}", name, error);
    bytes
}

/// Checks that jespan has closed as many spans as it has opened.
pub fn all_are_closed() {
    let mut ids = [0u32; 1000];
    let count = ctl("spans.ids", &mut ids) / 4;
    let total = |figure: &str| -> u64 {
        let of = |id: &u32| {
            let mut value = [0u64];
            ctl(&format!("spans.{}.{}", id, figure), &mut value);
            value[0]
        };
        ids[..count].iter().map(of).sum()
    };
    assert!(total("opens") > 0 && total("open") == 0, "{} spans of {} are open", total("open"), total("opens"));
}

/// Prints a line for each place: bytes in use, bytes allocated, context.
pub fn print() {
    for (index, name) in NAMES.lock().unwrap().iter().enumerate() {
        let figure = |of: &[AtomicU64]| of[index + 1].load(Ordering::Relaxed);
        println!("{} {} {}", figure(&LIVE), figure(&ALLOCATED), name);
    }
}

/// An object has its place before it, at a distance that keeps its alignment.
pub struct Oracle;

fn distance(layout: Layout) -> usize {
    layout.align().max(16)
}

unsafe fn outer(layout: Layout) -> Layout {
    unsafe { Layout::from_size_align_unchecked(layout.size() + distance(layout), layout.align()) }
}

unsafe fn begin(object: *mut u8, distance: usize) -> *mut u8 {
    if object.is_null() {
        return object;
    }
    let place = HERE.try_with(Cell::get).unwrap_or(0);
    unsafe {
        let bytes = malloc_usable_size(object.cast()) as u64;
        LIVE[place].fetch_add(bytes, Ordering::Relaxed);
        ALLOCATED[place].fetch_add(bytes, Ordering::Relaxed);
        object.cast::<usize>().write(place);
        object.add(distance)
    }
}

unsafe fn end(object: *mut u8) {
    unsafe {
        LIVE[object.cast::<usize>().read()].fetch_sub(malloc_usable_size(object.cast()) as u64, Ordering::Relaxed);
    }
}

unsafe impl GlobalAlloc for Oracle {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { begin(jespan::Allocator.alloc(outer(layout)), distance(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { begin(jespan::Allocator.alloc_zeroed(outer(layout)), distance(layout)) }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        unsafe {
            let (distance, old) = (distance(layout), object.sub(distance(layout)));
            end(old);
            let new = jespan::Allocator.realloc(old, outer(layout), new_size + distance);
            if new.is_null() {
                std::process::abort();
            }
            begin(new, distance)
        }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        unsafe {
            let object = object.sub(distance(layout));
            end(object);
            jespan::Allocator.dealloc(object, outer(layout));
        }
    }
}

/// Keeps `count` objects of different sizes and alignments, and frees as many.
pub fn work(count: usize) {
    for i in 0..count {
        let (size, align) = (1 + i * 37 % 3000, 1 << (i % 9));
        let layout = Layout::from_size_align(size, align).unwrap();
        unsafe {
            let object = std::alloc::alloc(layout);
            assert!(!object.is_null() && object as usize % align == 0);
            ptr::write_bytes(object, 0xa5, size);
            let larger = std::alloc::realloc(object, layout, size * 2);
            assert!(larger as usize % align == 0 && (0..size).all(|at| *larger.add(at) == 0xa5));
            let zeroed = std::alloc::alloc_zeroed(layout);
            assert!(zeroed as usize % align == 0 && (0..size).all(|at| *zeroed.add(at) == 0));
            if i % 2 == 0 {
                std::alloc::dealloc(larger, Layout::from_size_align(size * 2, align).unwrap());
            } else {
                std::alloc::dealloc(zeroed, layout);
            }
        }
    }
}
