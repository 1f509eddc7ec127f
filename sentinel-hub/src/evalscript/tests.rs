//! Scripts, and what is read of them or why nothing is.

use super::{MAX_DEPTH, MAX_READ, MAX_SOURCE, setup};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Checks what is read, or the end of the refusal.
fn check(script: &str, expected: Result<Value, &str>) {
    match (setup(script), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{script}"),
        (Err(refusal), Err(expected)) => assert!(refusal.contains(expected), "{script}\n{refusal}"),
        (read, _) => panic!("{script}\n{read:?}"),
    }
}

#[test]
fn every_form_of_setup() {
    for script in [
        "//VERSION=3\nfunction setup() {\n  return { bands: ['B04'] }\n}",
        "function setup() { return { bands: ['B04'] }; } function evaluatePixel(s) { return [s.B04] }",
        "var setup = function () { return { bands: ['B04'] }; };",
        "const setup = () => ({ bands: ['B04'] });",
        "const other = 1, setup = () => ({ bands: ['B04'] })\nconst last = 2",
        "let setup = () => { return { 'bands': [\"B04\",], } }",
        "\u{feff}/* { */ function setup() { /* ) */ return ({ bands: [`B04`] }) } // the end",
        "const bands = ['B04']\nfunction setup() { return { bands } }",
        "var a = 1, answer = { bands: ['B04'] }; function setup() { return answer }",
        "'use strict'\n\nfunction setup() { return { bands: ['B04'] } }\nasync\nfunction later() {}",
    ] {
        check(script, Ok(json!({ "bands": ["B04"] })));
    }
}

#[test]
fn literals() {
    #[rustfmt::skip]
    let table = [
        ("{ input: ['B04', \"B08\", `B11`,], output: { bands: 3 } }",   json!({ "input": ["B04", "B08", "B11"], "output": { "bands": 3 } })),
        ("{ a: [1, -2, 0.5, -9999, true, false, null, undefined, NaN] }", json!({ "a": [1, -2, 0.5, -9999, true, false, null, null, null] })),
        ("{ sampleType: SampleType.FLOAT32, mosaicking: Mosaicking.ORBIT }", json!({ "sampleType": "FLOAT32", "mosaicking": "ORBIT" })),
        ("{ input: [...bands, ...['B08'], ...bands, '}'] }",             json!({ "input": ["B04", "B08", "B04", "}"] })),
        ("{ ...base, id: kind }",                                       json!({ "id": "FLOAT32", "sampleType": "FLOAT32" })),
        ("{ id: 'a', ...base }",                                        json!({ "id": "b", "sampleType": "FLOAT32" })),
        ("{ id: 'a', id: 'b' }",                                        json!({ "id": "b" })),
        ("[]",                                                          json!([])),
        ("{ units: bands.length, output: { bands: n, b: nowhere.x } }", json!({ "units": null, "output": { "bands": null, "b": null } })),
        ("{ output: { bands }, input: [{ bands, units }] }",            json!({ "output": { "bands": null }, "input": [{ "bands": ["B04"], "units": null }] })),
    ];
    for (literal, expected) in table {
        let constants = "const bands = ['B04']; let kind = 'FLOAT32'
            var base = { id: 'b', sampleType: kind }\nvar n = Math.max(1, 2)";
        check(&format!("{constants}\nfunction setup() {{ return {literal} }}"), Ok(expected));
    }
}

#[test]
fn what_is_no_literal_is_refused() {
    #[rustfmt::skip]
    let table = [
        ("return { a: 1 + 1 }",             "line 3: `+` is no part of a literal that `setup` returns"),
        ("\n\nreturn { a: f() }",           "line 5: `(` is no part"),
        ("return { input: bands.concat([]) }", "`.` is no part"),
        ("return { units: bands.concat([]) }", "`(` is no part"),
        ("return { input: bands[0] }",      "`[` is no part"),
        ("return { input: [, 'a'] }",       "`,` is no part"),
        ("return { input: [...'ab'] }",     "`...` is no part"),
        ("return { ...bands }",             "`...` is no part"),
        ("return { ...nowhere }",           "`nowhere` is no part"),
        ("return { input: 'a' + 'b' }",     "`+` is no part"),
        ("return { input: `B${1}` }",       "``B` is no part"),
        ("return { id: 'B\\x41' }",         "`'B\\x41'` is no part"),
        ("return { id: /B/ }",              "`/B/` is no part"),
        ("return { a: 010 }",               "`010` is no part"),
        ("return { a: 0x10 }",              "`0x10` is no part"),
        ("return { a: 1_000 }",             "`1_000` is no part"),
        ("return { a: -b }",                "`b` is no part"),
        ("return { ['input']: [] }",        "`[` is no part"),
        ("return { __proto__: bands }",     "`__proto__` is no part"),
        ("return { get input() { return [] } }", "`input` is no part"),
        ("return { input() {} }",           "`input` is no part"),
        ("return { 'input' }",              "`'input'` is no part"),
        ("return { id: later }",            "`later` is no part"),
        ("return { id: itself }",           "values are nested more than 64 deep"),
        ("return { id: called }",           "`(` is no part"),
        ("return { id: length }",           "`.` is no part"),
        ("return SampleType['INT8']",       "`[` is no part"),
        ("return\n{}",                      "`return` is no part"),
        ("return",                          "`}` is no part"),
        ("return bands, []",                "`,` is no part"),
        ("return []; var bands = []",       "`var` is no part"),
        ("const bands = []; return bands",  "`const` is no part"),
        ("if (a) return []; return bands",  "`if` is no part"),
        ("while (true) {}",                 "`while` is no part"),
    ];
    for (body, expected) in table {
        let constants = "const bands = ['a'], itself = itself, called = bands\n('x'), length = bands\n.length;";
        check(&format!("{constants} function setup() {{ {body} }} const later = 'a'"), Err(expected));
    }
}

