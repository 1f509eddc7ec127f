//! Scripts without a result, and their errors.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use proptest::prelude::*;
use rampmeter_evalscript::{MAX_SOURCE, Problem, ScriptError, setup};

fn refusal(script: &str) -> ScriptError {
    setup(script).expect_err(script)
}

#[test]
fn errors_name_the_line_and_the_reason() {
    #[rustfmt::skip]
    let table = [
        ("",                                                            "line 1: there is no function `setup`"),
        ("let x = 1;",                                                  "there is no function `setup`"),
        ("const setup = 5",                                             "number is not a function"),
        ("\nfunction setup() {\n  return nowhere;\n}",                  "line 3: `nowhere` is not defined"),
        ("\nlet v = new Visualizer();\nfunction setup() { return v }",  "line 3: `v` is not defined (skipped: line 2: `new Visualizer` is not understood here)"),
        ("function setup() {\n\n return /re/.source }",                 "line 3: a regular expression is not understood here"),
        ("function setup() { return this.x }",                          "`this` is not understood here"),
        ("function setup() { return 1 | 2 }",                           "`|` is not understood here"),
        ("function setup() { try {} catch {} }",                        "`try` is not understood here"),
        ("function setup() { switch (1) { return } }",                  "`case` was expected instead of `return`"),
        ("function setup() { return [].copyWithin() }",                 "the method `copyWithin` of an array is not understood here"),
        ("function setup() { return ''.localeCompare('') }",            "the method `localeCompare` of a string is not understood here"),
        ("function setup() { return null.x }",                          "null has no `x`"),
        ("function setup() { return [...5] }",                          "number is not iterable"),
        ("function setup() { return ({}).f() }",                        "there is no function `f`"),
        ("function setup() { x += 1 }",                                 "`x` is not defined"),
        ("function setup() { throw 'no ' + 1 }",                        "setup() throws: no 1"),
        ("function setup() { throw new Error('no') }",                  "setup() throws: no"),
        ("function setup() { return {",                                 "`}` is missing"),
        ("function setup() { return ] }",                               "`]` closes nothing"),
        ("function setup() { return 1 2 }",                             "`;` was expected instead of a number"),
        ("function setup() { return 'a\n' }",                           "a string does not end"),
        ("function setup() { return `${1 }",                            "a template does not end"),
        ("function setup() {} /* ",                                     "a comment does not end"),
        ("function setup() { return 12ab }",                            "a number is malformed"),
        ("function setup() { return \u{1F600} }",                       "a character has no meaning here"),
    ];
    for (script, expected) in table {
        let said = refusal(script).to_string();
        assert!(said.contains(expected), "{script}\n{said}");
    }
}

/// A script that would hang, exhaust the memory or overflow the stack ends at a bound.
#[test]
fn bombs_end() {
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(40_000), close.repeat(40_000));
    #[rustfmt::skip]
    let table = [
        ("while (true) {}",                                         Problem::TooManySteps),
        ("for (;;);",                                               Problem::TooManySteps),
        ("do {} while (1)",                                         Problem::TooManySteps),
        ("for (let i = 0; i < 1e9; i++) [1].map(x => x)",           Problem::TooMuchMemory),
        ("return 'x'.repeat(1e9)",                                  Problem::TooMuchMemory),
        ("return 'x'.repeat(Infinity)",                             Problem::TooMuchMemory),
        ("return ''.padStart(1e9, 'x')",                            Problem::TooMuchMemory),
        ("return new Array(1e9).fill(0)",                           Problem::TooMuchMemory),
        ("return Array.from({ length: 1e12 })",                     Problem::TooMuchMemory),
        ("return new Array(1e6).fill(0)",                           Problem::TooMuchMemory),
        ("let s = 'x'; for (;;) s += s",                            Problem::TooMuchMemory),
        ("let s = 'x'; for (;;) s = `${s}${s}`",                    Problem::TooMuchMemory),
        ("let s = 'x'; for (;;) s = s.replaceAll('x', s + s)",      Problem::TooMuchMemory),
        ("let s = 'xy'; for (;;) s = s.split('').join(s)",          Problem::TooMuchMemory),
        ("let a = [1]; for (;;) a = [...a, ...a]",                  Problem::TooMuchMemory),
        ("let a = [1]; for (;;) a.push(...a)",                      Problem::TooMuchMemory),
        ("let a = [1]; for (;;) a = a.concat(a)",                   Problem::TooMuchMemory),
        ("let a = []; a[1e9] = 1",                                  Problem::TooMuchMemory),
        ("const o = {}; for (let i = 0; ; i++) o['k' + i] = i",     Problem::TooManySteps),
        ("const f = () => { f() }; f()",                            Problem::TooDeep),
        ("const o = { f() { return o.f() } }; o.f()",               Problem::TooDeep),
        ("const a = []; a.push(a); return '' + a",                  Problem::TooDeep),
        ("const a = []; a.push(a); return a",                       Problem::TooDeep),
        ("let a = 1; for (let i = 0; i < 1e4; i++) a = [a]; return a",     Problem::TooDeep),
        ("let a = 1; for (let i = 0; i < 60; i++) a = [a, a]; return a",   Problem::TooMuchMemory),
        (&format!("return {}", nested("(", ")")),                   Problem::TooDeep),
        (&format!("return {}", nested("[", "]")),                   Problem::TooDeep),
        (&format!("return {}", nested("!", "")),                    Problem::TooDeep),
        (&format!("return {}", nested("a => ", "")),                Problem::TooDeep),
        (&format!("return {}", nested("1 + ", "")),                 Problem::TooDeep),
        (&format!("return {}", nested("1 ** ", "")),                Problem::TooDeep),
        (&format!("return {}", nested("1 ? 1 : ", "")),             Problem::TooDeep),
        (&format!("return a{}", ".a".repeat(50_000)),               Problem::TooDeep),
        (&format!("return {}", nested("typeof ", "")),              Problem::TooDeep),
        (&format!("return {}", nested("a = ", "")),                 Problem::TooDeep),
        (&format!("let {} = 1", nested("[", "]").replace('1', "a")), Problem::TooDeep),
        (&nested("if (1) ", ""),                                    Problem::TooDeep),
        (&nested("{", "}"),                                         Problem::TooDeep),
        (&nested("if(0);else ", ""),                             Problem::TooDeep),
    ];
    for (body, expected) in table {
        let shown = &body[..body.len().min(60)];
        let script = format!("function setup() {{ {body} }}");
        assert_eq!(refusal(&script).problem, expected, "{shown}");
    }
    assert_eq!(refusal(&" ".repeat(MAX_SOURCE + 1)).problem, Problem::TooLong);
    assert_eq!(refusal(&"`${".repeat(50_000)).problem, Problem::TooDeep);
}

