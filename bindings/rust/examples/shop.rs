// SPDX-License-Identifier: BSD-2-Clause
//! Answers requests and keeps some pages, as examples/shop/shop.c does.
use std::collections::HashMap;
use tracing::{info_span, instrument};
use tracing_subscriber::prelude::*;

#[instrument(skip_all)]
fn render(number: usize) -> String {
    format!("page {number:1990}")
}

#[instrument(skip(number, cache))]
fn request(route: &str, number: usize, cache: &mut HashMap<usize, String>) {
    let page = render(number);
    if route == "/look" {
        let _cache = info_span!("cache").entered();
        cache.entry(number % 1000).or_insert_with(|| page.clone());
    }
}

fn main() {
    tracing_subscriber::registry().with(jespan::layer()).init(); // the line that jespan needs
    let mut cache = HashMap::new();
    for number in 0..10000 {
        request(if number % 4 == 0 { "/buy" } else { "/look" }, number, &mut cache);
    }
    std::mem::forget(cache);
}
