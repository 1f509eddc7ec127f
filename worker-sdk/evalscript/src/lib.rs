//! Reads an evalscript's `setup()` by evaluating it, with bounds on time, memory and depth.
//!
//! Sentinel Hub's evalscripts are JavaScript. The cost of a request depends on the result of
//! `setup()`. [`setup`] evaluates the script and returns this result as JSON:
//!
//! ```
//! let script = r#"
//!     //VERSION=3
//!     const bands = ["B04", "B08"];
//!     function setup() {
//!         return { input: [...bands, "dataMask"], output: { bands: 1, sampleType: SampleType.FLOAT32 } };
//!     }
//!     function evaluatePixel(sample) { return [sample.B08 / sample.B04]; }
//! "#;
//! let answer = rampmeter_evalscript::setup(script).unwrap();
//! assert_eq!(answer["input"], serde_json::json!(["B04", "B08", "dataMask"]));
//! assert_eq!(answer["output"]["sampleType"], "FLOAT32");
//! ```
//!
//! **What is promised.** A script can do nothing but compute: this engine has no clock, no
//! randomness, no file and no network. Every script ends within [`MAX_STEPS`] steps, [`MAX_BYTES`]
//! bytes and [`MAX_DEPTH`] nested calls and expressions. All three are counted, so that the same
//! script ends in the same way everywhere. Nothing keeps running. An evaluation takes a fraction of
//! a second and a stack of half a megabyte.
//!
//! **What it understands** is the language of a typical `setup()`: functions, closures,
//! conditions, `switch` and loops. Arrays, objects, strings, numbers and dates have their usual
//! methods. There is destructuring, spread and templates. A function that is not called needs only
//! balanced brackets, so `evaluatePixel` may use anything. Top-level statements that this engine
//! does not understand are skipped, such as a visualizer made with `new`. Whatever they may have
//! changed is unknown: a `setup()` that reads it has no result.
//!
//! **What it does not understand**: classes, regular expressions, generators, promises, `try`,
//! labels and modules. If a `setup()` needs one of them, a [`ScriptError`] names it and its line.
//! The same happens if a script replaces one of JavaScript's own methods and `setup()` calls it. A
//! script that is understood has JavaScript's result. If the result is not certain, there is an
//! error.
//!
//! **Why an engine of our own.** Scripts are foreign, and other engines bound instructions at best.
//! Doubling a string 24 times takes all memory, and a native call cannot be stopped. This engine
//! counts each step, byte and level before it takes it.

mod bounds;
mod builtins;
mod error;
mod lexer;
mod machine;
mod meter;
mod number;
mod parser;
mod syntax;
mod token;
mod value;

pub use bounds::{MAX_BYTES, MAX_DEPTH, MAX_SOURCE, MAX_STEPS};
pub use error::{Problem, ScriptError};

use machine::Machine;

/// The result of the script's `setup()`.
///
/// # Errors
/// If there is no `setup()`, or if the script throws or exceeds a bound. If `setup()` needs
/// something that this engine does not understand.
///
/// ```
/// use rampmeter_evalscript::{Problem, setup};
/// let error = setup("function setup() { while (true) {} }").unwrap_err();
/// assert!(matches!(error.problem, Problem::TooManySteps));
/// let error = setup("function setup() { return 'x'.repeat(1e9); }").unwrap_err();
/// assert!(matches!(error.problem, Problem::TooMuchMemory));
/// ```
pub fn setup(source: &str) -> Result<serde_json::Value, ScriptError> {
    if source.len() > MAX_SOURCE {
        return Err(ScriptError { line: 1, problem: Problem::TooLong });
    }
    let mut machine = Machine::new(&lexer::read(source)?);
    machine.setup().map_err(|problem| ScriptError { line: machine.line(), problem })
}
