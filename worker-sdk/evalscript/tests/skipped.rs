//! Statements that are not understood: what they may have changed is unknown, and nothing else is.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use rampmeter_evalscript::{MAX_SOURCE, Problem, setup};
use serde_json::{Value, json};

/// What a script returns, or that it returns nothing because a value is unknown.
fn outcome(script: &str) -> Option<Value> {
    match setup(script) {
        Ok(answer) => Some(answer),
        Err(error) => {
            assert!(matches!(error.problem, Problem::Unknown(_)), "{script}\n{error}");
            None
        }
    }
}

/// Every statement here changes `bands` in JavaScript, or may.
#[test]
fn what_a_skipped_statement_may_change_is_unknown() {
    for statement in [
        "try { bands = ['B08']; } catch {}",
        "try { bands.push('B08'); } catch {}",
        "try { bands[0] = 'B08'; } catch {}",
        "try { [bands] = [['B08']]; } catch {}",
        "try { ({ a: [bands] } = { a: [['B08']] }); } catch {}",
        "try { for (bands of [['B08']]); } catch {}",
        "try { bands.length = 0; } catch {}",
        "switch (1) { case 1: bands = [3 & 1]; }",
        "switch (1) { default: bands.push('B08'); x = 3 & 1; }",
        "try { bands.push('B08'); } catch (e) {}",
        "try { nothing(); }\ncatch (e) { bands.push('B08'); }",
        "try {}\ncatch (e) {}\nfinally\n{ bands.push('B08'); }",
        "for (const d = new Date(); ; ) { bands.push('B08'); break; }",
        "for (const band of new Set(['B08'])) bands.push(band);",
        "const all = new Set(bands); all.forEach(b => bands.push(b + 1));",
        "if (3 & 1) bands.push('B08');",
        "if (3 & 1)\n  bands.push('B08');",
        "if (3 & 1)\n  bands.push('B08')\nelse\n  bands.pop()",
        "if (3 & 1) ; else bands = ['B08'];",
        "if (3 & 1) {}\nelse if (2 & 1) {}\nelse\n  bands = ['B08'];",
        "while (bands.length & 1)\n  bands.push('B08');",
        "do\n  bands.push('B08');\nwhile (bands.length & 1);",
        "label: bands.push('B08');",
        "label:\nfor (;;) { bands.push('B08'); break label; }",
        "const n = 3 &\n  bands.push('B08');",
        "alias.push(3 & 1);",
        "holder.list.push(3 & 1);",
        "add(3 & 1);",
        "const x = new Adder(3);",
        "new Tree('B08');",
        "try { new Tree('B08'); } catch (e) {}",
        "(async () => { bands.push('B08'); })();",
        "let s = `${bands.push(3 & 1)}`;",
        "delete bands[0];",
        "class Static { static { bands.push('B08'); } }",
        "globalThis.bands = ['B08'];",
        "this.bands = ['B08'];",
        "function plain() { this.bands = ['B08']; } plain();",
        "function plain() { `${this.bands = ['B08']}`; } plain();",
        "const plain = { class() { this.bands = ['B08']; } }.class; plain();",
        "(() => { this.bands = ['B08']; })();",
        "class Leaf {} function plain() { this.bands = ['B08']; } plain(3 & 1);",
        "eval('bands = []');",
        "bands.copyWithin(0, 1);",
        "var { bands } = new Thing();",
        "import bands from 'elsewhere';",
    ] {
        let script = format!(
            "var bands = ['B04'];
             const alias = bands, holder = {{ list: bands }};
             function add(band) {{ more(band); }}
             const more = band => bands.push(band);
             function Adder(band) {{ this.band = bands.push(band); }}
             class Tree {{ constructor(band) {{ bands.push(band); }} }}
             {statement}
             function setup() {{ return bands; }}"
        );
        assert_eq!(outcome(&script), None, "{statement}");
    }
}

/// A statement leaves alone what it cannot reach.
#[test]
fn what_a_skipped_statement_cannot_change_stays() {
    for statement in [
        "try { other.push('B08'); } catch {}",
        "switch (1) { case 3 & 1: other.push('B08'); }",
        "Tree.prototype.grow = function () { return 3 & 1; };",
        "other.prototype = Array.prototype;",
        "const copied = Array.prototype.slice.call(other);",
        "const colors = new ColorMapVisualizer([[0, 0xff]], other);",
        "let re = /[/\"'{]+/g\nother.push(1)",
        "class Tree { constructor(depth) { this.depth = depth; } }",
        "class Tree { grow() { bands.push('B08'); } }",
        "class Tree extends Plant { grow() { this.bands = `${this.other}`; } } new Tree().grow();",
        "const tree = new (class { grow() { this.bands = 1; } })();",
        "class Tree { grow() {} } function unused() { bands.push('B08'); }",
        "async function later() { bands.push('B08'); }",
        "function* later() { bands.push('B08'); }",
        "try { other = { bands: 3 }; } catch (bad) {}",
        "other.bands = new Date();",
        "if (3 & 1) other.push(bands.length) & 1; bands = ['B04'];",
        "try { bands = ['B08']; } catch {}\nbands = ['B04'];",
        "try { bands = ['B08']; } catch {}\nvar bands = ['B04'];",
        "if (3 & 1)\n  other.push(1)\nelse\n  other.pop()\nbands = ['B04']",
    ] {
        let script = format!("var bands = ['B04'], other = []; {statement}\nfunction setup() {{ return bands; }}");
        assert_eq!(outcome(&script), Some(json!(["B04"])), "{statement}");
    }
}

