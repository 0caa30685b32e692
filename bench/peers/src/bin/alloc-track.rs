// SPDX-License-Identifier: BSD-2-Clause
//! The workloads under alloc-track with short backtraces, as its manual shows it.

use alloc_track::{AllocTrack, BacktraceMode};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: AllocTrack<System> = AllocTrack::new(System, BacktraceMode::Short);

fn main() {
    peers::run();
}
