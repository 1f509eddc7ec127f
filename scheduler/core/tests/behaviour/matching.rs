//! The limits that apply to a request, and its keys.

use crate::prelude::*;
use rampmeter_policy::spec::{Pattern, SpecField};

fn limits(applies: Vec<Applies>) -> ResourceSpec {
    let one = |(number, applies)| LimitSpec {
        name: name(&format!("limit-{number}")),
        applies,
        ..limit("requests", 10.0, span(1000))
    };
    resource(applies.into_iter().enumerate().map(one).collect())
}

fn matching(label: &str, pattern: Pattern) -> Applies {
    Applies { matching: [(label.to_owned(), pattern)].into(), ..Applies::default() }
}

fn exactly(value: &str) -> Pattern {
    Pattern::Exact(value.to_owned())
}

fn expression(regex: &str) -> Pattern {
    Pattern::Regex(regex.to_owned())
}

/// The limits of a request with these labels, and the keys of their buckets.
fn charged(spec: &ResourceSpec, given: &[(&str, &str)]) -> (Vec<usize>, Vec<String>) {
    let mut labels = Labels::new();
    given.iter().for_each(|(label, value)| labels.set(*label, *value).unwrap());
    let bill = Resource::new(spec).unwrap().bill(&labels, [].into_iter()).unwrap();
    (
        bill.amounts().map(|(limit, _)| limit.index()).collect(),
        bill.keyed().map(|charge| charge.key.to_string()).collect(),
    )
}

#[test]
fn patterns() {
    let set = Pattern::OneOf(["PUT", "PATCH"].map(str::to_owned).into());
    let guilds = || Pattern::Prefix("/guilds/".to_owned());
    let table = [
        (exactly("PUT"), "PUT", true),
        (exactly("PUT"), "PUTS", false),
        (set.clone(), "PATCH", true),
        (set, "GET", false),
        (guilds(), "/guilds/7", true),
        (guilds(), "/x/guilds/", false),
        (expression("^/guilds/\\d+$"), "/guilds/77", true),
        (expression("guild"), "/x/guilds", true),
        (expression("^guild"), "/x/guilds", false),
    ];
    for (pattern, value, holds) in table {
        let spec = limits(vec![matching("what", pattern.clone())]);
        assert_eq!(charged(&spec, &[("what", value)]).0.len() == 1, holds, "{pattern:?} {value}");
        assert_eq!(charged(&spec, &[]).0.len(), 0, "{pattern:?} without the label");
    }
}

#[test]
fn all_that_a_limit_matches_on_has_to_hold() {
    let both = [("route".to_owned(), exactly("/a")), ("method".to_owned(), expression("^P"))];
    let spec = limits(vec![Applies { matching: both.into(), ..Applies::default() }]);
    assert_eq!(charged(&spec, &[("route", "/a"), ("method", "PUT")]).0.len(), 1);
    assert_eq!(charged(&spec, &[("route", "/a"), ("method", "GET")]).0.len(), 0);
    assert_eq!(charged(&spec, &[("route", "/b"), ("method", "PUT")]).0.len(), 0);
}

#[test]
fn the_most_specific_limit_of_a_group_applies_and_the_first_of_equals() {
    let grouped = |applies: Applies| Applies { group: Some(name("rules")), ..applies };
    let two = [("client".to_owned(), exactly("vip")), ("method".to_owned(), exactly("PUT"))];
    let spec = limits(vec![
        grouped(Applies::default()),
        grouped(matching("route", expression("^/a"))),
        grouped(matching("route", expression("^/a/b"))),
        grouped(matching("client", exactly("vip"))),
        grouped(Applies { matching: two.into(), ..Applies::default() }),
        Applies::default(),
    ]);
    for (given, chosen) in [
        (&[][..], 0),
        (&[("route", "/x")], 0),
        (&[("route", "/a/b/c")], 1),
        (&[("route", "/a"), ("client", "vip")], 3),
        (&[("method", "PUT"), ("client", "vip")], 4),
    ] {
        assert_eq!(charged(&spec, given).0, [chosen, 5], "{given:?}");
    }
}

#[test]
fn different_values_make_different_keys() {
    let keyed = |key: &[&str]| Applies { key: key.iter().map(ToString::to_string).collect(), ..Applies::default() };
    let (one, two) = (limits(vec![keyed(&["a"])]), limits(vec![keyed(&["a", "b"])]));
    for (a, b, of_one, of_two) in
        [("x", "y", "x", "x|y"), ("x|y", "", "x|y", "x\\|y|"), ("x", "|y\\", "x", "x|\\|y\\\\")]
    {
        let given = [("a", a), ("b", b)];
        assert_eq!(charged(&one, &given).1, [of_one], "a key of one label is its value");
        assert_eq!(charged(&two, &given).1, [of_two]);
    }
    assert_eq!(charged(&two, &[("a", "x")]).0.len(), 0, "without one of its labels");
}

#[test]
fn an_invalid_regular_expression_is_a_fault() {
    let spec = limits(vec![Applies::default(), matching("route", expression("("))]);
    let fault = Resource::new(&spec).unwrap_err();
    assert_eq!(fault.field, SpecField::Limit(1, "match"));
    assert!(fault.reason.starts_with("not a regular expression: regex parse error"), "{fault}");
}