/// A value that is made of an unknown one is unknown too, however it is read.
#[test]
fn unknown_values_spread() {
    for reading in [
        "return made;",
        "return typeof bands;",
        "return typeof made;",
        "return [...holder.list];",
        "return { ...holder.inner };",
        "return holder.list.length;",
        "return Object.values(holder).join();",
        "return Object.keys(holder.inner);",
        "return 'a' in holder.inner;",
        "for (const key in holder.inner) return key; return 1;",
        "const [first] = holder.list; return first;",
        "holder.list.push(1); return 1;",
        "holder.list[0] = 1; return 1;",
        "holder.list.pop(); return 1;",
        "return `${holder.list}`;",
        "return holder.list + 1;",
        "return holder;",
        "return count;",
        "count += 1; return count;",
        "return count++;",
    ] {
        let script = format!(
            "let bands = ['B04'], count = 1;
             const holder = {{ list: [1], inner: {{ a: 1 }} }}, list = holder.list, inner = holder.inner;
             try {{ bands = []; list.push(2); inner.b = 2; count = 2; }} catch {{}}
             const made = bands.map(band => band);
             function setup() {{ {reading} }}"
        );
        assert_eq!(outcome(&script), None, "{reading}");
    }
}

/// A date is one object under all its names.
#[test]
fn a_date_that_a_skipped_statement_changes_is_unknown() {
    for reading in ["day.getDate()", "same.getDate()", "list[0] < 5", "+list[0]", "day.setMonth(1)"] {
        let script = format!(
            "const day = new Date(0), same = day, list = [day];
             day.setDate(3 & 1);
             function setup() {{ return {reading}; }}"
        );
        assert_eq!(outcome(&script), None, "{reading}");
    }
}

/// A script can replace the methods that this engine brings, and what all values inherit.
#[test]
fn replaced_methods_are_unknown() {
    for statement in [
        "Array.prototype.concat = function () { return ['B08']; };",
        "Array.prototype['concat'] = () => ['B08'];",
        "Object.prototype.more = ['B08'];",
        "Object.assign(Array.prototype, { concat: () => ['B08'] });",
        "Object.defineProperty(Array.prototype, 'concat', { value: () => ['B08'] });",
        "[].__proto__.concat = () => ['B08'];",
        "const same = Array; same.prototype.concat = () => ['B08'];",
        "(() => { Array.prototype.concat = () => ['B08']; })();",
        "try { Array.prototype.concat = () => ['B08']; } catch {}",
        "delete Array.prototype.concat;",
        "Array.from = () => ['B08']; Math.max = () => 2;",
    ] {
        for reading in ["['B04'].concat()", "[].more || ['B04']", "[1].map(Number)", "Array.from([])", "Math.max(1)"] {
            let script = format!("{statement} function setup() {{ return {reading}; }}");
            assert_eq!(outcome(&script), None, "{statement} {reading}");
        }
        let script = format!("{statement} function setup() {{ const a = ['B04']; return {{ a, n: a.length }}; }}");
        assert_eq!(outcome(&script), Some(json!({"a": ["B04"], "n": 1})), "{statement}");
    }
}

#[test]
fn the_error_names_the_statement() {
    let script = "let bands = ['B04']\n\ntry { bands.push('B08'); } catch {}\nfunction setup() { return bands }";
    let expected = "an array may have other elements (skipped: line 3: `try` is not understood here)";
    assert!(setup(script).unwrap_err().to_string().ends_with(expected), "{}", setup(script).unwrap_err());
    let script = script.replace("bands.push('B08')", "bands = []");
    let expected = "line 4: `bands` may have another value (skipped: line 3: `try` is not understood here)";
    assert_eq!(setup(&script).unwrap_err().to_string(), expected);
}

/// Classes and functions need no line of their own.
#[test]
fn statements_on_one_line() {
    for before in [
        "class Tree { grow() { return this.depth; } }",
        "class Tree extends Object { grow() {} }",
        "async function later() {}",
        "function* more() {}",
        "switch (1) { case 1: break; }",
        "try { nothing(); } catch (e) {} finally {}",
        "try { nothing(); } catch {}",
        "label: for (;;) { break label; }",
        "for (const x of y & 1) { z = x & 1; }",
        "if (a & b) { c(); } else if (b) d(); else e();",
        "do { x = 1 & 2; } while (x & 1);",
        "with (Math) { x = 1; }",
        "export class Leaf {}",
        "let re = /x/; ",
    ] {
        assert_eq!(outcome(&format!("{before} function setup() {{ return 1; }}")), Some(json!(1)), "{before}");
    }
}

