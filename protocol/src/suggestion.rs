//! Suggestions for mistyped names.

/// Returns the known word closest to `word`, or `None` if all differ much.
#[must_use]
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).clamp(1, 3);
    let near = known.into_iter().map(|known| (distance(word, known), known)).filter(|(steps, _)| *steps <= most);
    near.min_by_key(|(steps, _)| *steps).map(|(_, known)| known)
}

/// Returns "; did you mean `x`?", or an empty string if no known word is close.
#[must_use]
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, known).map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

/// Joins the words, each quoted, into a list for people.
#[must_use]
pub fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Counts the letters that have to be changed, added, removed or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for row in 1..=one.len() {
        let mut steps = vec![row];
        for column in 1..=other.len() {
            let change = rows[row - 1][column - 1] + usize::from(one[row - 1] != other[column - 1]);
            let least = change.min(rows[row - 1][column] + 1).min(steps[column - 1] + 1);
            let is_swap =
                row > 1 && column > 1 && one[row - 1] == other[column - 2] && one[row - 2] == other[column - 1];
            steps.push(if is_swap { least.min(rows[row - 2][column - 2] + 1) } else { least });
        }
        rows.push(steps);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_word_is_suggested_if_it_is_close() {
        let known = ["interactive", "standard", "bulk"];
        for (word, meant) in [("standart", "standard"), ("bluk", "bulk"), ("interctve", "interactive")] {
            assert_eq!(closest(word, known), Some(meant), "{word}");
        }
        for word in ["", "urgent", "x", "standing-order"] {
            assert_eq!(closest(word, known), None, "{word}");
        }
        assert_eq!(did_you_mean("bluk", known), "; did you mean `bulk`?");
        assert_eq!(did_you_mean("urgent", known), "");
    }
}
