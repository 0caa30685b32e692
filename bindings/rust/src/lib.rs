// SPDX-License-Identifier: BSD-2-Clause
//! jespan is a `malloc` that knows which span made each live byte. This crate tells it about the spans of `tracing`:
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//! tracing_subscriber::registry().with(jespan::layer()).init();
//! ```
//!
//! In a process without jespan, the layer does nothing. README.md shows how to run a program.
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(feature = "link")]
mod allocator;
#[cfg(feature = "layer")]
mod labels;
#[cfg(feature = "layer")]
mod layer;
#[cfg(feature = "layer")]
mod site;
#[cfg(feature = "layer")]
mod span;
#[cfg(feature = "layer")]
mod sys;

#[cfg(feature = "link")]
pub use allocator::Allocator;
#[cfg(feature = "layer")]
pub use layer::{layer, SpanLayer};
