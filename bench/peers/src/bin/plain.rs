// SPDX-License-Identifier: BSD-2-Clause
//! The workloads on Rust's System allocator: what the others are compared with.

use std::alloc::System;

#[global_allocator]
static ALLOCATOR: System = System;

fn main() {
    peers::run();
}
