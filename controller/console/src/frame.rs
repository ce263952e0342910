//! The frame that all pages share: head, navigation and foot, and the parts that pages are made of. Every text goes
//! through `maud`, which escapes it: the name that a node, a template or a neighbour gives itself is shown as text.
//!
//! Absent: what a page shows (`page/`).

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use muster_api::user::{Role, Scope};
use muster_front::escaped;

use crate::client::Problem;
use crate::login::{Visitor, address};

/// The pages in the navigation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Fleet,
    Stacks,
    Rollouts,
    Devices,
    Network,
    Intents,
    Audit,
}

const SECTIONS: [(Section, &str, &str); 7] = [
    (Section::Fleet, "Fleet", "/console"),
    (Section::Stacks, "Stacks", "/console/stacks"),
    (Section::Rollouts, "Rollouts", "/console/rollouts"),
    (Section::Devices, "Flow tables", "/console/devices"),
    (Section::Network, "Network", "/console/network"),
    (Section::Intents, "Intents", "/console/intents"),
    (Section::Audit, "Audit", "/console/audit"),
];

/// A page.
pub struct Page {
    pub section: Section,
    pub title: String,
    /// Whether the page shows what changes by itself, and has no form that somebody fills.
    pub is_live: bool,
    pub content: Markup,
}

impl Visitor {
    /// The page, or its main part alone.
    pub fn page(&self, page: Page) -> Response {
        self.page_with(StatusCode::OK, page)
    }

    /// The page, with the status of what was asked for.
    pub fn page_with(&self, status: StatusCode, page: Page) -> Response {
        if self.is_part {
            return main(&page).into_response();
        }
        self.framed(status, &page)
    }

    /// The page that says why something was refused.
    pub fn refused(&self, problem: &Problem) -> Response {
        let title = match problem.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Not allowed",
            _ => "That was refused",
        };
        let content = html! {
            (errors(problem))
            p { a href="/console" { "Go to the fleet" } }
        };
        let page = Page { section: Section::Fleet, title: title.to_owned(), is_live: false, content };
        let mut answer = self.framed(problem.status, &page);
        if problem.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(RETRY_AFTER, axum::http::HeaderValue::from_static("1"));
        }
        answer
    }

    fn framed(&self, status: StatusCode, page: &Page) -> Response {
        let role = match self.caller.role {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        };
        let reach = Scope { label: self.caller.scope.clone(), stacks: self.caller.stacks.clone() };
        let (there, content) = (address(&self.uri), main(page));
        let body = html! {
            a.skip href="#main" { "Skip to the content" }
            header {
                a.brand href="/console" { (muster(&self.site)) }
                nav aria-label="Pages" {
                    ul {
                        @for (section, name, path) in SECTIONS {
                            li { a href=(path) aria-current=[(section == page.section).then_some("page")] { (name) } }
                        }
                    }
                }
                button id="pause" type="button" hidden aria-pressed="false" { "Pause updates" }
                form.who method="post" action="/console/logout" {
                    span { (self.caller.name) ", " (role) @if !reach.is_whole() { ", " (reach.to_string()) } }
                    (self.key())
                    button { "Log out" }
                }
            }
            p.note id="stale" role="status" hidden {
                "This page is not kept up to date any more. " a href=(there) { "Load it again" }
            }
            main id="main" tabindex="-1" data-live=[page.is_live.then_some(there)] data-mark=(mark(&content.0)) { (content) }
        };
        (status, document(&page.title, &body)).into_response()
    }

    /// The hidden field of each form.
    pub fn key(&self) -> Markup {
        html! { input type="hidden" name="key" value=(self.form_key); }
    }

    /// A button that asks for something; nothing for those who may not.
    pub fn button(&self, action: &str, does: &str, of: &str, words: &str) -> Markup {
        if !self.is_operator() {
            return html! {};
        }
        // When a page changes, no button takes the place of another one.
        let id = escaped(&format!("{action} {does} {of}"));
        html! {
            form.inline id=(id) method="post" action=(action) {
                (self.key())
                input type="hidden" name="does" value=(does);
                @if !of.is_empty() { input type="hidden" name="resource" value=(of); }
                button aria-label=[(!of.is_empty()).then(|| format!("{words} {of}"))] { (words) }
            }
        }
    }

    /// A button that is pressed in two steps, for what cannot be taken back.
    pub fn careful_button(&self, action: &str, does: &str, of: &str, words: &str) -> Markup {
        let id = escaped(&format!("sure {action} {does} {of}"));
        html! {
            @if self.is_operator() {
                details.inline id=(id) {
                    summary { (words) "…" }
                    (self.button(action, does, of, words))
                }
            }
        }
    }
}

fn main(page: &Page) -> Markup {
    html! {
        h1 { (page.title) }
        (page.content)
    }
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Muster" }
                link rel="stylesheet" href="/console/console.css";
                script src="/console/idiomorph.js" defer {}
                script src="/console/console.js" defer {}
            }
            body { (body) }
        }
    }
}

/// A page for somebody who is not logged in.
pub fn alone(status: StatusCode, title: &str, message: &str) -> Response {
    let body = html! {
        main id="main" {
            h1 { (title) }
            p { (message) }
            p { a href="/console" { "Try again" } }
        }
    };
    (status, document(title, &body)).into_response()
}

/// The name of the console, with that of a site which is not the first.
fn muster(site: &str) -> Markup {
    html! { "Muster" @if !site.is_empty() { " " (site) } }
}

