//! Findings in the words of a catalogue, and their presentation.

use crate::commands::output::human::wrapped;
use crate::commands::output::is_coloured;
use crate::commands::output::table::text_width;
use console::Style;
use rampmeter_protocol::name::Name;
use serde::{Deserialize, Serialize};

/// All faults with their texts, the most harmful first.
const CATALOGUE: &str = include_str!("faults.toml");
/// The name of causes of rejections that the catalogue lacks.
const OTHER_CAUSE: &str = "rejected";

#[derive(Debug, Deserialize)]
struct Catalogue {
    fault: Vec<Fault>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    name: String,
    /// One of `standstill`, `rejections`, `waits` and `risk`.
    harm: String,
    says: String,
    mend: String,
}

#[derive(Clone, Debug)]
pub(super) struct Symptom {
    /// The name of the fault in the catalogue.
    pub(super) fault: String,
    pub(super) resource: Option<Name>,
    /// The limit, class, scheduler or file concerned; may be empty.
    pub(super) it: String,
    pub(super) evidence: String,
}

/// A fault as people and programs read it.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    fault: String,
    harm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<Name>,
    says: String,
    evidence: String,
    mend: String,
}

/// Returns the findings in the order of the catalogue.
pub(super) fn ranked(symptoms: Vec<Symptom>) -> Vec<Finding> {
    let Catalogue { fault: faults } = toml::from_str(CATALOGUE).expect("the catalogue is TOML of this form");
    let rank = |name: &str| faults.iter().position(|fault| fault.name == name);
    let cause = |name: &str| rank(OTHER_CAUSE).filter(|_| name.starts_with(OTHER_CAUSE));
    let known = |name: &str| rank(name).or_else(|| cause(name)).expect("the catalogue has every fault");
    let mut ranked: Vec<_> = symptoms.into_iter().map(|symptom| (known(&symptom.fault), symptom)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(rank, symptom)| finding(&faults[rank], symptom)).collect()
}

fn finding(known: &Fault, Symptom { fault, resource, it, evidence }: Symptom) -> Finding {
    let name = resource.as_ref().map_or("", |name| name);
    let filled = |text: &str| text.replace("{resource}", name).replace("{it}", &it);
    let (harm, says, mend) = (known.harm.clone(), filled(&known.says), filled(&known.mend));
    Finding { fault, harm, resource, says, evidence, mend }
}

pub(super) fn page(findings: &[Finding]) -> String {
    let numbered = findings.iter().zip(1..);
    numbered.map(|(finding, number)| entry(number, finding)).collect::<Vec<_>>().join("\n")
}

fn entry(number: usize, Finding { harm, resource, says, evidence, mend, .. }: &Finding) -> String {
    let style = if harm == "risk" { Style::new() } else { Style::new().red() };
    let resource = resource.as_ref().map(|resource| format!("{resource}: ")).unwrap_or_default();
    let head = style.bold().force_styling(is_coloured()).apply_to(format!("{number}. {resource}{says}"));
    let below = |label: &str, text: &str| {
        let lines = wrapped(&format!("{label}: {text}"), text_width().saturating_sub(3));
        lines.lines().map(|line| format!("   {line}\n")).collect::<String>()
    };
    format!("{head} [{harm}]\n{}{}", below("seen", evidence), below("mend", mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symptom(fault: &str) -> Symptom {
        let resource = Some(Name::new("hub").unwrap());
        Symptom { fault: fault.to_owned(), resource, it: "few".to_owned(), evidence: "5 of 9".to_owned() }
    }

    #[test]
    fn the_catalogue_ranks_findings_and_has_words_for_causes_of_later_versions() {
        let found = ranked(["no-standby", "rejected-by-the-moon", "paused-by-operator"].map(symptom).to_vec());
        let names: Vec<&str> = found.iter().map(|finding| &*finding.fault).collect();
        assert_eq!(names, ["paused-by-operator", "rejected-by-the-moon", "no-standby"]);
        let expected = "1. hub: an operator has paused `few` [standstill]\n   seen: 5 of 9\n   \
                        mend: rampmeter thaw hub few\n\n2. hub: the upstream rejects calls [rejections]";
        assert!(page(&found).starts_with(expected), "{}", page(&found));
    }

    #[test]
    fn the_page_on_operations_has_each_fault() {
        let page = include_str!("../../../../docs/operations.md");
        let Catalogue { fault: faults } = toml::from_str(CATALOGUE).unwrap();
        for Fault { name, .. } in faults {
            assert!(page.contains(&format!("`{name}`")), "docs/operations.md lacks `{name}`");
        }
    }
}
