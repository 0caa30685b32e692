// SPDX-License-Identifier: BSD-2-Clause
//! The workloads inside one span under tracing-prof, which tracks its heap and reports it to nobody.

use tracing_prof::{reporter::ProfileReporter, ProfileConfig, ProfileLayer, TrackingAllocator};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::system();

struct Nobody;
impl ProfileReporter for Nobody {}

fn main() {
    tracing_subscriber::registry().with(ProfileLayer::new(ProfileConfig::default().track_heap(true), Nobody)).init();
    let span = tracing::info_span!("bench");
    let _inside = span.enter();
    peers::run();
}
