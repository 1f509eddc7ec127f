//! Decoders under their corpora, random changes of these, and long repetitions. A program of its
//! own, because its allocator counts everything.
//!
//! `tests/fuzz/search` looks for further inputs, led by coverage.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use peak_alloc::PeakAlloc;
use rampmeter_protocol::clock::Clock;
use rampmeter_protocol::splitmix::SplitMix64;
use rampmeter_protocol::time::Span;
use rampmeter_tests::decoders::Decoder;
use rampmeter_tests::repository;
use std::path::PathBuf;
use std::sync::LazyLock;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Changed copies of each input.
const CHANGES: u64 = 30;
/// The most bytes that one change adds, removes or copies.
const STRETCH: u64 = 64;
/// The largest message that a nats-server takes by default.
const LONGEST: usize = 1 << 20;
/// How long reading that may take, beside other programs and without much optimisation: no decoder's time
/// grows faster than its input.
const LONGEST_READING: Span = Span::from_secs(2);
static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::start);
/// Letters with a meaning in one of the formats.
const LETTERS: &[u8] = b"0123456789.-+eE{}[]\",:\\ \t\r\n=#/;%_<>\x00\x80\xff";

/// Inputs that repeat: a beginning, and what follows it up to the end.
#[rustfmt::skip]
const REPETITIONS: &[(Decoder, &str, &str)] = &[
    (Decoder::Permit,   "[",                                                "{},"),
    (Decoder::Permit,   "[",                                                "0,"),
    (Decoder::Permit,   "[",                                                "{\"a\":1},"),
    (Decoder::Permit,   "",                                                 "["),
    (Decoder::Permit,   "",                                                 "{\"labels\":"),
    (Decoder::Permit,   "{\"labels\":{",                                    "\"a\":\"b\","),
    (Decoder::Permit,   "{\"",                                              "\\u00e4"),
    (Decoder::Permit,   "{\"id\":\"",                                       "a"),
    (Decoder::Permit,   "{\"max_wait_ms\":",                                "9"),
    (Decoder::Settle,   "[",                                                "{\"id\":\"a\"},"),
    (Decoder::Settle,   "{\"id\":\"a\",\"response\":{\"status\":429,\"headers\":{", "\"a\":\"b\","),
    (Decoder::Settle,   "{\"id\":\"a\",\"cost\":{",                         "\"requests\":1,"),
    (Decoder::Rules,    "x = [",                                            "1,"),
    (Decoder::Rules,    "",                                                 "[[resource]]\n"),
    (Decoder::Rules,    "",                                                 "[[resource.limit]]\n"),
    (Decoder::Rules,    "x = ",                                             "["),
    (Decoder::Rules,    "x = {",                                            "a={"),
    (Decoder::Rules,    "x.y",                                              ".z"),
    (Decoder::Rules,    "[[resource]]\nname = \"",                          "a"),
    (Decoder::Rules,    "",                                                 "\n"),
    (Decoder::Record,   "{\"epoch\":1,\"leader\":\"",                       "a"),
    (Decoder::Record,   "[1,[",                                             "{},"),
    (Decoder::Record,   "",                                                 "["),
    (Decoder::HttpHead, "GET /check HTTP/1.1\r\nhost: a\r\n",               "a: b\r\n"),
    (Decoder::HttpHead, "GET /check",                                       "/%64"),
    (Decoder::HttpHead, "GET /check HTTP/1.1\r\nhost: a\r\nx-forwarded-for: ", "::1,"),
    (Decoder::HttpHead, "",                                                 "GET /check HTTP/1.1\r\n\r\n"),
    (Decoder::Script,   "",                                                 ";"),
    (Decoder::Script,   "",                                                 "["),
    (Decoder::Script,   "",                                                 "[],"),
    (Decoder::Script,   "",                                                 "[0],"),
    (Decoder::Script,   "",                                                 "{a:0},"),
    (Decoder::Script,   "",                                                 "`${"),
    (Decoder::Script,   "",                                                 "let a=1,b=2\n"),
    (Decoder::Script,   "",                                                 "function f(){}"),
    (Decoder::Script,   "'",                                                "\u{1}"),
    (Decoder::ProxyBody, "",                                                "["),
    (Decoder::ProxyBody, "[",                                               "[],"),
    (Decoder::ProxyBody, "",                                                "data: {\"usage\":{\"input_tokens\":1}}\n"),
    (Decoder::ProxyBody, "{\"",                                             "a"),
];

/// Reads `input`, and tells if that takes too much memory. There is one test in this program,
/// because memory is counted for all threads.
fn check(decoder: Decoder, input: &[u8], what: &str) -> Option<String> {
    let begun = CLOCK.now();
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    decoder.read(input);
    let taken = ALLOCATOR.peak_usage().saturating_sub(before);
    let (most, length) = (decoder.most_memory(input.len()), input.len());
    let told = format!("{}, {what}: {taken} bytes of memory for {length} of input, at most {most}", decoder.name());
    let took = CLOCK.now().since(begun);
    let slow = (took > LONGEST_READING).then(|| format!("{}, {what}: {took} for {length} bytes", decoder.name()));
    (taken > most).then_some(told).or(slow)
}

/// The inputs in the repository, by name.
fn corpus(decoder: Decoder) -> Vec<(String, Vec<u8>)> {
    let folder: PathBuf = repository::root().join("tests/fuzz/corpus").join(decoder.name());
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut inputs: Vec<(String, Vec<u8>)> =
        paths.map(|path| (path.file_name().unwrap().to_string_lossy().into(), std::fs::read(&path).unwrap())).collect();
    inputs.sort();
    assert!(inputs.len() >= 5, "{} has {} inputs", decoder.name(), inputs.len());
    inputs
}

/// Changes a few bytes.
fn changed(input: &[u8], other: &[u8], dice: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=dice.draw() % 4 {
        let place = |bytes: &[u8], dice: &mut SplitMix64| (dice.draw() % (bytes.len() as u64 + 1)) as usize;
        let at = place(&bytes, dice);
        let end = bytes.len().min(at + (dice.draw() % STRETCH) as usize);
        match dice.draw() % 6 {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, LETTERS[(dice.draw() % LETTERS.len() as u64) as usize]),
            3 => bytes[at..end].iter_mut().take(1).for_each(|byte| *byte = dice.draw() as u8),
            4 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            _ => drop(bytes.splice(at..end, other[place(other, dice)..].iter().copied().take(STRETCH as usize))),
        }
    }
    bytes
}

#[test]
fn any_input_is_read_in_memory_of_its_size() {
    let mut faults = Vec::new();
    for decoder in Decoder::ALL {
        // A first reading makes what is made only once, before memory is measured.
        decoder.read(b"");
        let inputs = corpus(decoder);
        for (seed, (name, input)) in (0..).zip(&inputs) {
            faults.extend(check(decoder, input, name));
            for change in 0..CHANGES {
                let mut dice = SplitMix64::new(seed).fork(change);
                let (_, other) = &inputs[(dice.draw() % inputs.len() as u64) as usize];
                faults.extend(check(decoder, &changed(input, other, &mut dice), &format!("change {change} of {name}")));
            }
        }
    }
    for (decoder, beginning, repeated) in REPETITIONS {
        for length in [LONGEST / 64, LONGEST / 2 - 64] {
            let input = format!("{beginning}{}", repeated.repeat(length / repeated.len()));
            faults.extend(check(*decoder, input.as_bytes(), &format!("{beginning}{repeated}…")));
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}
