//! The documents of API Commons: a list of limits, or limits with their provenance.

use crate::entry::Entry;
use serde::Deserialize;

/// The limits of one document, each with the method by which it was found.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) entries: Vec<Entry>,
}

/// Documents have many more properties than these. None of them changes what a limit means.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Read {
    /// <https://github.com/api-commons/rate-limits>: limits, or properties of an index with limits.
    List(Vec<Item>),
    /// The files of the catalogue api-evangelist.
    Provider { method: Option<String>, limits: Vec<Entry> },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Item {
    Property { method: Option<String>, data: Vec<Entry> },
    Entry(Entry),
}

/// Reads a document. A limit without a method of its own has that of its document.
///
/// # Errors
/// If it is no YAML, or has no limits of this form.
pub fn document(text: &str) -> Result<Document, serde_saphyr::Error> {
    let with = |entries: Vec<Entry>, method: Option<String>| {
        entries.into_iter().map(move |entry| entry.found_by(method.as_deref()))
    };
    let entries = match serde_saphyr::from_str::<Read>(text)? {
        Read::Provider { method, limits } => with(limits, method).collect(),
        Read::List(items) => items
            .into_iter()
            .flat_map(|item| match item {
                Item::Property { method, data } => with(data, method),
                Item::Entry(entry) => with(vec![entry], None),
            })
            .collect(),
    };
    Ok(Document { entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name and the method of each limit.
    fn check(text: &str, expected: &[(&str, Option<&str>)]) {
        let document = document(text).unwrap();
        let found: Vec<_> = document.entries.iter().map(|entry| (&*entry.name, entry.method.as_deref())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn limits_are_found_in_each_form_of_a_document() {
        let entry = "name: a, metric: request, limit: 1, timeframe: hour";
        check(&format!("- {{{entry}}}"), &[("a", None)]);
        check(&format!("- {{{entry}, method: probed}}"), &[("a", Some("probed"))]);
        check(&format!("- type: RateLimits\n  method: harvested\n  data: [{{{entry}}}]"), &[("a", Some("harvested"))]);
        check(&format!("method: searched\nprovider: x\nlimits: [{{{entry}}}]"), &[("a", Some("searched"))]);
        check("method: probed\nlimits: []", &[]);
    }

    #[test]
    fn what_has_no_limits_is_refused() {
        assert!(document("provider: x").is_err());
        assert!(document("\"a text\"").is_err());
    }
}
