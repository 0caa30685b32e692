// SPDX-License-Identifier: BSD-2-Clause
//! The layer: what happens to a span of `tracing` happens to a span of jespan.
use crate::labels::Labels;
use crate::site::Callsites;
use crate::span::Handle;
use crate::sys::{Functions, CURRENT, ROOT};
use std::fmt;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::Subscriber;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// The layer for `tracing_subscriber::registry().with(…)`. In a process without jespan it does nothing.
pub fn layer() -> SpanLayer {
    SpanLayer { functions: Functions::find(), callsites: Callsites::default() }
}

/// Made by [`layer`].
pub struct SpanLayer {
    functions: Option<Functions>,
    callsites: Callsites,
}

impl SpanLayer {
    /// Whether the process has jespan as its malloc.
    pub fn is_active(&self) -> bool {
        self.functions.is_some()
    }
}

impl fmt::Debug for SpanLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanLayer").field("is_active", &self.is_active()).finish()
    }
}

/// jespan's span of a span. It is kept in the span's extensions.
fn handle_of<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Option<Handle> {
    span.extensions().get::<Handle>().copied()
}

impl SpanLayer {
    /// What to do, and the span to do it with.
    fn find<S: Subscriber + for<'a> LookupSpan<'a>>(&self, id: &Id, ctx: &Context<'_, S>) -> Option<(&Functions, Handle)> {
        Some((self.functions.as_ref()?, handle_of(&ctx.span(id)?)?))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let (functions, span) = match (&self.functions, ctx.span(id)) {
            (Some(functions), Some(span)) => (functions, span),
            _ => return,
        };
        let callsite = self.callsites.of(attributes.metadata());
        let mut labels = Labels::of(callsite);
        attributes.record(&mut labels);
        let handle = if attributes.is_contextual() {
            functions.open_below(callsite, CURRENT, &mut labels) // also below a span of C code, which tracing does not know
        } else if let Some(parent) = span.parent().and_then(|parent| handle_of(&parent)) {
            functions.open_in(callsite, parent, &mut labels)
        } else {
            functions.open_below(callsite, ROOT, &mut labels)
        };
        if let Some(handle) = handle {
            span.extensions_mut().replace(handle);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        if let (Some((functions, handle)), Some(metadata)) = (self.find(id, &ctx), ctx.metadata(id)) {
            let mut labels = Labels::of(self.callsites.of(metadata));
            values.record(&mut labels);
            functions.add_labels(handle, &mut labels);
        }
    }

    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        if let Some((functions, handle)) = self.find(id, &ctx) {
            functions.enter_span(handle);
        }
    }

    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        if let Some((functions, handle)) = self.find(id, &ctx) {
            functions.exit_span(handle);
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        if let Some((functions, handle)) = self.find(&id, &ctx) {
            functions.close_span(handle);
        }
    }
}