#[test]
fn scripts_without_one_plain_setup_are_refused() {
    let setup = "function setup() { return { input: ['B04'] } }";
    #[rustfmt::skip]
    let table = [
        ("",                                        "there is no function `setup`"),
        ("export SETUP",                            "there is no function `setup`"),
        ("if (a) SETUP",                            "there is no function `setup`"),
        ("if (a)\nSETUP",                           "there is no function `setup`"),
        ("if (a) b(); else\nSETUP",                 "there is no function `setup`"),
        ("{ SETUP }",                               "there is no function `setup`"),
        ("async SETUP",                             "there is no function `setup`"),
        ("x = () =>\nSETUP",                        "there is no function `setup`"),
        ("function* setup() {}",                    "there is no function `setup`"),
        ("SETUP; SETUP",                            "`setup` may change what `setup` returns"),
        ("SETUP { SETUP }",                         "`setup` may change"),
        ("SETUP setup = null",                      "`setup` may change"),
        ("SETUP this.setup = null",                 "`setup` may change"),
        ("SETUP this['set' + 'up'] = null",         "`this` may change"),
        ("SETUP function f() { setup = 1 } f()",    "`setup` may change"),
        ("SETUP eval('setup = 1')",                 "`eval` may change"),
        ("SETUP Object.prototype.mosaicking = 1",   "`prototype` may change"),
        ("SETUP a.__proto__.mosaicking = 1",        "`__proto__` may change"),
        ("var setup = SETUP()",                     "`setup` is no part"),
        ("var setup = function () { return [] }()", "`(` is no part"),
        ("var setup = () => []\n[0]",               "`[` is no part"),
        ("function setup(bands) { return bands }",  "`bands` is no part"),
        ("SETUP (",                                 "line 1: a bracket does not end"),
        ("SETUP (]",                                "a bracket closes nothing"),
        ("SETUP }",                                 "a bracket closes nothing"),
        ("SETUP '",                                 "a string, template or regular expression does not end"),
        ("SETUP '\n'",                              "does not end"),
        ("SETUP `${`",                              "does not end"),
        ("SETUP /* ",                               "a comment does not end"),
        ("SETUP a \\u0062 = 1",                     "a character has no meaning here"),
        ("SETUP <!-- '",                            "a comment of HTML"),
        ("SETUP\n--> '",                            "a comment of HTML"),
        ("#! '\nSETUP",                             "a comment of HTML"),
        ("SETUP {} /'/.exec(a)",                    "a slash may mean two things here"),
        ("SETUP if (a) /'/.exec(a)",                "a slash may mean two things here"),
        ("SETUP ++/'/.lastIndex",                   "a slash may mean two things here"),
        ("SETUP for (a of /'/) b",                  "a slash may mean two things here"),
    ];
    for (script, expected) in table {
        check(&script.replace("SETUP", setup), Err(expected));
    }
}

