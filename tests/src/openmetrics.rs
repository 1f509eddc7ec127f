//! A reader of the `OpenMetrics` text format, version 1.0, as far as a scheduler uses it. Prometheus itself
//! judges the form, in `deploy/tests/test_scrape.py`.

use std::collections::BTreeMap;

/// A page of metrics.
#[derive(Clone, Debug, Default)]
pub struct Page {
    kinds: BTreeMap<String, String>,
    /// Name, labels and value of each sample.
    samples: Vec<(String, Labels, f64)>,
}

type Labels = BTreeMap<String, String>;

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// The first line that breaks the format.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.strip_suffix("# EOF\n").ok_or("the page does not end with `# EOF`")?;
        let mut page = Page::default();
        for line in lines.lines().filter(|line| !line.starts_with("# HELP ")) {
            page.take(line).ok_or_else(|| format!("wrong, or there twice: {line:?}"))?;
        }
        Ok(page)
    }

    /// The kind of the metric `family`, if the page has it.
    pub fn kind(&self, family: &str) -> Option<&str> {
        self.kinds.get(family).map(String::as_str)
    }

    /// The value of the only sample with this name and at least these labels.
    ///
    /// # Panics
    /// If there is none, or more than one.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has_all = |(found, of_sample, _): &&(String, Labels, f64)| {
            found == name && labels.iter().all(|(key, value)| of_sample.get(*key).is_some_and(|l| l == value))
        };
        let found: Vec<_> = self.samples.iter().filter(has_all).collect();
        match found[..] {
            [(_, _, value)] => *value,
            _ => panic!("{} samples of {name} with {labels:?}", found.len()),
        }
    }

    fn take(&mut self, line: &str) -> Option<()> {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ')?;
            return self.kinds.insert(name.to_owned(), kind.to_owned()).is_none().then_some(());
        }
        let (name_and_labels, value) = line.rsplit_once(' ')?;
        let (name, labels) = match name_and_labels.split_once('{') {
            Some((name, labels)) => (name, read_labels(labels.strip_suffix('}')?)?),
            None => (name_and_labels, Labels::new()),
        };
        let is_new = !self.samples.iter().any(|(known, with, _)| known == name && *with == labels);
        self.samples.push((name.to_owned(), labels, value.parse().ok()?));
        is_new.then_some(())
    }
}

/// Label values here are names without characters that need escapes.
fn read_labels(text: &str) -> Option<Labels> {
    let label = |label: &str| {
        let (key, value) = label.split_once('=')?;
        Some((key.to_owned(), value.strip_prefix('"')?.strip_suffix('"')?.to_owned()))
    };
    text.split(',').filter(|_| !text.is_empty()).map(label).collect()
}
