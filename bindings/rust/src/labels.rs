// SPDX-License-Identifier: BSD-2-Clause
//! The fields of a span as labels, on the stack: to open a span allocates nothing.
use crate::site::Callsite;
use crate::sys;
use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::os::raw::c_char;
use std::ptr;
use tracing_core::field::{Field, Visit};

/// One more than jespan takes, and longer texts than it takes, so that jespan leaves out what is too much and counts it.
const MAX_LABELS: usize = sys::MAX_LABELS + 1;
const MAX_TEXT_BYTES: usize = sys::MAX_STRING_BYTES + 4;

const NO_LABEL: sys::Label = sys::Label { key: ptr::null(), value: ptr::null(), integer: 0, kind: sys::TYPE_INTEGER };

pub struct Labels {
    callsite: &'static Callsite,
    labels: [sys::Label; MAX_LABELS],
    /// Where the text of a label begins
    texts: [usize; MAX_LABELS],
    count: usize,
    text: Text,
}

impl Labels {
    pub fn of(callsite: &'static Callsite) -> Labels {
        Labels { callsite, labels: [NO_LABEL; MAX_LABELS], texts: [0; MAX_LABELS], count: 0, text: Text::new() }
    }

    /// For jespan.
    pub fn as_labels(&mut self) -> &[sys::Label] {
        for (label, &start) in self.labels[..self.count].iter_mut().zip(&self.texts) {
            if label.kind == sys::TYPE_STRING {
                label.value = self.text.at(start);
            }
        }
        &self.labels[..self.count]
    }

    fn add_integer(&mut self, field: &Field, integer: i64) {
        self.add(field, sys::TYPE_INTEGER, integer, 0);
    }

    fn add_text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if self.count < MAX_LABELS {
            let start = self.text.add(value);
            self.add(field, sys::TYPE_STRING, 0, start);
        }
    }

    fn add(&mut self, field: &Field, kind: u32, integer: i64, start: usize) {
        if let (Some(&key), true) = (self.callsite.keys.get(field.index()), self.count < MAX_LABELS) {
            self.labels[self.count] = sys::Label { key, value: ptr::null(), integer, kind };
            self.texts[self.count] = start;
            self.count += 1;
        }
    }
}

impl Visit for Labels {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_integer(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(integer) => self.add_integer(field, integer),
            Err(_) => self.add_text(field, format_args!("{}", value)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, format_args!("{}", value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, format_args!("{:?}", value));
    }
}

/// Texts behind each other, each with a NUL at its end.
struct Text {
    bytes: [MaybeUninit<u8>; MAX_LABELS * (MAX_TEXT_BYTES + 1)],
    used: usize,
    /// Where the text that is being written must end
    end: usize,
}

impl Text {
    fn new() -> Text {
        Text { bytes: [MaybeUninit::uninit(); MAX_LABELS * (MAX_TEXT_BYTES + 1)], used: 0, end: 0 }
    }

    /// Where the text begins. It is called MAX_LABELS times at most.
    fn add(&mut self, value: fmt::Arguments<'_>) -> usize {
        let start = self.used;
        self.end = start + MAX_TEXT_BYTES;
        let _ = self.write_fmt(value); // an error: the text is cut, or its Debug has failed
        self.push(0);
        start
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.used] = MaybeUninit::new(byte);
        self.used += 1;
    }

    fn at(&self, start: usize) -> *const c_char {
        self.bytes[start..].as_ptr().cast()
    }
}

impl Write for Text {
    /// Leaves out NUL bytes. Fails at the end of the room, so that the rest of a long value is not even formatted.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars().filter(|&character| character != '\0') {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            if self.used + bytes.len() > self.end {
                return Err(fmt::Error);
            }
            bytes.iter().for_each(|&byte| self.push(byte));
        }
        Ok(())
    }
}
