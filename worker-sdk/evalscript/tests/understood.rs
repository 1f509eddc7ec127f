//! Scripts and their results.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_evalscript::setup;
use serde_json::Value;

fn check(script: &str, expected: &str) {
    let expected: Value = serde_json::from_str(expected).unwrap();
    match setup(script) {
        Ok(answer) => assert_eq!(answer, expected, "{script}"),
        Err(error) => panic!("{script}\n{error}"),
    }
}

#[test]
fn every_way_to_write_setup() {
    for script in [
        "//VERSION=3\nfunction setup() {\n  return { bands: 2 }\n}",
        "var setup = function () { return { bands: 2 }; };",
        "const setup = () => ({ bands: 2 });",
        "let setup = function named() { return { 'bands': 2, }; }",
        "const setup = _ => { return { [\"ba\" + 'nds']: 1 + 1 } }",
        "function setup() { return { bands: 2 } }\nsetup.x = 1;",
        "\u{feff}/* a comment */ function setup() { let bands = 2; return { bands } } // the end",
    ] {
        check(script, r#"{"bands": 2}"#);
    }
}

#[test]
fn expressions() {
    #[rustfmt::skip]
    let table = [
        ("1 + 2 * 3 - 4 / 2 % 3 ** 2",              "5"),
        ("2 ** 3 ** 2",                             "512"),
        ("-(1) + +'2' + -0x10 + 1e2 + .5 + 1_000",  "1085.5"),
        ("'a' + 1 + null + undefined + true",       r#""a1nullundefinedtrue""#),
        ("`B0${1 + 1}${`-${'x'}`}`",                r#""B02-x""#),
        (r#""\x41\u0042\n\"" + '\''"#,              r#""AB\n\"'""#),
        ("[1, , ...[2, 3], ...'ab']",               r#"[1, null, 2, 3, "a", "b"]"#),
        ("({ a: 1, 'b': 2, 3: 4, ...{ c: 5, a: 6 }, d() { return 1 }, e: undefined })", r#"{"a": 6, "b": 2, "3": 4, "c": 5}"#),
        ("1 < 2 && 'a' < 'b' && !(2 <= 1) && 2 >= 2", "true"),
        ("[1 == '1', 1 === '1', null == undefined, null === undefined, 1 != 2, 'a' !== 'a']", "[true, false, true, false, true, false]"),
        ("[0 || 'a', 0 ?? 'a', 1 && 2, null ?? 3]", r#"["a", 0, 2, 3]"#),
        ("true ? 1 : false ? 2 : 3",                "1"),
        ("[typeof 1, typeof nowhere, typeof [], typeof setup, void 0 === undefined]", r#"["number", "undefined", "object", "function", true]"#),
        ("[{ a: [1, { b: 2 }] }?.a[1].b, null?.x, undefined?.(), [].nothing]", "[2, null, null, null]"),
        ("'a' in { a: 1 }",                         "true"),
        ("(1, 2)",                                  "2"),
        ("[SampleType.FLOAT32, Mosaicking.ORBIT]",  r#"["FLOAT32", "ORBIT"]"#),
        ("[(x => x * 2)(2), (({ a = 1, b: [c] }, ...d) => a + c + d.length)({ b: [5] }, 0, 0)]", "[4, 8]"),
        ("[NaN, Infinity, 0.5, 1e15]",              "[null, null, 0.5, 1000000000000000]"),
    ];
    for (expression, expected) in table {
        check(&format!("function setup() {{ return {expression}; }}"), expected);
    }
}

#[test]
fn statements() {
    #[rustfmt::skip]
    let table = [
        ("let n = 0; for (let i = 0; i < 5; i++) { if (i == 3) continue; n += i } return n",            "7"),
        ("var n = 0; while (true) { n++; if (n > 4) break } return n",                                  "5"),
        ("let n = 0; do { n -= 1 } while (n > -3); return n",                                           "-3"),
        ("const a = []; for (const band of ['a', 'b']) a.push(band); for (const k in { x: 1 }) a.push(k); return a", r#"["a", "b", "x"]"#),
        ("let [a, b = 5, ...c] = [1, undefined, 3, 4], { d, e: { f } = { f: 7 }, ...g } = { d: 6, h: 8 }; return [a, b, c, d, f, g]", r#"[1, 5, [3, 4], 6, 7, {"h": 8}]"#),
        ("if (false) { return 1 } else if (true) return 2; else return 3",                              "2"),
        ("{ var inside = 1; let hidden = 2 } return [inside, typeof hidden]",                           r#"[1, "undefined"]"#),
        ("return twice(2); function twice(n) { return n * 2 }",                                         "4"),
        ("const counter = () => { let n = 0; return () => ++n }; const next = counter(); next(); return next()", "2"),
        ("const o = { a: { b: 1 } }; o.a.b += 2; o['c'] = o.a.b--; o.d ??= 9; return o",                r#"{"a": {"b": 2}, "c": 3, "d": 9}"#),
        ("const a = [1]; a[2] = 3; return a",                                                           "[1, null, 3]"),
        ("let x\nx = 1\nlet y = x\n;[y].push(1)\nreturn y",                                             "1"),
        ("return\n1",                                                                                   "null"),
    ];
    for (body, expected) in table {
        check(&format!("function setup() {{ {body} }}"), expected);
    }
}

#[test]
fn methods() {
    #[rustfmt::skip]
    let table = [
        ("['B01', 'B02'].map((b, i) => b + i).filter(b => b.endsWith('1')).concat(['x'], 'y')",         r#"["B021", "x", "y"]"#),
        ("[[1, 2], [3]].flatMap(x => x).concat([[4]].flat()).reverse().slice(1, -1)",                   "[3, 2]"),
        ("[3, 1, 2].sort().concat([10, 9].sort((a, b) => a - b), ['b', 'a'].sort())",                   r#"[1, 2, 3, 9, 10, "a", "b"]"#),
        ("[1, 2, 3].reduce((a, b) => a + b) + [1].reduce((a, b) => a + b, 5)",                          "12"),
        ("[[1, 2].includes(2), [1].indexOf(3), [1, 2].find(x => x > 1), [1].some(x => x > 1), [1].every(x => x)]", "[true, -1, 2, false, true]"),
        ("[Array.from({ length: 2 }, (_, i) => i), Array(2).fill(0), new Array(1, 2), Array.from('ab'), Array.isArray([])]", r#"[[0, 1], [0, 0], [1, 2], ["a", "b"], true]"#),
        ("[[1, 2].join('-'), 'a,b'.split(','), 'ab'.split(''), [1, [2, 3]] + '']",                      r#"["1-2", ["a", "b"], ["a", "b"], "1,2,3"]"#),
        ("[Object.keys({ a: 1 }), Object.values({ a: 1 }), Object.entries({ a: 1 }), Object.assign({}, { a: 1 })]", r#"[["a"], [1], [["a", 1]], {"a": 1}]"#),
        ("['b1'.toUpperCase(), 'AB'.toLowerCase(), ' a '.trim(), 'abc'.slice(1), 'abc'.substring(0, 2), 'abc'.charAt(1), 'abc'[2], 'abc'.length]", r#"["B1", "ab", "a", "bc", "ab", "b", "c", 3]"#),
        ("['1'.padStart(2, '0'), 'a'.repeat(3), 'aXbX'.replace('X', 'y'), 'aXbX'.replaceAll('X', ''), 'abc'.indexOf('c')]", r#"["01", "aaa", "aybX", "ab", 2]"#),
        ("[Math.max(1, 3, 2), Math.floor(1.5), Math.round(2.5), Math.PI > 3, Number('12'), parseInt('12px'), String(1.5), (2).toFixed(2)]", r#"[3, 1, 3, true, 12, 12, "1.5", "2.00"]"#),
        ("(() => { const a = [1]; a.push(2, 3); a.shift(); a.unshift(9); return [a, a.pop(), a.length] })()", "[[9, 2], 3, 2]"),
    ];
    for (body, expected) in table {
        check(&format!("function setup() {{ const value = {body}; return value }}"), expected);
    }
}

/// Large tables at the top of a script do not exceed a bound.
#[test]
fn large_tables_are_built() {
    let script = "const all = []; for (let i = 0; i < 20000; i++) all.push('B' + i);
        const table = Object.assign({}, ...all.slice(0, 100).map(name => ({ [name]: name.length })));
        function setup() { return [all.length, Object.keys(table).length]; }";
    check(script, "[20000, 100]");
}

/// Code that `setup()` does not need may be anything with balanced brackets.
#[test]
fn unneeded_statements_are_skipped() {
    let script = r#"//VERSION=3
        const visualizer = new ColorGradientVisualizer([[0, 0xff], [1, 0x00]]);
        class Tree { constructor(depth) { this.depth = depth; } }
        import { helper } from "somewhere";
        switch (1) { case 1: break; }
        let re = /[/"'{]+/g
        let bands = ["B04"]
        bands.push("B08");
        label: for (;;) { break label }
        function evaluatePixel(samples, { scenes }) {
            try { for (const s of samples) { if (s.x & 1) return /}/.test(`}${"`"}`) ? [s.a / s.b / 2] : []; } }
            catch (e) { async () => await e; }
        }
        async function* more() { yield* [1]; }
        var table = [1, 2, 3].map(x => x << 2);
        function setup() { return bands; }
        function updateOutputMetadata(scenes, inputMetadata, outputMetadata) { outputMetadata.userData = { a: this } }
    "#;
    check(script, r#"["B04", "B08"]"#);
}
