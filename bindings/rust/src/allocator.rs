// SPDX-License-Identifier: BSD-2-Clause
//! The global allocator: jespan's malloc, called directly.
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr;

#[link(name = "jespan")]
extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    fn realloc(object: *mut c_void, size: usize) -> *mut c_void;
    fn free(object: *mut c_void);
}

/// What `malloc` aligns objects to that are at least so large.
const MALLOC_ALIGN: usize = 16;

/// Allocates from jespan. A program that names it is linked with libjespan and needs no `jespan run`:
///
/// ```no_run
/// #[global_allocator]
/// static ALLOCATOR: jespan::Allocator = jespan::Allocator;
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Whether `malloc` aligns an object as the layout asks. It aligns small ones to their size only.
fn is_plain(align: usize, size: usize) -> bool {
    align <= MALLOC_ALIGN && align <= size
}

// SAFETY: malloc's contract is that of GlobalAlloc: it does not unwind, returns NULL on failure, and objects stay in place.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size is valid; the alignment is a power of two.
        unsafe {
            if is_plain(layout.align(), layout.size()) {
                malloc(layout.size()).cast()
            } else {
                aligned_alloc(layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above; the object that is overwritten has the layout's size.
        unsafe {
            if is_plain(layout.align(), layout.size()) {
                return calloc(layout.size(), 1).cast();
            }
            let object = self.alloc(layout);
            if !object.is_null() {
                ptr::write_bytes(object, 0, layout.size());
            }
            object
        }
    }

    #[inline]
    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller says that `object` has this layout, and that the new size is valid with its alignment.
        unsafe {
            if is_plain(layout.align(), new_size) {
                return realloc(object.cast(), new_size).cast();
            }
            let new = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(object, new, layout.size().min(new_size));
                free(object.cast());
            }
            new
        }
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, _: Layout) {
        // SAFETY: `object` is from one of the functions above.
        unsafe { free(object.cast()) }
    }
}