/// A model of a megabyte, and a script that is as long and skipped.
#[test]
fn scripts_of_a_megabyte() {
    let model = format!("const model = [{}];\n", "0.25, ".repeat((MAX_SOURCE - 200) / 6));
    let script = format!("{model} function setup() {{ return model.length > 1e5; }}");
    assert!((1_048_000..=MAX_SOURCE).contains(&script.len()) && MAX_SOURCE == 1_048_576);
    assert_eq!(outcome(&script), Some(json!(true)));
    let tree = "if (a & 1) { x = y / 2; }\n".repeat((MAX_SOURCE - 200) / 26);
    let script = format!("function evaluatePixel(a, x, y) {{ {tree} }} function setup() {{ return 1; }}");
    assert_eq!(outcome(&script), Some(json!(1)));
    let script = format!("{tree} function setup() {{ return 1; }}");
    assert_eq!(outcome(&script), Some(json!(1)));
}

#[test]
fn dates_are_in_utc() {
    #[rustfmt::skip]
    let table = [
        ("new Date('2026-11-23')",                          json!("2026-11-23T00:00:00.000Z")),
        ("new Date('2026-11-23T14:05')",                    json!("2026-11-23T14:05:00.000Z")),
        ("new Date('2026-11-23T14:05:06.789+02:00')",       json!("2026-11-23T12:05:06.789Z")),
        ("new Date(2024, 1, 29, 23, 59, 59, 999)",          json!("2024-02-29T23:59:59.999Z")),
        ("new Date(2023, 13, 0)",                           json!("2024-01-31T00:00:00.000Z")),
        ("new Date(99, 0)",                                 json!("1999-01-01T00:00:00.000Z")),
        ("new Date(0).toISOString()",                       json!("1970-01-01T00:00:00.000Z")),
        ("new Date(-1)",                                    json!("1969-12-31T23:59:59.999Z")),
        ("new Date(new Date(5)).getTime()",                 json!(5)),
        ("[new Date(2026, 10, 23).getDay(), new Date(2000, 1, 29).getUTCMonth(), new Date(1e12).getMinutes()]", json!([1, 1, 46])),
        ("new Date('2026-03-01') - new Date('2026-02-01')", json!(2_419_200_000_i64)),
        ("new Date('2026-03-01') > new Date('2026-02-01') ? ['B04'] : []", json!(["B04"])),
        ("Date.UTC(2026, 0, 1) === Date.parse('2026-01-01')", json!(true)),
        ("[typeof new Date(1), new Date(NaN).getTime()]",   json!(["object", null])),
        ("new Date(2024, 0, 31).setMonth(1)",               json!(1_709_337_600_000_i64)),
        ("new Date(new Date(99, 0).setFullYear(2024, 1, 29))", json!("2024-02-29T00:00:00.000Z")),
        ("new Date(new Date(0).setUTCHours(25, 61, 61, 1001))", json!("1970-01-02T02:02:02.001Z")),
        ("(d => { const same = d; same.setDate(0); return [d, d === same, d === new Date(d)] })(new Date(0))", json!(["1969-12-31T00:00:00.000Z", true, false])),
    ];
    for (expression, expected) in table {
        assert_eq!(outcome(&format!("function setup() {{ return {expression}; }}")), Some(expected), "{expression}");
    }
}

/// What the time is now, and how a date reads in a language, is not known.
#[test]
fn dates_that_are_not_understood() {
    #[rustfmt::skip]
    let table = [
        ("new Date()",                  "`new Date` without arguments is not understood here"),
        ("Date.now()",                  "`Date.now` is not understood here"),
        ("Date(5)",                     "calling `Date` is not understood here"),
        ("new Date('May 5, 2026')",     "the date `May 5, 2026` is not understood here"),
        ("new Date('2026-02-30')",      "the date `2026-02-30` is not understood here"),
        ("new Date('2026-13-01')",      "the date `2026-13-01` is not understood here"),
        ("new Date(5) + 1",             "a date as text is not understood here"),
        ("new Date(5).setTime(3)",      "the method `setTime` of a date is not understood here"),
        ("new Date(NaN).setMonth(3)",   "this call of `setMonth` is not understood here"),
        ("new Date(NaN)",               "the date is out of range"),
        ("Math.hypot(3, 4)",            "`Math.hypot` is not understood here"),
        ("Number.EPSILON > 0",          "`Number.EPSILON` is not understood here"),
    ];
    for (expression, expected) in table {
        let error = setup(&format!("function setup() {{ return {expression}; }}")).expect_err(expression).to_string();
        assert!(error.contains(expected), "{expression}: {error}");
    }
}