/// The form to log in with.
pub fn login(
    status: StatusCode,
    site: &str,
    next: &str,
    error: Option<&str>,
    has_provider: bool,
) -> Response {
    let body = html! {
        main.login id="main" {
            h1 { "Log in to " (muster(site)) }
            @if let Some(error) = error {
                p.error role="alert" { (error) }
            }
            @if has_provider {
                p { a.button href={ "/console/login/oidc?next=" (escaped(next)) } { "Log in with OpenID Connect" } }
            }
            form method="post" action="/console/login" {
                input type="hidden" name="next" value=(next);
                label for="token" { "Your token" }
                input id="token" name="token" type="password" required autocomplete="current-password"
                    aria-describedby="about" spellcheck="false";
                p id="about" { "An admin makes it with " code { "muster user create NAME --role operator" } "." }
                button { "Log in" }
            }
        }
    };
    (status, document("Log in", &body)).into_response()
}

/// The errors of a refusal, with the places in a template.
pub fn errors(problem: &Problem) -> Markup {
    html! {
        div.error role="alert" {
            p { (problem.message) }
            @if !problem.errors.is_empty() {
                ul { @for error in &problem.errors { li { (error) } } }
            }
        }
    }
}

/// A state, in its colour.
pub fn badge(word: &str) -> Markup {
    let class = match word {
        "COMPLETE" | "online" | "INSTALLED" | "ADDED" | "in_sync" | "up" | "ok" | "watched" | "active" => {
            "good"
        }
        "FAILED" | "lost" | "missing" | "conflict" | "disk_full" | "CORRUPT" | "down" | "revoked"
        | "aborted" | "drifted" | "broken" => "bad",
        "IN_PROGRESS" | "going" | "INSTALLING" | "PENDING_ADD" | "PENDING_REMOVE" | "filling"
        | "WITHDRAWING" => "busy",
        _ => "calm",
    };
    html! { @if !word.is_empty() { span class={ "badge " (class) } { (word) } } }
}

/// The most bytes of a table's rows: with three tables and a picture a page has no more than 2 MB.
const TABLE_MAX: usize = 384 * 1024;
/// The most bytes of a picture.
const PICTURE_MAX: usize = 768 * 1024;

/// A table with a caption, in a box that scrolls by itself. Rows beyond [`TABLE_MAX`] are left out, and a note says so.
pub fn table(caption: &str, heads: &[&str], rows: &[Vec<Markup>]) -> Markup {
    let mut left = TABLE_MAX;
    let fits = rows.iter().take_while(|row| {
        let size: usize = row.iter().map(|cell| cell.0.len()).sum();
        left.checked_sub(size).map(|rest| left = rest).is_some()
    });
    let (all, rows) = (rows.len(), &rows[..fits.count()]);
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for row in rows {
                        tr { @for cell in row { td { (cell) } } }
                    }
                    @if all == 0 {
                        tr { td colspan=(heads.len()) { "None" } }
                    }
                }
            }
        }
        @if rows.len() < all {
            p.note { (all - rows.len()) " rows are too long for a page: " code { "muster" } " shows them." }
        }
    }
}

/// Names and values, those without a value left out.
pub fn list(rows: &[(&str, Markup)]) -> Markup {
    html! {
        dl {
            @for (name, value) in rows.iter().filter(|(_, value)| !value.0.is_empty()) {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// A text, as it is.
pub fn text(value: impl std::fmt::Display) -> Markup {
    html! { (value.to_string()) }
}

/// A link to a page of the console.
pub fn link(to: &str, words: &str) -> Markup {
    html! { a href=(to) { (words) } }
}

/// The link to what comes next in a list.
pub fn more(to: Option<String>) -> Markup {
    html! { @if let Some(to) = to { nav.pages aria-label="More" { a rel="next" href=(to) { "Next page" } } } }
}

/// A time of the API, for people.
pub fn when(time: &str) -> Markup {
    let short = time.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ");
    html! { @if !time.is_empty() { time datetime=(time) { (short) } } }
}

/// An SVG document of `muster-picture`, which escapes every text. It is drawn on a thread where it delays nobody.
pub async fn picture(name: &str, draw: impl FnOnce() -> String + Send + 'static) -> Markup {
    // The task fails if drawing panics, or when the runtime stops.
    let svg = tokio::task::spawn_blocking(draw).await.unwrap_or_default();
    if svg.len() > PICTURE_MAX {
        return html! { p.note { (name) ": the picture is too large for a page. " code { "muster" } " draws it." } };
    }
    html! { div.picture role="region" aria-label=(name) tabindex="0" { (PreEscaped(svg)) } }
}

/// Says that a list is cut, if it is.
pub fn cut(all: usize, shown: usize) -> Markup {
    html! { @if all > shown { p.note { "There are " (all) ": the first " (shown) " are shown." } } }
}

/// A text that others made, cut where it is too long for a cell.
pub fn cut_text(text: &str) -> String {
    const FITS: usize = 2000;
    match text.char_indices().nth(FITS) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… ({} more bytes)", &text[..at], text.len() - at),
    }
}

/// The first of many words, in one cell.
pub fn some(words: &[String]) -> Markup {
    const SHOWN: usize = 10;
    let more = words.len().saturating_sub(SHOWN);
    html! { (words[..words.len() - more].join(", ")) @if more > 0 { " and " (more) " more" } }
}

/// Tells two main parts of a page apart.
pub fn mark(main: &str) -> String {
    blake3::hash(main.as_bytes()).to_hex()[..16].to_owned()
}
