//! Scripts whose result is easily got wrong: they have JavaScript's result, or none.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_evalscript::{Problem, setup};
use serde_json::Value;

fn check(script: &str, expected: &str) {
    let expected: Value = serde_json::from_str(expected).unwrap();
    match setup(script) {
        Ok(answer) => assert_eq!(answer, expected, "{script}"),
        Err(error) => panic!("{script}\n{error}"),
    }
}

#[test]
fn declarations() {
    #[rustfmt::skip]
    let table = [
        ("const f = []; for (let i = 0; i < 3; i++) f.push(() => i); function setup() { return f.map(g => g()) }", "[0, 1, 2]"),
        ("const f = []; for (var i = 0; i < 3; i++) f.push(() => i); function setup() { return f.map(g => g()) }", "[3, 3, 3]"),
        ("function setup() { const f = []; for (let i = 0; i < 2; f.push(() => i), i++); return f.map(g => g()) }", "[1, 2]"),
        ("function setup() { let f; for (let i = 0, g = () => i; i < 3; i++) f = g; return f() }", "0"),
        ("function setup() { if (x) return 1; return 2; var x = 1 } var x = 1;",                   "2"),
        ("function setup() { return x } var x = 3;",                                               "3"),
        ("var x = 3; var x; function setup() { return x }",                                        "3"),
        ("var setup; function setup() { return 1 }",                                               "1"),
        ("function setup() { return 1 } function setup() { return 2 }",                            "2"),
        ("function setup(a) { var a; return typeof a }",                                           r#""undefined""#),
        ("function setup() { return (a => { var a; return a })(5) }",                              "5"),
        ("function setup() { for (var { k } of [{ k: 1 }]); { var [m] = [2] } return [k, m] }",    "[1, 2]"),
        ("function setup() { switch (1) { case 1: var x = 4 } return x }",                         "4"),
        ("function f() { return 1 } { function f() { return 2 } } function setup() { return f() }", "2"),
        ("function setup() { made = 5; return made }",                                             "5"),
        ("made = 5; function setup() { return made }",                                             "5"),
        ("function f() { made = 5 } f(); function setup() { return made }",                        "5"),
    ];
    for (script, expected) in table {
        check(script, expected);
    }
}

#[test]
fn statements() {
    #[rustfmt::skip]
    let table = [
        ("switch (2) { case 1: return 'a'; case 2: return 'b'; default: return 'c' }",              r#""b""#),
        ("switch (3) { case 1: return 'a'; default: return 'c'; case 2: return 'b' }",              r#""c""#),
        ("let n = 0; switch (1) { case 1: n += 1; case 2: n += 2; break; case 3: n += 4 } return n", "3"),
        ("let n = 0; switch (9) { default: n += 1; case 2: n += 2 } return n",                      "3"),
        ("let n = 0; for (const i of [1, 2, 3]) { switch (i) { case 2: continue; default: n += i } } return n", "4"),
        ("let n = 0; for (const i of [1, 2, 3]) { switch (i) { case 2: break; default: n += i } } return n",    "4"),
        ("switch ('1') { case 1: return 'equal'; } return 'unequal'",                               r#""unequal""#),
        ("switch (1) { case 1: let x = 2; { let x = 3 } return x }",                                "2"),
        ("const a = [1, 2]; for (const x of a) if (a.length < 6) a.push(x); return a",              "[1, 2, 1, 2, 1, 2]"),
        ("const a = [1, 2, 3]; for (const x of a) a.pop(); return a",                               "[1]"),
    ];
    for (body, expected) in table {
        check(&format!("function setup() {{ {body} }}"), expected);
    }
}

/// The place of an assignment is known before its value, and is looked for once.
#[test]
fn assignments() {
    #[rustfmt::skip]
    let table = [
        ("const a = [0, 0]; let i = 0; a[i++] = i; return [a, i]",              "[[1, 0], 1]"),
        ("const a = [0, 0]; let i = 0; a[i++] += 5; return [a, i]",             "[[5, 0], 1]"),
        ("const a = [0, 0]; let i = 0; a[i++]++; return [a, i]",                "[[1, 0], 1]"),
        ("const a = [0, 0]; let i = 0; a[i++] ||= i; return [a, i]",            "[[1, 0], 1]"),
        ("let a = { n: 1 }; const b = a; a.x = a = { n: 3 }; return [a, b]",    r#"[{"n": 3}, {"n": 1, "x": {"n": 3}}]"#),
        ("let n = 1; n += n++ + ++n; return n",                                 "5"),
    ];
    for (body, expected) in table {
        check(&format!("function setup() {{ {body} }}"), expected);
    }
}

#[test]
fn comparisons() {
    #[rustfmt::skip]
    let table = [
        ("[1 == true, 0 == false, '1' == true, '' == 0, null == 0, null == false, undefined == false]", "[true, true, true, true, false, false, false]"),
        ("[[NaN].includes(NaN), [NaN].indexOf(NaN), NaN == NaN]",                   "[true, -1, false]"),
        ("['10' > '9', 10 > '9', '010' == 10, '1_0' == 10, null >= 0]",             "[false, true, true, false, true]"),
        ("[typeof Math, typeof SampleType, typeof Array, typeof null]",             r#"["object", "object", "function", "object"]"#),
    ];
    for (expression, expected) in table {
        check(&format!("function setup() {{ return {expression} }}"), expected);
    }
}

/// Reaches `numbers::MAX_DECIMALS` and `number::MAX_DIGITS`.
#[test]
fn numbers() {
    #[rustfmt::skip]
    let table = [
        ("[010, 08, 0b11, 0o11, 0x1F]",                                                     "[8, 8, 3, 9, 31]"),
        ("['1', '2', '3', '11'].map(parseInt)",                                             "[1, null, null, 4]"),
        ("[parseInt('0x1f'), parseInt('1f', 16), parseInt('-12px'), parseInt('1e3'), parseInt('')]", "[31, 31, -12, 1, null]"),
        ("[parseFloat('1e3'), parseFloat('+5.5.5'), parseFloat('-.5e-1x'), parseFloat('1e'), parseFloat('x')]", "[1000, 5.5, -0.05, 1, null]"),
        ("[parseFloat('1' + '0'.repeat(20) + '.' + '0'.repeat(42)), parseFloat('x'.repeat(99))]", "[100000000000000000000, null]"),
        ("[{ undefined: 1 }.undefined, { NaN: 2 }['NaN'], { Infinity: 3 }.Infinity]",        "[1, 2, 3]"),
        ("[Number(), Number(''), Number(' 12 '), Number('1_0'), Number(null), Number([5]), Number({})]", "[0, 0, 12, null, 0, 5, null]"),
        ("[1 ** NaN, (-1) ** Infinity, Math.pow(1, NaN), NaN ** 0, 2 ** 3 ** 2]",           "[null, null, null, 1, 512]"),
        ("[parseInt('0x1f', Infinity), parseInt('12', 37), parseInt('123456789012345680000') + '', parseInt('z', 36)]", r#"[31, null, "123456789012345680000", 35]"#),
        ("[(-0).toFixed(2), (-0.001).toFixed(2), Math.max(-1, -0).toFixed()]",              r#"["0.00", "-0.00", "0"]"#),
        ("[0.49999999999999994, -0.5, 2.5, -2.5, 4503599627370497].map(Math.round)",        "[0, 0, 3, -2, 4503599627370497]"),
        ("[Math.max(1, NaN), Math.min(NaN, 1), Math.max(), Math.max(1, '3')]",              "[null, null, null, 3]"),
        ("[(1.2).toFixed(100).length, (1.2).toFixed(-0.5), (1.2).toFixed(NaN)]",             r#"[102, "1", "1"]"#),
        ("[(1.25).toFixed(0), (3.7).toFixed(), (1e21) + '', 1e-7 + '']",                    r#"["1", "4", "1e+21", "1e-7"]"#),
    ];
    for (expression, expected) in table {
        check(&format!("function setup() {{ return {expression} }}"), expected);
    }
}

#[test]
fn arrays() {
    #[rustfmt::skip]
    let table = [
        ("['a', 'b', 'c'].fill('x', 1, 2)",                                         r#"["a", "x", "c"]"#),
        ("(a => [a.splice(1, 2, 'x'), a])(['a', 'b', 'c', 'd'])",                   r#"[["b", "c"], ["a", "x", "d"]]"#),
        ("(a => [a.splice(-1), a.splice(), a])([1, 2])",                            "[[2], [], [1]]"),
        ("[1, [2, [3, [4]]]].flat(2).concat([[[5]]].flat(Infinity), [[6]].flat(0))", "[1, 2, 3, [4], 5, [6]]"),
        ("[[1, 2, 3].at(-1.5), [1].at(-5), [1, 2].slice(1, undefined), [1, 2, 3].slice(-2.5)]", "[3, null, [2], [2, 3]]"),
        ("[1, 2].reduce((sum, x, i, all) => sum + x * i + all.length, 0)",          "6"),
        ("[3, 1, 2, 1, 3].sort((x, y) => x > y ? 1 : -1)",                          "[1, 1, 2, 3, 3]"),
        ("[3, undefined, 1, 20].sort(undefined)",                                   "[1, 20, 3, null]"),
        ("['a', 'b'].map((x, i, all) => { all[1] = 'c'; return x })",               r#"["a", "c"]"#),
        ("[Array.from({ length: '2' }, (_, i) => i), Array.from({}), [1, 2].join(undefined)]", r#"[[0, 1], [], "1,2"]"#),
        ("[new Array(2).fill().map((_, i) => i), [...Array(2)].map((_, i) => i), Array.from(Array(2).keys())]", "[[0, 1], [0, 1], [0, 1]]"),
        ("(a => { for (let i = 0; i < 2; i++) a[i] = i; return a.map(x => x + 1) })(new Array(2))", "[1, 2]"),
        ("[['a', 'b']['1'], ['a', 'b']['01'], ['a', 'b']['+1'], 'ab'['01']]",      r#"["b", null, null, null]"#),
        ("Object.keys({ b: 1, 10: 1, a: 1, 9: 1, '01': 1 })",                       r#"["9", "10", "b", "a", "01"]"#),
    ];
    for (expression, expected) in table {
        check(&format!("function setup() {{ return {expression} }}"), expected);
    }
}

#[test]
fn strings() {
    #[rustfmt::skip]
    let table = [
        ("['abc'.substring(2, 0), 'abc'.substring(-1, 2), 'abc'.slice(2, 0), 'abc'.slice(-2)]", r#"["ab", "ab", "", "bc"]"#),
        ("['abc'.charAt(-1), 'abc'.charAt(1), 'abc'.charAt()]",             r#"["", "b", "a"]"#),
        ("['a'.concat('b', 1, null), '\\b\\v\\f'.length]",                    r#"["ab1null", 3]"#),
        ("['a,b'.split(undefined), 'a'.padStart(2, undefined), String()]",  r#"[["a,b"], " a", ""]"#),
    ];
    for (expression, expected) in table {
        check(&format!("function setup() {{ return {expression} }}"), expected);
    }
}

/// A script that needs more of JavaScript than this engine has gets no result, rather than a wrong
/// one. Exceeds `numbers::MAX_DECIMALS` and `number::MAX_DIGITS`.
#[test]
fn an_operation_with_an_uncertain_result_is_refused() {
    #[rustfmt::skip]
    let table = [
        ("[2] == 2",                            "`==` of an object and another value"),
        ("['b'] > 'a'",                         "the order of an object and another value"),
        ("'' + { toString() { return 'a' } }",  "an object that says how it is converted"),
        ("'' + (() => 1)",                      "a function as text"),
        ("'😀'.length",                         "a part of a text with characters beyond U+FFFF"),
        ("'😀b'.indexOf('b')",                  "a part of a text with characters beyond U+FFFF"),
        ("'a-b'.replace('-', '$&')",            "`$` in a replacement"),
        ("'a-b'.replace('-', x => x)",          "a function as text"),
        ("'abc'.indexOf('a', 1)",               "argument 2 of `indexOf`"),
        ("[1, 2].includes(1, 1)",               "argument 2 of `includes`"),
        ("new Array(2).map(x => 1)",            "an empty element of an array"),
        ("[1, , 2].forEach(x => 1)",            "an empty element of an array"),
        ("(a => { a[5] = 1; return Object.keys(a) })([])", "an empty element of an array"),
        ("[1, 2].map((x, i, all) => all.pop())", "`map` of an array that becomes shorter"),
        ("(2.5).toFixed()",                     "`toFixed` of 2.5"),
        ("(1.5).toFixed(101)",                  "`toFixed` with 101 decimals"),
        ("(1.5).toFixed(-1)",                   "`toFixed` with -1 decimals"),
        ("parseFloat('1' + '0'.repeat(64))",    "a number of more than 64 characters"),
        ("typeof Set",                          "`typeof Set`"),
        ("typeof globalThis",                   "`typeof globalThis`"),
        ("[].findLast ? 1 : 2",                 "the value of `findLast`"),
        ("setup.length",                        "the value of `length`"),
        ("'toString' in {}",                    "the value of `toString`"),
        ("({}).hasOwnProperty?.('a')",          "the value of `hasOwnProperty`"),
        ("({ __proto__: { a: 1 } })",           "`__proto__`"),
        ("typeof arguments",                    "`typeof arguments`"),
        ("(a => { a[0] = 2; return a })(Object.freeze([1]))",   "a change of a frozen object"),
        ("(a => { a.push(2); return a })(Object.freeze([1]))",  "a change of a frozen object"),
        ("(o => { o.n = 2; return o })(Object.freeze({}))",     "a change of a frozen object"),
        ("(a => { a['02'] = 1; return a })([])", "setting `02` of an array"),
        ("(undefined => undefined)(1)",         "`undefined` as a name"),
        ("(({ NaN }) => NaN)({ NaN: 1 })",      "`NaN` as a name"),
        ("Array.from({ length: 1, 0: 'a' })",   "an array from an object with elements"),
        ("[2, 'K', 1].sort((x, y) => x > y ? 1 : -1)", "an order that contradicts itself"),
        ("[1, 2].sort(() => -1)",               "an order that contradicts itself"),
        ("Object.keys('ab')",                   "the keys of this value"),
    ];
    for (expression, expected) in table {
        let error = setup(&format!("function setup() {{ return {expression} }}")).expect_err(expression);
        assert_eq!(error.problem, Problem::Unsupported(expected.to_owned()), "{expression}");
    }
}
