//! The files of the page.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Defines the table of files, by their names in the folder `page/assets` of this package.
macro_rules! assets {
    ($($name:literal),+ $(,)?) => {
        const ASSETS: &[Asset] = &[$(Asset {
            name: $name,
            path: concat!(env!("CARGO_MANIFEST_DIR"), "/page/assets/", $name),
            embedded: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/assets/", $name)),
        }),+];
    };
}

assets![
    "index.html",
    "page.css",
    "main.js",
    "dom.js",
    "live.js",
    "text.js",
    "overview.js",
    "resource.js",
    "waiting.js",
    "shares.js",
    "freezes.js",
    "chart.js",
    "rules.js",
    "schedulers.js",
    "jobs.js",
    "what-if.js",
    "uplot.js",
    "uplot.css",
    "uplot.LICENSE.txt",
];

struct Asset {
    name: &'static str,
    path: &'static str,
    embedded: &'static [u8],
}

impl Asset {
    fn find(name: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.name == name)
    }

    /// Returns the content. Debug builds read the source tree, so that a change shows without a rebuild.
    fn content(&self) -> Cow<'static, [u8]> {
        let changed = cfg!(debug_assertions).then(|| std::fs::read(self.path).ok()).flatten();
        changed.map_or(Cow::Borrowed(self.embedded), Cow::Owned)
    }
}

/// The page loads only its own files, and no document has an inline script or style.
const POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";
const INDEX: &str = "index.html";

pub(super) async fn index(headers: HeaderMap) -> Response {
    respond(INDEX, &headers)
}

pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    respond(&name, &headers)
}

fn respond(name: &str, asked: &HeaderMap) -> Response {
    let Some(asset) = Asset::find(name) else {
        return (StatusCode::NOT_FOUND, format!("the page has no file `{name}`\n")).into_response();
    };
    let content = asset.content();
    let tag = tag(&content);
    let is_known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    match is_known {
        true => (StatusCode::NOT_MODIFIED, headers(name, &tag)).into_response(),
        false => (headers(name, &tag), content).into_response(),
    }
}

fn headers(name: &str, tag: &str) -> [(HeaderName, HeaderValue); 6] {
    let tag = HeaderValue::try_from(tag).expect("hexadecimal digits in quotes");
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type(name))),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, tag),
    ]
}

/// Returns the entity tag, which changes with the content.
fn tag(content: &[u8]) -> String {
    let digits: String = Sha256::digest(content).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some(_) | None => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes of all files before compression, which leaves a third of them.
    const MOST: usize = 200 * 1024;

    fn text(asset: &Asset) -> &'static str {
        std::str::from_utf8(asset.embedded).unwrap()
    }

    #[test]
    fn all_files_are_small_together() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.embedded.len()).sum();
        assert!(bytes <= MOST, "{bytes} bytes");
    }

    #[test]
    fn every_file_of_the_folder_is_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page/assets");
        let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let missing: Vec<String> = names.filter(|name| Asset::find(name).is_none()).collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn no_document_has_a_script_or_a_style_of_its_own() {
        let text = text(Asset::find(INDEX).unwrap());
        for banned in ["<style", "style=", " on", "javascript:", "http:", "https:"] {
            let found = text.lines().find(|line| line.contains(banned) && line.contains('<'));
            assert_eq!(found, None, "{banned}");
        }
        let own = text.matches(" src=\"/assets/").count();
        assert_eq!((text.matches("<script").count(), text.matches("</script>").count()), (own, own));
    }

    /// Foreign texts are shown as text: no module makes HTML of them, or keeps a token.
    #[test]
    fn no_module_writes_html_or_keeps_anything() {
        let own = ASSETS.iter().filter(|asset| asset.name.ends_with(".js") && asset.name != "uplot.js");
        for asset in own {
            for banned in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval",
                "Function(",
                "Storage",
                "cookie",
                "setAttribute(\"style",
            ] {
                assert!(!text(asset).contains(banned), "{}: {banned}", asset.name);
            }
        }
    }
}