/// Reaches `bounds::MAX_STEPS`, `bounds::MAX_BYTES` and `bounds::MAX_DEPTH`.
#[test]
fn a_script_may_use_what_the_bounds_allow() {
    let arrays = |depth: usize| format!("return {}{}", "[".repeat(depth), "]".repeat(depth));
    let calls = |depth: usize| format!("const f = n => n > 0 ? f(n - 1) : 1; return f({depth})");
    #[rustfmt::skip]
    let table = [
        ("for (let i = 0; i < 1e5; i++); return 1".to_owned(),   None),
        ("for (let i = 0; i < 1e6; i++); return 1".to_owned(),   Some(Problem::TooManySteps)),
        ("return new Array(1e5).fill(0).length".to_owned(),      None),
        ("return new Array(1e6).fill(0).length".to_owned(),      Some(Problem::TooMuchMemory)),
        (arrays(90),                                             None),
        (arrays(110),                                            Some(Problem::TooDeep)),
        (calls(10),                                              None),
        (calls(110),                                             Some(Problem::TooDeep)),
    ];
    for (body, expected) in table {
        let problem = setup(&format!("function setup() {{ {body} }}")).err().map(|error| error.problem);
        assert_eq!(problem, expected, "{body}");
    }
}

/// A bomb among the top-level statements ends too.
#[test]
fn bombs_at_the_top_end() {
    for bomb in ["while (true) {}", "let s = 'x'; for (;;) s += s;"] {
        let problem = refusal(&format!("{bomb} function setup() {{ return 1 }}")).problem;
        assert!(matches!(problem, Problem::TooManySteps | Problem::TooMuchMemory), "{bomb}: {problem}");
    }
}

/// A statement that is not understood is read once, however long it is.
#[test]
fn long_skipped_statements_end() {
    for line in ["a,\n", "a = [1],\n", "let a = 1,\nb = 2,\n", "if (1)\n", "x ? \n", "`${1}`\n%"] {
        let script = format!("{} % function setup() {{ return 1 }}", line.repeat(MAX_SOURCE / line.len() - 20));
        assert!(matches!(refusal(&script).problem, Problem::NoSetup | Problem::TooManySteps), "{line}");
    }
}

/// As documented: half a megabyte of stack is enough for every script.
#[test]
fn a_small_stack_is_enough() {
    let deepest = [
        "const f = n => [0].map(() => f(n + 1)); return f(0)".to_owned(),
        "const f = (...a) => { if (1) { for (;;) { return [...[f(...a)]] } } }; return f(1)".to_owned(),
        format!("return {}1{}", "[".repeat(90), "]".repeat(90)),
        format!("return {}", "1 + ".repeat(90) + "1"),
        format!("return {}1{}", "`${(".repeat(20), ")}`".repeat(20)),
    ];
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    let run = move || deepest.iter().map(|body| setup(&format!("function setup() {{ {body} }}")).is_ok()).collect();
    let answered: Vec<bool> = small.spawn(run).unwrap().join().unwrap();
    assert_eq!(answered[..2], [false, false]);
}

#[test]
fn the_same_script_has_the_same_end() {
    let script = "function setup() { let n = 0; while (true) { n += 1; if (n > 1e5) throw n } }";
    assert_eq!(refusal(script), refusal(script));
}

const WORDS: [&str; 40] = [
    "function setup() {",
    "return ",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "=>",
    "x",
    "y = ",
    "let ",
    "for (",
    "while (1)",
    "...",
    "'a'",
    "`${",
    "`",
    "1",
    "+",
    "-",
    "**",
    "?",
    ":",
    "?.",
    ".",
    ",",
    ";",
    "\n",
    "/",
    "//",
    "/*",
    "*/",
    "new Array(9)",
    ".map(",
    "=",
    "==",
    "++",
    "if (x)",
    "typeof ",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Any text has a result or an error, and never causes a panic.
    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        let _ = setup(&text);
        let _ = setup(&format!("function setup() {{ return {text} }}"));
    }

    #[test]
    fn any_words_are_answered(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..60)) {
        let _ = setup(&words.concat());
        let _ = setup(&format!("function setup() {{ {} }}", words.concat()));
    }
}
