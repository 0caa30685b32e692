// SPDX-License-Identifier: BSD-2-Clause
//! jespan's sites: one for each callsite of `tracing`, made when its first span opens, and never freed. A program has as many
//! as it has span macros.
use crate::sys;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::raw::c_char;
use std::ptr;
use std::sync::{PoisonError, RwLock};
use tracing_core::callsite::Identifier;
use tracing_core::Metadata;

/// A site with the keys of its labels, by the index of the field.
pub struct Callsite {
    pub site: sys::Site,
    pub keys: Vec<*const c_char>,
}

// SAFETY: the pointers are to strings that are never changed or freed.
unsafe impl Send for Callsite {}
// SAFETY: as above.
unsafe impl Sync for Callsite {}

#[derive(Default)]
pub struct Callsites {
    known: RwLock<HashMap<Identifier, &'static Callsite>>,
}

impl Callsites {
    pub fn of(&self, metadata: &Metadata<'static>) -> &'static Callsite {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&metadata.callsite()).copied();
        known.unwrap_or_else(|| self.add(metadata))
    }

    fn add(&self, metadata: &Metadata<'static>) -> &'static Callsite {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(metadata.callsite()).or_insert_with(|| Box::leak(Box::new(Callsite::new(metadata))))
    }
}

impl Callsite {
    fn new(metadata: &Metadata<'static>) -> Callsite {
        let name = if metadata.name().is_empty() { "(unnamed)" } else { metadata.name() };
        Callsite {
            site: sys::Site {
                name: kept(name),
                target: kept(metadata.target()),
                file: metadata.file().map_or(ptr::null(), kept),
                line: metadata.line().unwrap_or(0),
                arena: sys::Arena::NONE,
            },
            keys: metadata.fields().iter().map(|field| kept(field.name())).collect(),
        }
    }
}

/// A copy for C, without NUL bytes, that is never freed.
fn kept(text: &str) -> *const c_char {
    let bytes: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    CString::new(bytes).unwrap_or_default().into_raw()
}
