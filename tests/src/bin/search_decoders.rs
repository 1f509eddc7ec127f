//! Searches for an input that a decoder fails on, led by coverage: `tests/fuzz/search` builds and
//! runs it. `RAMPMETER_DECODER` names the decoder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use rampmeter_tests::decoders::Decoder;
use std::sync::LazyLock;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

static DECODER: LazyLock<Decoder> = LazyLock::new(|| {
    let name = std::env::var("RAMPMETER_DECODER").expect("RAMPMETER_DECODER names a decoder");
    Decoder::named(&name).expect("there is such a decoder")
});

fuzz_target!(|input: &[u8]| {
    let decoder = *DECODER;
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    decoder.read(input);
    let taken = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(taken <= decoder.most_memory(input.len()), "{taken} bytes of memory for {} of input", input.len());
});
