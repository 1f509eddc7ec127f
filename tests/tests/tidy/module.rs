//! What the text of a module names: its items, its imports, and the paths in its code. The formatting
//! of rustfmt shows where items begin and end.

use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A path: `crate`, `limits`, `Policy`.
pub(crate) type Segments = Vec<String>;

static TEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r##"(?s)r#".*?"#|'\\?"'|"(?:[^"\\]|\\.)*""##).unwrap());
static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)(?:^|\s)//[^\n]*").unwrap());
/// An item for tests: a line, or all up to its closing brace.
static TESTS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^#\[cfg\((?:test|all\(test[^\n]*)\)\]\n(?:#\[[^\n]*\n)*(?:[^\n]*;\n|(?s:.*?)^\}\n)").unwrap()
});
static IMPORT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))? )?use ([^;]+);").unwrap());
static CHILD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^(?:pub(?:\([^)]*\))? )?mod (\w+);").unwrap());
static INLINE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^(?:pub(?:\([^)]*\))? )?mod \w+ \{").unwrap());
static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?m)^(?:pub(?:\([^)]*\))? )?(?:async |const |unsafe )*(?:struct|enum|union|trait|type|fn|const|static) (\w+)",
    )
    .unwrap()
});
static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+(?:::\w+)+").unwrap());
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+").unwrap());

/// One name that a module brings in.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    /// The name here; `*` for everything.
    pub(crate) name: String,
    pub(crate) path: Segments,
    /// Whether others see it, too.
    pub(crate) is_visible: bool,
}

/// What a module defines and names, without its tests.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) items: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    /// Paths in the code.
    pub(crate) mentions: BTreeSet<Segments>,
    pub(crate) words: BTreeSet<String>,
    /// Modules with a file of their own.
    pub(crate) children: Vec<String>,
}

impl Module {
    pub(crate) fn read(text: &str) -> Self {
        let text = COMMENT.replace_all(text, "");
        let text = TESTS.replace_all(&text, "");
        let text = TEXT.replace_all(&text, "\"\"");
        // What stands above a module inside the file is the file itself.
        let text = if INLINE.is_match(&text) { text.replace("    use super::", "    use self::") } else { text.into() };
        let code = IMPORT.replace_all(&text, "");
        let imports = IMPORT.captures_iter(&text).flat_map(|found| {
            let is_visible = found.get(1).is_some();
            let tree: String = found[2].replace(" as ", "@").split_whitespace().collect();
            branches(&tree).into_iter().map(move |path| import(&path, is_visible)).collect::<Vec<_>>()
        });
        Module {
            items: names(&ITEM, &code),
            imports: imports.collect(),
            mentions: PATH
                .find_iter(&code)
                .map(|path| path.as_str().split("::").map(str::to_owned).collect())
                .collect(),
            words: WORD.find_iter(&code).map(|word| word.as_str().to_owned()).collect(),
            children: names(&CHILD, &text),
        }
    }
}

fn names<T: FromIterator<String>>(named: &Regex, text: &str) -> T {
    named.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// The paths of a tree such as `a::{b, c::{self, d}}`.
fn branches(tree: &str) -> Vec<String> {
    let Some((front, inner)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inner = inner.strip_suffix('}').expect("a tree ends");
    let (mut depth, mut parts) = (0_usize, vec![String::new()]);
    for letter in inner.chars() {
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().expect("one part").push(letter),
        }
        depth = depth + usize::from(letter == '{') - usize::from(letter == '}');
    }
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.flat_map(|part| branches(part)).map(|part| format!("{front}{part}")).collect()
}

fn import(path: &str, is_visible: bool) -> Import {
    let (path, renamed) = path.split_once('@').map_or((path, None), |(path, name)| (path, Some(name)));
    let path: Segments = path.trim_end_matches("::self").split("::").map(str::to_owned).collect();
    let name = renamed.unwrap_or(path.last().expect("a path has a name")).to_owned();
    Import { name, path, is_visible }
}