/// Every statement here changes `bands` or `kind` before `setup()` runs, or looks as if it may.
#[test]
fn constants_that_may_change_are_refused() {
    #[rustfmt::skip]
    let statements = [
        "bands.push('B08')", "bands = ['B08']", "bands[0] = 'B08'", "bands.length = 0", "kind = 'FLOAT32'",
        "kind += 1", "[bands] = [['B08']]", "({ a: bands } = {})", "({ bands } = {})", "for (bands of []) ;",
        "delete bands[0]", "const alias = bands; alias.push('B08')", "const holder = { bands }",
        "let list = [...bands]", "add(bands)", "var bands = ['B08']", "var { bands } = {}", "{ var bands = [] }",
        "if (a) bands = []", "if (a)\nvar bands = []", "try { bands.push('B08') } catch {}",
        "switch (1) { case 1: bands = [] }", "label: bands.pop()", "`${bands.pop()}`",
        "(() => { bands.push('B08') })()", "[1].map(x => bands.push(x))", "var f = function () { bands.pop() }; f()",
        "function f() { bands.push('B08') } f()", "function f() { g() } function g() { kind = 1 } x = { f }",
        "function f() { this['kind'] = 1 } f()", "class Tree { static x = bands.pop() }", "this.bands = []",
        "x(this)", "globalThis[a] = 1", "Function('bands.pop()')()", "function bands() {}", "SampleType = {}",
        "SampleType.UINT8 = 'FLOAT32'", "var SampleType = {}", "const { SampleType } = x", "[].__proto__[a] = 1",
        "Object.getPrototypeOf([])[a] = 1",
    ];
    for statement in statements {
        let script = format!(
            "var bands = ['B04'], kind = SampleType.UINT8;\n{statement}\n
             function setup() {{ return {{ input: bands, output: {{ sampleType: kind }} }} }}"
        );
        let refusal = setup(&script).expect_err(statement);
        assert!(refusal.contains("may change what `setup` returns"), "{statement}\n{refusal}");
    }
}

/// Statements that do not reach `bands`, and tokens that are easily taken for others.
#[test]
fn other_code_may_be_anything() {
    #[rustfmt::skip]
    let statements = [
        "const visualizer = new ColorRampVisualizer([[0, 0xff], [1e-5, 0x00]]);", "let n = 0; n += 1",
        "for (;;) { break }", "function evaluatePixel(s) { bands.push(s); kind = eval('1'); return this }",
        "import x from 'y'", "x.y = a ? .5 : b", "const re = /[/\"'{]+/g, other = a / b / c", "f(/}/)\nreturn_(/'/)",
        "if (a) { return /[`]/ } else b", "x = a.return / b / '}'", "x = `}${ { a: `${'}'}` }.a }{`",
        "x = '\\'}' + \"\\\"{\"", "// ' { \n/* \" { */", "x = n-- > 0 || a --> 0", "x = (a - b) / (c) / 'd'",
        "class Tree { constructor() { this.depth = 1 } grow() {} }", "try { nothing() } catch {}",
        "x = y?.z ?? [...w]", "label: x++",
    ];
    for statement in statements {
        let setup = "const bands = ['B04']\nvar kind = 'UINT8'
            function setup() { return { input: bands, output: { sampleType: kind } } }";
        for script in [format!("{statement}\n{setup}"), format!("{setup}\n{statement}")] {
            check(&script, Ok(json!({ "input": ["B04"], "output": { "sampleType": "UINT8" } })));
        }
    }
}

/// Reaches `MAX_SOURCE`, `MAX_READ` and `MAX_DEPTH`.
#[test]
fn scripts_are_bounded() {
    let returning = |literal: &str| format!("function setup() {{ return {literal} }}");
    let nested = |depth: usize| returning(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    assert!(setup(&nested(MAX_DEPTH as usize)).is_ok());
    check(&nested(65), Err("nested more than 64 deep"));
    let long = |length: usize| returning(&format!("'{}'", "x".repeat(length - "return''".len())));
    assert!(setup(&long(MAX_READ)).is_ok());
    check(&long(65_537), Err("`setup` returns more than 65536 bytes"));
    let doubled = (1..21).map(|n| format!("const a{n} = [...a{}, ...a{}];", n - 1, n - 1)).collect::<String>();
    check(&format!("const a0 = [1]; {doubled} {}", returning("a20")), Err("more than 65536 bytes"));
    let model = format!("const model = [{}];", "0.25, ".repeat(174_700));
    assert!((1_048_000..MAX_SOURCE).contains(&model.len()));
    assert!(setup(&format!("{model} {}", returning("[]"))).is_ok());
    check(&" ".repeat(1_048_577), Err("a script has at most 1048576 bytes"));
    for part in
        ["[", "(", "`${", "{}", "a,\n", "let a = 1,\nb = 2,\n", "/a", "a.", "f()\n", "function f(){}", "-->", "\\"]
    {
        drop(setup(&part.repeat(MAX_SOURCE / part.len())));
    }
}

const WORDS: &str = "function setup() {|return |{|}|[|]|(|)| => |x|bands|let x = |const bands = |var |for (|...|'a'|`|${|1|+|-|?|:|.|,|;|\n|/|//|/*|*/|=|++|if (x) |input: |output: |SampleType.|\\|é|this|'";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Any text has a value or a refusal, and never causes a panic.
    #[test]
    fn any_text_is_answered(text in ".{0,200}", words in prop::collection::vec(prop::sample::select(WORDS.split('|').collect::<Vec<_>>()), 0..60)) {
        for text in [text, words.concat()] {
            drop(setup(&text));
            drop(setup(&format!("const bands = {text}; function setup() {{ return {text} }}")));
        }
    }
}
