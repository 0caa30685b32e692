// SPDX-License-Identifier: BSD-2-Clause
//! A span of jespan's, by its handle.
use crate::labels::Labels;
use crate::site::Callsite;
use crate::sys::{Functions, CURRENT};
use std::ffi::c_void;
use std::ptr::NonNull;

/// A handle. jespan checks each use of it, so a wrong use is an error that changes nothing.
#[derive(Clone, Copy)]
pub struct Handle(NonNull<c_void>);

// SAFETY: to this crate it is a number. jespan's functions take it on any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Functions {
    /// Opens a span below a context. None without memory.
    pub fn open_below(&self, callsite: &'static Callsite, parent: u32, labels: &mut Labels) -> Option<Handle> {
        let labels = labels.as_labels();
        // SAFETY: the site lives for ever, and the labels until the call is over.
        NonNull::new(unsafe { (self.open)(&callsite.site, parent, labels.as_ptr(), labels.len()) }).map(Handle)
    }

    /// Opens a span below another one, which need not be current.
    pub fn open_in(&self, callsite: &'static Callsite, parent: Handle, labels: &mut Labels) -> Option<Handle> {
        self.enter_span(parent);
        let span = self.open_below(callsite, CURRENT, labels);
        self.exit_span(parent);
        span
    }

    pub fn enter_span(&self, span: Handle) {
        // SAFETY: any handle is valid. Without memory the thread stays where it was.
        unsafe { (self.enter)(span.0.as_ptr()) };
    }

    pub fn exit_span(&self, span: Handle) {
        // SAFETY: as above.
        unsafe { (self.exit)(span.0.as_ptr()) };
    }

    pub fn close_span(&self, span: Handle) {
        // SAFETY: as above.
        unsafe { (self.close)(span.0.as_ptr()) };
    }

    pub fn add_labels(&self, span: Handle, labels: &mut Labels) {
        for label in labels.as_labels() {
            // SAFETY: the label lives until the call is over.
            unsafe { (self.add_label)(span.0.as_ptr(), label) };
        }
    }
}
