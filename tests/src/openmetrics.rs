//! A strict reader of the `OpenMetrics` text format, version 1.0, as far as a scheduler uses it.

use std::collections::BTreeMap;

/// A page of metrics.
#[derive(Clone, Debug, Default)]
pub struct Page {
    families: BTreeMap<String, Family>,
    samples: Vec<Sample>,
}

/// The lines about one metric.
#[derive(Clone, Debug, Default)]
struct Family {
    kind: String,
    help: String,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

type Labels = BTreeMap<String, String>;

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// The first line that breaks the format, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.strip_suffix("# EOF\n").ok_or("the page does not end with `# EOF`")?;
        let mut page = Page::default();
        for line in lines.lines() {
            page.take(line).map_err(|why| format!("{why}: {line:?}"))?;
        }
        page.check_histograms()?;
        Ok(page)
    }

    /// The kind of the metric `family`, if the page has it.
    pub fn kind(&self, family: &str) -> Option<&str> {
        self.families.get(family).filter(|family| !family.help.is_empty()).map(|family| family.kind.as_str())
    }

    /// The value of the only sample with this name and at least these labels.
    ///
    /// # Panics
    /// If there is none, or more than one.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has_all = |sample: &&Sample| {
            sample.name == name && labels.iter().all(|(key, value)| sample.labels.get(*key).is_some_and(|l| l == value))
        };
        let found: Vec<&Sample> = self.samples.iter().filter(has_all).collect();
        match found[..] {
            [sample] => sample.value,
            _ => panic!("{} samples of {name} with {labels:?}", found.len()),
        }
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        match line.strip_prefix("# ") {
            Some(comment) => self.take_comment(comment),
            None => self.take_sample(line),
        }
    }

    fn take_comment(&mut self, comment: &str) -> Result<(), String> {
        let mut words = comment.splitn(3, ' ');
        let (Some(what), Some(name), Some(text)) = (words.next(), words.next(), words.next()) else {
            return Err("a comment is HELP, TYPE or UNIT with a name and a text".to_owned());
        };
        let family = self.families.entry(name.to_owned()).or_default();
        let field = match what {
            "HELP" => &mut family.help,
            "TYPE" => &mut family.kind,
            _ => return Err(format!("{what} is not used here")),
        };
        if !field.is_empty() {
            return Err("said before".to_owned());
        }
        text.clone_into(field);
        Ok(())
    }

    fn take_sample(&mut self, line: &str) -> Result<(), String> {
        let sample = read_sample(line)?;
        if !self.families.iter().any(|(name, family)| family.has(name, &sample.name)) {
            return Err("no family has samples of this name".to_owned());
        }
        if self.samples.iter().any(|known| known.name == sample.name && known.labels == sample.labels) {
            return Err("there before".to_owned());
        }
        self.samples.push(sample);
        Ok(())
    }

    /// Histogram buckets accumulate, and the last one is infinity and equals the count.
    fn check_histograms(&self) -> Result<(), String> {
        let histograms = self.families.iter().filter(|(_, family)| family.kind == "histogram");
        for (name, _) in histograms {
            for count in self.samples.iter().filter(|sample| sample.name == format!("{name}_count")) {
                self.check_histogram(name, count)?;
            }
        }
        Ok(())
    }

    fn check_histogram(&self, name: &str, count: &Sample) -> Result<(), String> {
        let mut last = (f64::NEG_INFINITY, 0.0);
        for bucket in self.samples.iter().filter(|sample| sample.name == format!("{name}_bucket")) {
            let mut labels = bucket.labels.clone();
            let bound = labels.remove("le").ok_or_else(|| format!("a bucket of {name} has no bound"))?;
            if labels == count.labels {
                let bound = number(&bound)?;
                if bound <= last.0 || bucket.value < last.1 {
                    return Err(format!("the buckets of {name} do not grow at {bound}"));
                }
                last = (bound, bucket.value);
            }
        }
        match last == (f64::INFINITY, count.value) {
            true => Ok(()),
            false => Err(format!("the last bucket of {name} is {last:?}, its count {}", count.value)),
        }
    }
}

impl Family {
    /// Whether the family `name` has samples called `sample`.
    fn has(&self, name: &str, sample: &str) -> bool {
        let suffixes: &[&str] = match self.kind.as_str() {
            "gauge" => &[""],
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            _ => &[],
        };
        sample.strip_prefix(name).is_some_and(|suffix| suffixes.contains(&suffix))
    }
}

/// `name value` or `name{key="value",…} value`; the scheduler writes no timestamps or exemplars.
fn read_sample(line: &str) -> Result<Sample, String> {
    let (name_and_labels, value) = line.rsplit_once(' ').ok_or("no value")?;
    let (name, labels) = match name_and_labels.split_once('{') {
        Some((name, labels)) => (name, read_labels(labels.strip_suffix('}').ok_or("the labels do not end")?)?),
        None => (name_and_labels, Labels::new()),
    };
    if !is_name(name) {
        return Err(format!("`{name}` is no name"));
    }
    Ok(Sample { name: name.to_owned(), labels, value: number(value)? })
}

/// Label values here are names without characters that need escapes.
fn read_labels(text: &str) -> Result<Labels, String> {
    let mut labels = Labels::new();
    for label in text.split(',').filter(|_| !text.is_empty()) {
        let (key, value) = label.split_once('=').ok_or("a label without a value")?;
        let value =
            value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).ok_or("a value without quotes")?;
        if !is_name(key) || value.contains(['"', '\\', '{', '}']) || labels.insert(key.into(), value.into()).is_some() {
            return Err(format!("`{label}` is no label, or there twice"));
        }
    }
    Ok(labels)
}

fn is_name(name: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_name_byte) && name.starts_with(|first: char| !first.is_ascii_digit())
}

fn number(text: &str) -> Result<f64, String> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        text => text.parse().map_err(|_| format!("`{text}` is no number")),
    }
}
