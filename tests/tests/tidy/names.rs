//! One word, one meaning: a type that other files can see shares its name with no other type.

use crate::package::packages;
use std::collections::{BTreeMap, BTreeSet};

/// Names that types of several files have, and why: the package's sources, the name, the reason.
const SHARED: &[(&str, &str, &str)] =
    &[("protocol/src", "Status", "that of a resource, and the field `status` of an answer on the wire")];

#[test]
#[expect(clippy::print_stdout, reason = "a test that fails says where")]
fn a_type_name_occurs_once_in_a_package() {
    let mut found = BTreeSet::new();
    for (folder, package) in packages() {
        let mut types: BTreeMap<&str, Vec<(&str, bool)>> = BTreeMap::new();
        for (name, file, item) in package.items().filter(|(_, _, item)| item.is_type) {
            types.entry(name).or_default().push((file, item.is_visible));
        }
        for (name, places) in types {
            if places.len() > 1 && places.iter().any(|(_, is_visible)| *is_visible) {
                println!("{name}: {places:?}");
                found.insert((folder.clone(), name.to_owned()));
            }
        }
    }
    let known = SHARED.iter().map(|(folder, name, _)| ((*folder).to_owned(), (*name).to_owned()));
    assert_eq!(found, known.collect());
}
