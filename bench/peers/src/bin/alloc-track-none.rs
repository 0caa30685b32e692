// SPDX-License-Identifier: BSD-2-Clause
//! The workloads under alloc-track without backtraces: figures by thread alone.

use alloc_track::{AllocTrack, BacktraceMode};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: AllocTrack<System> = AllocTrack::new(System, BacktraceMode::None);

fn main() {
    peers::run();
}
