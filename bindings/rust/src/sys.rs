// SPDX-License-Identifier: BSD-2-Clause
//! The part of jespan.h that this crate uses, written by hand. abi.c fails to compile if jespan.h says something else.
use std::ffi::c_void;
use std::mem::size_of;
use std::os::raw::{c_char, c_int};
use std::ptr;

pub const CURRENT: u32 = 0;
pub const ROOT: u32 = 1;
pub const MAX_LABELS: usize = 16;
pub const MAX_STRING_BYTES: usize = 255;
pub const TYPE_STRING: u32 = 0;
pub const TYPE_INTEGER: u32 = 1;

/// Of a site that asks for no arena: only zeroes.
#[repr(C)]
pub struct Arena {
    flags: u32,
    numa_node: i32,
    dirty_decay_ms: i64,
    muzzy_decay_ms: i64,
    limit_bytes: u64,
    by_label: *const c_char,
}

impl Arena {
    pub const NONE: Arena =
        Arena { flags: 0, numa_node: 0, dirty_decay_ms: 0, muzzy_decay_ms: 0, limit_bytes: 0, by_label: ptr::null() };
}

#[repr(C)]
pub struct Site {
    pub name: *const c_char,
    pub target: *const c_char,
    pub file: *const c_char,
    pub line: u32,
    pub arena: Arena,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Label {
    pub key: *const c_char,
    pub value: *const c_char,
    pub integer: i64,
    pub kind: u32,
}

const _: () = assert!(size_of::<Arena>() == 40 && size_of::<Site>() == 72 && size_of::<Label>() == 32);

/// The functions. A handle is a `*mut c_void` here.
#[derive(Clone, Copy)]
pub struct Functions {
    pub open: unsafe extern "C" fn(*const Site, u32, *const Label, usize) -> *mut c_void,
    pub enter: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub exit: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub close: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub add_label: unsafe extern "C" fn(*mut c_void, *const Label) -> c_int,
}

#[cfg(feature = "link")]
mod linked {
    use super::{c_int, c_void, Functions, Label, Site};

    #[link(name = "jespan")]
    extern "C" {
        fn jespan_open(site: *const Site, parent: u32, labels: *const Label, n_labels: usize) -> *mut c_void;
        fn jespan_enter(span: *mut c_void) -> c_int;
        fn jespan_exit(span: *mut c_void) -> c_int;
        fn jespan_close(span: *mut c_void) -> c_int;
        fn jespan_add_label(span: *mut c_void, label: *const Label) -> c_int;
    }

    impl Functions {
        /// libjespan's, which the program is linked with.
        pub fn find() -> Option<Functions> {
            Some(Functions {
                open: jespan_open,
                enter: jespan_enter,
                exit: jespan_exit,
                close: jespan_close,
                add_label: jespan_add_label,
            })
        }
    }
}

#[cfg(not(feature = "link"))]
mod looked_up {
    use super::{c_char, c_void, Functions};
    use std::mem::transmute;
    use std::ptr;

    extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    fn look_up(name: &'static [u8]) -> Option<*mut c_void> {
        debug_assert!(name.ends_with(b"\0"));
        // SAFETY: the name ends with a NUL; NULL is RTLD_DEFAULT, all libraries of the process.
        let address = unsafe { dlsym(ptr::null_mut(), name.as_ptr().cast()) };
        if address.is_null() {
            None
        } else {
            Some(address)
        }
    }

    impl Functions {
        /// libjespan's, if the process has it. `jespan run` preloads it.
        pub fn find() -> Option<Functions> {
            // SAFETY: these are the types that jespan.h gives the functions.
            unsafe {
                Some(Functions {
                    open: transmute(look_up(b"jespan_open\0")?),
                    enter: transmute(look_up(b"jespan_enter\0")?),
                    exit: transmute(look_up(b"jespan_exit\0")?),
                    close: transmute(look_up(b"jespan_close\0")?),
                    add_label: transmute(look_up(b"jespan_add_label\0")?),
                })
            }
        }
    }
}
