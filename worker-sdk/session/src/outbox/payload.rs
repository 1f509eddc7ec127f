//! A JSON array of messages being written. A single element is written without brackets.

use rampmeter_protocol::trace_context::{TraceContext, TraceContexts};
use serde::Serialize;

/// Most elements of one array: 64 already spread the cost per message.
pub(super) const MAX_ELEMENTS: usize = 64;
/// Size above which an array is full: another largest element still fits far below 1 MiB.
const ENOUGH_BYTES: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(crate) struct ArrayPayload {
    bytes: Vec<u8>,
    elements: usize,
    traces: TraceContexts,
}

impl ArrayPayload {
    pub(crate) fn push(&mut self, element: &impl Serialize) {
        if self.elements > 0 {
            self.bytes.push(b',');
        }
        serde_json::to_writer(&mut self.bytes, element).expect("messages are plain data, and memory takes them");
        self.elements += 1;
    }

    pub(crate) fn push_traced(&mut self, element: &impl Serialize, trace: Option<TraceContext>) {
        self.traces.add(self.elements, trace);
        self.push(element);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.elements == MAX_ELEMENTS || self.bytes.len() >= ENOUGH_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.elements == 0
    }

    pub(crate) fn finish_traced(mut self) -> (Vec<u8>, TraceContexts) {
        let traces = std::mem::take(&mut self.traces).of_elements(self.elements);
        (self.finish(), traces)
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.elements > 1 {
            self.bytes.insert(0, b'[');
            self.bytes.push(b']');
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(element: &str, most: usize) {
        let mut array = ArrayPayload::default();
        while !array.is_full() {
            array.push(&element);
        }
        assert_eq!(array.elements, most);
    }

    #[test]
    fn an_array_is_full_by_number_or_by_size() {
        check("x", MAX_ELEMENTS);
        check(&"x".repeat(ENOUGH_BYTES / 4), 4);
    }
}
