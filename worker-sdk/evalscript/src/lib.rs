//! Reads an evalscript's `setup()` by evaluating it, with bounds on time, memory and depth.
//!
//! Sentinel Hub's evalscripts are JavaScript; what a request costs depends on what `setup()`
//! returns. [`setup`] evaluates the script and returns that as JSON:
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
//! **What is promised.** A script can do nothing but compute: there is no clock, no chance, no file
//! and no network in this engine. Whatever it does, it ends after [`MAX_STEPS`] steps, has taken
//! [`MAX_BYTES`] bytes and [`MAX_DEPTH`] nested calls and expressions, all counted, so that the
//! same script has the same end everywhere; nothing is left running. A fraction of a second, and a
//! stack of half a megabyte, are enough.
//!
//! **What it understands** is what a `setup()` is made of: functions and closures, arrays, objects,
//! strings and numbers with their usual methods, destructuring, spread, templates, conditions and
//! loops. Functions that are not called need only have balanced brackets, so `evaluatePixel` may
//! use anything. Statements beside the functions that this engine does not understand, such as a
//! visualizer made with `new`, are passed over, and what they would have declared is not defined.
//!
//! **What it does not**: classes, regular expressions, generators, promises, `switch`, `try`,
//! labels and modules. A `setup()` that needs one of them is a [`ScriptError`] that names it and
//! its line.

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

/// What `setup()` of this script returns.
///
/// # Errors
/// If the script has none, can't be understood where `setup()` needs it, throws, or exceeds a
/// bound.
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
    let mut machine = Machine::new(lexer::read(source)?);
    machine.setup().map_err(|problem| ScriptError { line: machine.line(), problem })
}
